//! The console over TLS: who a viewer is by the certificate of the browser.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use fabricast_console::{App, Settings};
use fabricast_rpc::{Authority, BrowserTls, CertificateFiles, Security};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Writes a certificate of an authority to a folder.
fn issue(authority: &Authority, folder: &Path, identity: &str) {
    let (now, hosts) = (OffsetDateTime::now_utc(), ["127.0.0.1".to_owned()]);
    let identities = [identity.parse().unwrap()];
    let own = authority.issue(&identities, &hosts, now, Duration::days(1)).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    CertificateFiles::in_folder(folder).write(authority, &own).unwrap();
}

/// A console with TLS, and certificates of viewers.
struct World {
    folder: TempDir,
    console: SocketAddr,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let create = || Authority::create(OffsetDateTime::now_utc(), Duration::days(1)).unwrap();
        let (ours, other) = (create(), create());
        for (name, identity) in [
            ("console", "tic/console"),
            ("reader", "reader/rita"),
            ("admin", "admin/ann"),
            ("tenant", "tenant/acme"),
        ] {
            issue(&ours, &folder.path().join(name), identity);
        }
        issue(&other, &folder.path().join("eve"), "admin/eve");
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            tics: vec!["127.0.0.1:1".to_owned()], // nobody is there
            routers: vec!["127.0.0.1:1".to_owned()],
            security: Security::plaintext(),
            hosts: Vec::new(),
            tokens: Vec::new(),
            is_open: false,
            changes: Some(Security::plaintext()),
            tls: Some(BrowserTls::new(&folder.path().join("console")).unwrap()),
            evaluation: None,
            secret: [7; 32],
        };
        let app = App::bind(settings).await.unwrap();
        let console = app.address();
        tokio::spawn(app.run(CancellationToken::new()));
        Self { folder, console }
    }

    /// Status of the answer to a viewer; none if the connection is refused.
    async fn get(&self, who: Option<&str>, path: &str) -> Option<String> {
        let folder = self.folder.path().join(who.unwrap_or("reader"));
        let mut roots = RootCertStore::empty();
        let trusted = self.folder.path().join("console/ca.crt");
        roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match who {
            None => config.with_no_client_auth(),
            Some(_) => {
                let own = CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap();
                let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap();
                config.with_client_auth_cert(vec![own], key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.console).await.unwrap();
        let name = ServerName::from(self.console.ip());
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        let host = self.console;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        // A server may end a connection without the last message of TLS.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.split(' ').nth(1).map(str::to_owned)
    }
}

#[tokio::test]
async fn a_certificate_says_what_a_viewer_may_do() {
    let world = World::start().await;
    let act = "/act?do=expel&node=x";
    for (who, page, change) in [
        (None, "401", "401"),
        (Some("tenant"), "401", "401"),
        (Some("reader"), "200", "403"),
        (Some("admin"), "200", "404"), // there is no such node
    ] {
        assert_eq!(world.get(who, "/fabric").await.as_deref(), Some(page), "{who:?}");
        assert_eq!(world.get(who, act).await.as_deref(), Some(change), "{who:?}");
    }
    assert_eq!(world.get(Some("eve"), "/fabric").await, None, "of another authority");
}

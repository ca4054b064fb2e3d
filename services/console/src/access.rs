//! Admission to the console: the `Host` header against DNS rebinding, and the token (CONSOLE-1).

use std::net::{IpAddr, SocketAddr};

use fabricast_rpc::request_id;
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};

/// Name of the cookie of a signed-in viewer.
const COOKIE: &str = "fabricast_console";

/// Checks of every request.
#[derive(Debug)]
pub(crate) struct Access {
    /// Names that the console is called by, without port.
    hosts: Vec<String>,
    token: Option<Token>,
}

/// The token of a console, and the cookie of those who have shown it.
#[derive(Debug)]
struct Token {
    digest: [u8; 32],
    session: String,
}

impl Access {
    /// - `hosts`: more names, beside the address and those of this machine.
    pub(crate) fn new(listen: SocketAddr, hosts: &[String], token: Option<&str>) -> Self {
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into();
        all.push(match listen.ip() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        all.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        let token = token.map(|token| {
            // Another one after each start, that only this process can make.
            let secret = format!("{token} {} {}", request_id(), request_id());
            Token { digest: digest(token), session: hex(&digest(&secret)) }
        });
        Self { hosts: all, token }
    }

    /// True if the request names this console: a page of another site that has its name point here
    /// does not.
    pub(crate) fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) | None => host,
        };
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// True if the viewer has signed in, or need not.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let values = cookies.flat_map(|line| line.split(';'));
        let mut own = values.filter_map(|pair| pair.trim().split_once('='));
        own.any(|(name, value)| name == COOKIE && is_equal(&digest(value), &digest(&token.session)))
    }

    /// True if there is a token, so that there is something to sign in to.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Checks a token; returns the cookie of its bearer.
    pub(crate) fn sign_in(&self, shown: &str) -> Option<String> {
        let token = self.token.as_ref()?;
        is_equal(&digest(shown.trim()), &token.digest)
            .then(|| format!("{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/", token.session))
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Compares in a time that does not depend on the bytes.
fn is_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let listen = "127.0.0.1:7480".parse().unwrap();
        let access = Access::new(listen, &["console.example".to_owned()], None);
        for good in
            ["127.0.0.1:7480", "localhost", "LOCALHOST:1", "[::1]:80", "console.example:443"]
        {
            assert!(access.knows_host(&with(header::HOST, good)), "{good}");
        }
        for bad in ["", "evil.example", "localhost.evil.example:7480", "127.0.0.1:7480.evil", "::1"]
        {
            assert!(!access.knows_host(&with(header::HOST, bad)), "{bad}");
        }
        assert!(!access.knows_host(&HeaderMap::new()), "no host at all");
    }

    #[test]
    fn the_token_is_asked_for_once() {
        let access = Access::new("127.0.0.1:0".parse().unwrap(), &[], Some("secret"));
        assert!(!access.admits(&HeaderMap::new()));
        assert_eq!(access.sign_in("secre"), None);
        let cookie = access.sign_in(" secret\n").unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let pair = cookie.split(';').next().unwrap();
        assert!(access.admits(&with(header::COOKIE, &format!("a=b; {pair}"))));
        assert!(!access.admits(&with(header::COOKIE, "fabricast_console=secret")));
        let other = Access::new("127.0.0.1:0".parse().unwrap(), &[], Some("secret"));
        assert!(!other.admits(&with(header::COOKIE, pair)), "a cookie is of one start");
    }
}

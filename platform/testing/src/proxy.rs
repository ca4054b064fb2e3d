//! A TCP proxy that can be cut: bytes wait, and neither end sees an error.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to another address until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of `host:port`.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(target: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (open, is_open) = watch::channel(true);
        let task = tokio::spawn(accept(listener, target.to_owned(), is_open));
        Self { address, open, task }
    }

    /// Address of the proxy, `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts the proxy: bytes and new connections wait from now on.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Ends the cut: what waits is forwarded.
    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: String, open: watch::Receiver<bool>) {
    while let Ok((near, _)) = listener.accept().await {
        let (target, open) = (target.clone(), open.clone());
        tokio::spawn(async move {
            let mut opened = open.clone();
            if opened.wait_for(|open| *open).await.is_err() {
                return;
            }
            let Ok(far) = TcpStream::connect(target).await else { return };
            let ((near_read, near_write), (far_read, far_write)) =
                (near.into_split(), far.into_split());
            // The end of one direction ends both.
            tokio::select! {
                () = pass(near_read, far_write, open.clone()) => {}
                () = pass(far_read, near_write, open) => {}
            }
        });
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        if count == 0 || open.wait_for(|open| *open).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

//! A network in place of the system's, so that tests can simulate one below the shipped services.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::Stream;
use tonic::codegen::BoxFuture;

/// A connection in both directions.
pub trait Connection: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin + 'static> Connection for T {}

/// Connections that clients have opened, each with the client's address.
pub type Arriving =
    Pin<Box<dyn Stream<Item = io::Result<(Box<dyn Connection>, SocketAddr)>> + Send>>;

/// A network as one machine sees it.
pub trait Network: fmt::Debug + Send + Sync + 'static {
    /// Accepts connections at an address of this machine. Errors of the address may come with the
    /// first item.
    fn listen(&self, address: SocketAddr) -> Arriving;

    /// Connects to `host:port`.
    fn connect(&self, address: String) -> BoxFuture<Box<dyn Connection>, io::Error>;
}

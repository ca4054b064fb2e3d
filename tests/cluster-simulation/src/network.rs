//! The simulated network below all servers and clients.

use std::io;
use std::net::SocketAddr;

use fabricast_rpc::{Arriving, Connection, Network};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxFuture;
use turmoil::net::{TcpListener, TcpStream};

/// Connections that wait to be accepted.
const BACKLOG: usize = 64;

/// The network of the simulated host whose task calls it.
#[derive(Debug)]
pub(crate) struct SimulatedNetwork;

impl Network for SimulatedNetwork {
    fn listen(&self, address: SocketAddr) -> Arriving {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        tokio::spawn(accept(address, sender));
        Box::pin(ReceiverStream::new(receiver))
    }

    fn connect(&self, address: String) -> BoxFuture<Box<dyn Connection>, io::Error> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

type Arrived = io::Result<(Box<dyn Connection>, SocketAddr)>;

/// Accepts connections until the server is gone.
async fn accept(address: SocketAddr, sender: mpsc::Sender<Arrived>) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => return drop(sender.send(Err(error)).await),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let arrived =
            accepted.map(|(stream, from)| (Box::new(stream) as Box<dyn Connection>, from));
        if sender.send(arrived).await.is_err() {
            return;
        }
    }
}

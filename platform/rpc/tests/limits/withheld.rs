//! Calls whose requests do not come.

use super::*;

/// A service that counts calls, and waits for their requests.
#[derive(Clone, Default)]
struct CountedCalls(Arc<AtomicUsize>);

impl tonic::server::NamedService for CountedCalls {
    const NAME: &'static str = "fabricast.v1.TicService";
}

impl Service<http::Request<Body>> for CountedCalls {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        let answer = tower::service_fn(|_: tonic::Request<Bytes>| {
            std::future::ready(Ok::<_, Status>(tonic::Response::new(Vec::new())))
        });
        Box::pin(
            async move { Ok(tonic::server::Grpc::new(BytesCodec).unary(answer, request).await) },
        )
    }
}

/// Makes a call of [`CountedCalls`] whose request never comes; waits for its answer.
async fn withhold(mut channel: Channel) -> http::Response<Body> {
    let nothing = tokio_stream::pending::<Result<Frame<Bytes>, Status>>();
    let request = http::Request::post("/fabricast.v1.TicService/GetGroup")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(StreamBody::new(nothing)))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    channel.call(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_withhold_their_requests_shut_nobody_out() {
    const CLIENTS: usize = 5;
    /// Fewer than a connection may have, so that none waits for another.
    const CALLS: usize = 1_000;
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), Security::plaintext()).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let counted = CountedCalls::default();
    let serving = bound.serve(Services::new("tic").with(counted.clone()), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let mut withheld = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        // Without the time limit of a peer. On one machine each connection is a client.
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = Channel::new(endpoint.connect_lazy(), address.as_str().into());
        for _ in 0..CALLS {
            withheld.spawn(withhold(channel.clone()));
        }
    }
    in_time(async || match counted.0.load(Ordering::SeqCst) {
        begun if begun == CLIENTS * CALLS => Ok(()),
        begun => Err(Status::unknown(format!("{begun} have begun"))),
    })
    .await;
    for _ in 0..10 {
        ask(Peer::new(&address).unwrap().channel()).await.unwrap();
    }
    assert!(withheld.try_join_next().is_none(), "all of them go on");
}

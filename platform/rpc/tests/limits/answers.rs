//! Answers that clients are slow to take.

use super::*;

/// A service that answers each call at length, and counts answers.
#[derive(Clone, Default)]
struct LongAnswers(Arc<AnswerCounts>);

#[derive(Default)]
struct AnswerCounts {
    made: AtomicUsize,
    taken: AtomicUsize,
    /// Most that had been made and not taken when one more was made.
    open: AtomicUsize,
}

/// Bytes of one of them.
const LONG_ANSWER: usize = 8 << 20;

impl tonic::server::NamedService for LongAnswers {
    const NAME: &'static str = "fabricast.v1.TicService";
}

impl Service<http::Request<Body>> for LongAnswers {
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
        let counts = Arc::clone(&self.0);
        let answer = tower::service_fn(move |_: tonic::Request<Bytes>| {
            let made = counts.made.fetch_add(1, Ordering::SeqCst);
            let open = made - counts.taken.load(Ordering::SeqCst);
            counts.open.fetch_max(open, Ordering::SeqCst);
            std::future::ready(Ok::<_, Status>(tonic::Response::new(vec![0; LONG_ANSWER])))
        });
        Box::pin(
            async move { Ok(tonic::server::Grpc::new(BytesCodec).unary(answer, request).await) },
        )
    }
}

/// Makes a call of [`LongAnswers`] and takes nothing of the answer.
async fn ask_at_length(mut channel: Channel) -> http::Response<Body> {
    let request = http::Request::post("/fabricast.v1.TicService/GetGroup")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(http_body_util::Full::new(Bytes::from_static(&[0; 5]))))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    channel.call(request).await.unwrap()
}

#[tokio::test]
async fn a_client_that_takes_no_answers_gets_no_more_than_its_share_and_then_waits() {
    const CALLS: usize = 40;
    let share = 20 << 20;
    let limits = Limits { burst: 1_000, open_calls: 100, client_request_bytes: share, ..FEW };
    let security = Security::plaintext().limited(limits);
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let answers = LongAnswers::default();
    let serving = bound.serve(Services::new("tic").with(answers.clone()), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    // On one machine each connection is a client.
    let (slow, quick) = (Peer::new(&address).unwrap(), Peer::new(&address).unwrap());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        calls.spawn(ask_at_length(slow.channel()));
    }
    let mut untaken = Vec::new();
    while untaken.len() < 3 {
        untaken.push(calls.join_next().await.unwrap().unwrap());
    }
    ask(quick.channel()).await.unwrap();
    assert_eq!(answers.0.made.load(Ordering::SeqCst), 3, "the fourth waits");
    // Each that is given up makes room for one more.
    for _ in 3..CALLS {
        answers.0.taken.fetch_add(1, Ordering::SeqCst);
        drop(untaken.pop());
        let next = tokio::time::timeout(Duration::from_secs(30), calls.join_next()).await;
        untaken.push(next.expect("there is room").unwrap().unwrap());
    }
    assert!(answers.0.open.load(Ordering::SeqCst) < 3);
    assert!(untaken.iter().all(|answer| Status::from_header_map(answer.headers()).is_none()));
}

#[tokio::test]
async fn a_client_that_reads_gets_all_of_many_long_answers() {
    let limits = Limits { burst: 1_000, open_calls: 100, client_request_bytes: 20 << 20, ..FEW };
    let security = Security::plaintext().limited(limits);
    let bound = BoundServer::bind(([127, 0, 0, 1], 0).into(), security).unwrap();
    let (address, stop) = (bound.address().to_string(), CancellationToken::new());
    let serving = bound.serve(Services::new("tic").with(LongAnswers::default()), stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    let _serving = stop.drop_guard();
    let peer = Peer::new(&address).unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let channel = peer.channel();
        calls.spawn(async move {
            let whole = ask_at_length(channel).await.into_body().collect().await.unwrap();
            let trailers = whole.trailers().cloned().unwrap();
            assert_eq!(Status::from_header_map(&trailers).unwrap().code(), Code::Ok);
            whole.to_bytes().len()
        });
    }
    while let Some(length) = calls.join_next().await {
        // Flag and length come first.
        assert_eq!(length.unwrap(), LONG_ANSWER + 5);
    }
}

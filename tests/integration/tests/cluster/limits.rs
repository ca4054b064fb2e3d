//! Every listener of every part refuses what is too long before it has read it.

use fabricast_integration::{Cluster, Layout, soon};
use fabricast_proto::FILE_DESCRIPTOR_SET;
use fabricast_rpc::Channel;
use http_body_util::Full;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::bad_input::channel;

/// No part takes a message this long.
const LONG: u32 = (64 << 20) + 1;

/// Announces a message of so many bytes and sends none of them; answers the refusal.
async fn announce(channel: &Channel, method: &MethodDescriptor, bytes: u32) -> Option<Status> {
    let mut frame = vec![0];
    frame.extend(bytes.to_be_bytes());
    let request = http::Request::builder()
        .method(http::Method::POST)
        .uri(format!("/{}/{}", method.parent_service().full_name(), method.name()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::from(frame)))
        .unwrap();
    let answer = channel.clone().oneshot(request).await.unwrap();
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return Some(status);
    }
    // A stream is accepted first, and its first message refused then.
    let mut body = answer.into_body();
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        let trailers = frame.ok().and_then(|frame| frame.into_trailers().ok());
        if let Some(status) = trailers.as_ref().and_then(Status::from_header_map) {
            return Some(status);
        }
    }
    None
}

#[tokio::test]
async fn no_listener_takes_a_message_that_is_too_long() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut tried = 0;
    for service in pool.services().filter(|one| one.package_name() == "fabricast.v1") {
        let channel = channel(&cluster, service.name());
        for method in service.methods() {
            let refused = soon(announce(&channel, &method, LONG)).await;
            let code = refused.as_ref().map(Status::code);
            // A stream may also just end with what it cannot read.
            let ended = method.is_client_streaming() && code == Some(Code::Ok);
            let name = method.full_name();
            assert!(ended || code == Some(Code::OutOfRange), "{name}: {refused:?}");
            tried += 1;
        }
    }
    assert!(tried > 80, "{tried} calls");
}

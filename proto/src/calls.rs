//! Calls with one request, for the generated clients and servers.
//!
//! The code that tonic generates repeats encoder, decoder, body and stream for each call, in every
//! crate that makes or serves it. The generated code of this crate calls the functions below
//! instead (`xtask/src/proto/calls.rs`): they encode and decode messages, and share one copy of
//! tonic's code, over bytes.

use std::convert::Infallible;

use prost::Message;
use prost::bytes::{Buf, BufMut};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codec::{Codec, DecodeBuf, Decoder, EnabledCompressionEncodings, EncodeBuf, Encoder};
use tonic::codegen::http::{self, uri::PathAndQuery};
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::codegen::{Body as HttpBody, BoxFuture, Bytes, Pin, StdError};
use tonic::server::{ServerStreamingService, UnaryService};
use tonic::{GrpcMethod, Request, Response, Status};

/// Makes a call with one reply.
///
/// - `path`: service and method, `/package.Service/Method`.
pub(crate) async fn unary<T, M, R>(
    grpc: &mut tonic::client::Grpc<T>,
    path: &'static str,
    method: GrpcMethod<'static>,
    request: Request<M>,
) -> Result<Response<R>, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    M: Message,
    R: Message + Default,
{
    let request = request.map(|message| message.encode_to_vec());
    let (metadata, bytes, extensions) =
        unary_bytes(grpc, path, method, request).await?.into_parts();
    Ok(Response::from_parts(metadata, decode(&bytes)?, extensions))
}

async fn unary_bytes<T>(
    grpc: &mut tonic::client::Grpc<T>,
    path: &'static str,
    method: GrpcMethod<'static>,
    mut request: Request<Vec<u8>>,
) -> Result<Response<Bytes>, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unknown(format!("Service was not ready: {}", error.into())))?;
    request.extensions_mut().insert(method);
    grpc.unary(request, PathAndQuery::from_static(path), BytesCodec).await
}

/// Settings of a server.
#[derive(Clone, Copy)]
pub(crate) struct ServerLimits {
    pub(crate) accept_compression: EnabledCompressionEncodings,
    pub(crate) send_compression: EnabledCompressionEncodings,
    /// Bytes of a request at most.
    pub(crate) max_decoding: Option<usize>,
    /// Bytes of a reply at most.
    pub(crate) max_encoding: Option<usize>,
}

impl ServerLimits {
    fn grpc(self) -> tonic::server::Grpc<BytesCodec> {
        tonic::server::Grpc::new(BytesCodec)
            .apply_compression_config(self.accept_compression, self.send_compression)
            .apply_max_message_size_config(self.max_decoding, self.max_encoding)
    }
}

/// Serves a call with one reply.
pub(crate) fn serve_unary<B, M, R, F, A>(
    limits: ServerLimits,
    request: http::Request<B>,
    answer: F,
) -> BoxFuture<http::Response<Body>, Infallible>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
    M: Message + Default,
    R: Message,
    F: FnOnce(Request<M>) -> A + Send + 'static,
    A: Future<Output = Result<Response<R>, Status>> + Send,
{
    serve_unary_bytes(
        limits,
        request,
        UnaryBytes(Some(Box::new(|request| {
            Box::pin(async move {
                let reply = answer(decode_request(request)?).await?;
                Ok(reply.map(|message| message.encode_to_vec()))
            })
        }))),
    )
}

fn serve_unary_bytes<B>(
    limits: ServerLimits,
    request: http::Request<B>,
    service: UnaryBytes,
) -> BoxFuture<http::Response<Body>, Infallible>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    Box::pin(async move { Ok(limits.grpc().unary(service, request).await) })
}

/// Serves a call with a stream of replies.
pub(crate) fn serve_stream<B, M, R, S, F, A>(
    limits: ServerLimits,
    request: http::Request<B>,
    answer: F,
) -> BoxFuture<http::Response<Body>, Infallible>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
    M: Message + Default,
    R: Message,
    S: Stream<Item = Result<R, Status>> + Send + 'static,
    F: FnOnce(Request<M>) -> A + Send + 'static,
    A: Future<Output = Result<Response<S>, Status>> + Send,
{
    serve_stream_bytes(
        limits,
        request,
        StreamBytes(Some(Box::new(|request| {
            Box::pin(async move {
                let replies = answer(decode_request(request)?).await?;
                Ok(replies.map(|stream| -> BytesStream {
                    Box::pin(stream.map(|reply| reply.map(|message| message.encode_to_vec())))
                }))
            })
        }))),
    )
}

fn serve_stream_bytes<B>(
    limits: ServerLimits,
    request: http::Request<B>,
    service: StreamBytes,
) -> BoxFuture<http::Response<Body>, Infallible>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    Box::pin(async move { Ok(limits.grpc().server_streaming(service, request).await) })
}

type BytesStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;
type Answer<R> = Box<dyn FnOnce(Request<Bytes>) -> BoxFuture<Response<R>, Status> + Send>;

/// A call with one reply; it is made once.
struct UnaryBytes(Option<Answer<Vec<u8>>>);

impl UnaryService<Bytes> for UnaryBytes {
    type Response = Vec<u8>;
    type Future = BoxFuture<Response<Vec<u8>>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        call_once(&mut self.0, request)
    }
}

/// A call with a stream of replies; it is made once.
struct StreamBytes(Option<Answer<BytesStream>>);

impl ServerStreamingService<Bytes> for StreamBytes {
    type Response = Vec<u8>;
    type ResponseStream = BytesStream;
    type Future = BoxFuture<Response<BytesStream>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        call_once(&mut self.0, request)
    }
}

fn call_once<R: 'static>(
    answer: &mut Option<Answer<R>>,
    request: Request<Bytes>,
) -> BoxFuture<Response<R>, Status> {
    match answer.take() {
        Some(answer) => answer(request),
        None => Box::pin(async { Err(Status::internal("a call was answered twice")) }),
    }
}

fn decode_request<M: Message + Default>(request: Request<Bytes>) -> Result<Request<M>, Status> {
    let (metadata, extensions, bytes) = request.into_parts();
    Ok(Request::from_parts(metadata, extensions, decode(&bytes)?))
}

/// As tonic's decoder says it; the server turns it into `INVALID_ARGUMENT`.
fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// A codec for calls whose messages the caller encodes and decodes itself.
#[derive(Clone, Copy, Debug)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(message.len());
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length)))
    }
}

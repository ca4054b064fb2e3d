// Written by `cargo xtask proto` from proto/fabricast/v1/*.proto.
// Do not edit: change the .proto file and run the command again.
/// Request of GetServerInfo.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetServerInfoRequest {}
/// Response of GetServerInfo.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetServerInfoResponse {
    /// Parts served at this address, such as tic or router.
    #[prost(string, repeated, tag = "1")]
    pub roles: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Version of the program; after a + the commit, if the build was told it.
    #[prost(string, tag = "2")]
    pub version: ::prost::alloc::string::String,
    /// Time since the start.
    #[prost(message, optional, tag = "3")]
    pub uptime: ::core::option::Option<::prost_types::Duration>,
    /// Addresses of the other parts, as far as this one knows.
    #[prost(message, repeated, tag = "4")]
    pub peers: ::prost::alloc::vec::Vec<PeerAddress>,
    /// The leader, where several parts of this kind stand in for each other; left out where there is
    /// one only.
    #[prost(message, optional, tag = "5")]
    pub leadership: ::core::option::Option<Leadership>,
}
/// The active one of several parts that stand in for each other, as one of them knows it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Leadership {
    /// The one at this address is.
    #[prost(bool, tag = "1")]
    pub leads: bool,
    /// Address (host:port) of the one that is; empty if not known.
    #[prost(string, tag = "2")]
    pub address: ::prost::alloc::string::String,
    /// Grows with every change; 0 if not known.
    #[prost(uint64, tag = "3")]
    pub term: u64,
}
/// Address of another part.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PeerAddress {
    /// The part, such as switch-agent.
    #[prost(string, tag = "1")]
    pub role: ::prost::alloc::string::String,
    /// Its address (host:port).
    #[prost(string, tag = "2")]
    pub address: ::prost::alloc::string::String,
}
/// Request of GetMetrics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetMetricsRequest {}
/// Response of GetMetrics.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetMetricsResponse {
    /// The metrics in the OpenMetrics text format, as GET /metrics has them.
    #[prost(string, tag = "1")]
    pub text: ::prost::alloc::string::String,
}
/// Request of ListAudit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListAuditRequest {}
/// Response of ListAudit.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListAuditResponse {
    /// The newest lines since the start of the process, oldest first: at most 256 of administrators
    /// and parts, 256 of tenants, and 256 of refused calls of readers and tenants. Those of all parts
    /// that run in one process.
    #[prost(message, repeated, tag = "1")]
    pub lines: ::prost::alloc::vec::Vec<AuditLine>,
}
/// A line of the audit: a change, and who made it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AuditLine {
    /// Time of the change.
    #[prost(message, optional, tag = "1")]
    pub time: ::core::option::Option<::prost_types::Timestamp>,
    /// Identity of a person or of a program that acts as one, or the role of a part.
    #[prost(string, tag = "2")]
    pub caller: ::prost::alloc::string::String,
    /// Name of the call: a verb and its object.
    #[prost(string, tag = "3")]
    pub call: ::prost::alloc::string::String,
    /// gRPC code of the result, such as OK.
    #[prost(string, tag = "4")]
    pub code: ::prost::alloc::string::String,
    /// The request as JSON, cut after a thousand characters.
    #[prost(string, tag = "5")]
    pub request: ::prost::alloc::string::String,
}
/// Generated client implementations.
pub mod administration_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Served by every part: what is running here.
    #[derive(Debug, Clone)]
    pub struct AdministrationServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl AdministrationServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> AdministrationServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> AdministrationServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            AdministrationServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Says which part this is, its version and where its peers are.
        /// Errors: none of its own.
        pub async fn get_server_info(
            &mut self,
            request: impl tonic::IntoRequest<super::GetServerInfoRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetServerInfoResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.AdministrationService",
                "GetServerInfo",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.AdministrationService/GetServerInfo",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Returns the metrics of this process.
        /// Errors: none of its own.
        pub async fn get_metrics(
            &mut self,
            request: impl tonic::IntoRequest<super::GetMetricsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetMetricsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.AdministrationService",
                "GetMetrics",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.AdministrationService/GetMetrics",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the latest lines of the audit that this process has written.
        /// Errors: none of its own.
        pub async fn list_audit(
            &mut self,
            request: impl tonic::IntoRequest<super::ListAuditRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListAuditResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.AdministrationService",
                "ListAudit",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.AdministrationService/ListAudit",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod administration_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with AdministrationServiceServer.
    #[async_trait]
    pub trait AdministrationService: std::marker::Send + std::marker::Sync + 'static {
        /// Says which part this is, its version and where its peers are.
        /// Errors: none of its own.
        async fn get_server_info(
            &self,
            request: tonic::Request<super::GetServerInfoRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetServerInfoResponse>,
            tonic::Status,
        >;
        /// Returns the metrics of this process.
        /// Errors: none of its own.
        async fn get_metrics(
            &self,
            request: tonic::Request<super::GetMetricsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetMetricsResponse>,
            tonic::Status,
        >;
        /// Lists the latest lines of the audit that this process has written.
        /// Errors: none of its own.
        async fn list_audit(
            &self,
            request: tonic::Request<super::ListAuditRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListAuditResponse>,
            tonic::Status,
        >;
    }
    /// Served by every part: what is running here.
    #[derive(Debug)]
    pub struct AdministrationServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> AdministrationServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for AdministrationServiceServer<T>
    where
        T: AdministrationService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.AdministrationService/GetServerInfo" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as AdministrationService>::get_server_info(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.AdministrationService/GetMetrics" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as AdministrationService>::get_metrics(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.AdministrationService/ListAudit" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as AdministrationService>::list_audit(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for AdministrationServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.AdministrationService";
    impl<T> tonic::server::NamedService for AdministrationServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// One entry of a multicast table.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableEntry {
    /// Required with per-port tables: physical number of the input port. 0 with per-switch tables.
    #[prost(uint32, tag = "1")]
    pub in_port: u32,
    /// Required. Entry index, below the number of entries of the table.
    #[prost(uint32, tag = "2")]
    pub color: u32,
    /// Required. Physical output ports, ascending. Empty: the entry is removed.
    #[prost(uint32, repeated, tag = "3")]
    pub out_ports: ::prost::alloc::vec::Vec<u32>,
}
/// Term and generation of a write: older ones than the newest are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Fence {
    /// Required. Term of the route service.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Required. Generation of the plan within the term.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
}
/// The multicast table of one switch.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SwitchTable {
    /// Required. Node id of the switch.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Output only. All entries, ordered by input port and color.
    #[prost(message, repeated, tag = "2")]
    pub entries: ::prost::alloc::vec::Vec<TableEntry>,
    /// Output only. The newest fence that wrote to the switch; absent if nobody did since power-on.
    #[prost(message, optional, tag = "3")]
    pub fence: ::core::option::Option<Fence>,
}
/// Entries of one switch to be written; the other entries stay.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SwitchWrite {
    /// Required. Node id of the switch.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Entries to write.
    #[prost(message, repeated, tag = "2")]
    pub entries: ::prost::alloc::vec::Vec<TableEntry>,
}
/// A switch and what it offers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Switch {
    /// Output only. Node id.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Output only. Node description.
    #[prost(string, tag = "2")]
    pub description: ::prost::alloc::string::String,
    /// Output only. Number of physical ports.
    #[prost(uint32, tag = "3")]
    pub port_count: u32,
    /// Output only. Per port or per switch.
    #[prost(enumeration = "TableKind", tag = "4")]
    pub table_kind: i32,
    /// Output only. Entries a table has.
    #[prost(uint32, tag = "5")]
    pub colors: u32,
    /// Output only. True if the switch answers.
    #[prost(bool, tag = "6")]
    pub live: bool,
    /// Output only. Largest number of entries used in any of its tables.
    #[prost(uint32, tag = "7")]
    pub used_entries: u32,
}
/// State and counters of one switch port.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortStatus {
    /// Output only. Physical number.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// Output only. Name of the switch or endpoint at the other end; empty if no cable is plugged in.
    #[prost(string, tag = "2")]
    pub peer: ::prost::alloc::string::String,
    /// Output only. Port number at the other end; 0 for an endpoint.
    #[prost(uint32, tag = "3")]
    pub peer_port: u32,
    /// Output only. True if packets can cross.
    #[prost(bool, tag = "4")]
    pub live: bool,
    /// Output only. Packets received.
    #[prost(uint64, tag = "5")]
    pub received_packets: u64,
    /// Output only. Packets sent.
    #[prost(uint64, tag = "6")]
    pub sent_packets: u64,
    /// Output only. Packets that arrived here and were dropped.
    #[prost(uint64, tag = "7")]
    pub dropped_packets: u64,
}
/// Counters of one switch port since its switch was powered on or they were cleared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortCounters {
    /// Output only. Physical number.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// Output only. Packets received.
    #[prost(uint64, tag = "2")]
    pub received_packets: u64,
    /// Output only. Packets sent.
    #[prost(uint64, tag = "3")]
    pub sent_packets: u64,
    /// Output only. Bytes received.
    #[prost(uint64, tag = "4")]
    pub received_bytes: u64,
    /// Output only. Bytes sent.
    #[prost(uint64, tag = "5")]
    pub sent_bytes: u64,
    /// Output only. Packets dropped: nothing led on from here, or what should have gone out here could
    /// not.
    #[prost(uint64, tag = "6")]
    pub dropped_packets: u64,
}
/// The port counters of one switch.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SwitchCounters {
    /// Output only. Node id of the switch.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Output only. Its ports with a counter, ordered by number.
    #[prost(message, repeated, tag = "2")]
    pub ports: ::prost::alloc::vec::Vec<PortCounters>,
}
/// A switch that took no write.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SwitchRefusal {
    /// Node id.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Reason, such as UNKNOWN_SWITCH, SWITCH_DOWN, WRITE_FAILED, BAD_ENTRY or STALE_FENCE.
    #[prost(string, tag = "2")]
    pub reason: ::prost::alloc::string::String,
    /// The details.
    #[prost(string, tag = "3")]
    pub message: ::prost::alloc::string::String,
}
/// Layout of multicast entries in switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum TableKind {
    /// Never sent.
    Unspecified = 0,
    /// Every input port has a table of its own.
    PerPort = 1,
    /// One table serves the whole switch, as in InfiniBand.
    PerSwitch = 2,
}
impl TableKind {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "TABLE_KIND_UNSPECIFIED",
            Self::PerPort => "TABLE_KIND_PER_PORT",
            Self::PerSwitch => "TABLE_KIND_PER_SWITCH",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TABLE_KIND_UNSPECIFIED" => Some(Self::Unspecified),
            "TABLE_KIND_PER_PORT" => Some(Self::PerPort),
            "TABLE_KIND_PER_SWITCH" => Some(Self::PerSwitch),
            _ => None,
        }
    }
}
/// Kind of node that holds aggregation entries.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationPlace {
    /// The place.
    #[prost(oneof = "aggregation_place::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<aggregation_place::Kind>,
}
/// Nested message and enum types in `AggregationPlace`.
pub mod aggregation_place {
    /// The place.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// A switch, by node id.
        #[prost(string, tag = "1")]
        SwitchName(::prost::alloc::string::String),
        /// The adapter of an endpoint, by its name.
        #[prost(string, tag = "2")]
        Endpoint(::prost::alloc::string::String),
    }
}
/// A process of a collective at its endpoint.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationProcess {
    /// Required. Its number in the collective, from 0.
    #[prost(uint32, tag = "1")]
    pub process: u32,
    /// Required. Its endpoint.
    #[prost(string, tag = "2")]
    pub endpoint: ::prost::alloc::string::String,
}
/// A node of an aggregation tree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationNode {
    /// The node.
    #[prost(oneof = "aggregation_node::Kind", tags = "1, 2")]
    pub kind: ::core::option::Option<aggregation_node::Kind>,
}
/// Nested message and enum types in `AggregationNode`.
pub mod aggregation_node {
    /// The node.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// A switch, by node id.
        #[prost(string, tag = "1")]
        SwitchName(::prost::alloc::string::String),
        /// A process and its adapter.
        #[prost(message, tag = "2")]
        Process(super::AggregationProcess),
    }
}
/// One entry: whose packets of a tree somebody combines, and where the result goes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AggregationEntry {
    /// Required. Number of the tree; packets carry it.
    #[prost(uint32, tag = "1")]
    pub tree: u32,
    /// Required. Switch or adapter that holds the entry.
    #[prost(message, optional, tag = "2")]
    pub holder: ::core::option::Option<AggregationNode>,
    /// Optional. Receiver of the result; left out at the root, which sends it back down.
    #[prost(message, optional, tag = "3")]
    pub parent: ::core::option::Option<AggregationNode>,
    /// Required. Senders to the holder, in the order of combination.
    #[prost(message, repeated, tag = "4")]
    pub children: ::prost::alloc::vec::Vec<AggregationNode>,
}
/// A tree with all its entries. A number is never used for two trees.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AggregationTree {
    /// Number of the tree.
    #[prost(uint32, tag = "1")]
    pub tree: u32,
    /// Its entries, the root's first.
    #[prost(message, repeated, tag = "2")]
    pub entries: ::prost::alloc::vec::Vec<AggregationEntry>,
}
/// An entry by who holds it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationKey {
    /// Required. Number of the tree.
    #[prost(uint32, tag = "1")]
    pub tree: u32,
    /// Required. Switch or adapter that holds the entry.
    #[prost(message, optional, tag = "2")]
    pub holder: ::core::option::Option<AggregationNode>,
}
/// The aggregation entries of one place.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AggregationTable {
    /// The place.
    #[prost(message, optional, tag = "1")]
    pub place: ::core::option::Option<AggregationPlace>,
    /// Its entries, by tree.
    #[prost(message, repeated, tag = "2")]
    pub entries: ::prost::alloc::vec::Vec<AggregationEntry>,
    /// The newest fence that wrote to it; left out if nobody did since power-on.
    #[prost(message, optional, tag = "3")]
    pub fence: ::core::option::Option<Fence>,
}
/// Changes of one place: what is removed goes first.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AggregationWrite {
    /// Required. The place.
    #[prost(message, optional, tag = "1")]
    pub place: ::core::option::Option<AggregationPlace>,
    /// Optional. Entries that go; one that is not there is no error.
    #[prost(message, repeated, tag = "2")]
    pub removed: ::prost::alloc::vec::Vec<AggregationKey>,
    /// Optional. Entries that come; one that is there already must be the same.
    #[prost(message, repeated, tag = "3")]
    pub added: ::prost::alloc::vec::Vec<AggregationEntry>,
}
/// A place that took no write.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AggregationRefusal {
    /// The place.
    #[prost(message, optional, tag = "1")]
    pub place: ::core::option::Option<AggregationPlace>,
    /// Reason, such as UNKNOWN_SWITCH, SWITCH_DOWN, BAD_ENTRY, LIMIT_REACHED or STALE_FENCE.
    #[prost(string, tag = "2")]
    pub reason: ::prost::alloc::string::String,
    /// The details.
    #[prost(string, tag = "3")]
    pub message: ::prost::alloc::string::String,
}
/// Signed integers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SignedValues {
    /// The numbers.
    #[prost(sint64, repeated, tag = "1")]
    pub values: ::prost::alloc::vec::Vec<i64>,
}
/// Unsigned integers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UnsignedValues {
    /// The numbers.
    #[prost(uint64, repeated, tag = "1")]
    pub values: ::prost::alloc::vec::Vec<u64>,
}
/// Floating-point numbers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FloatValues {
    /// The numbers.
    #[prost(double, repeated, tag = "1")]
    pub values: ::prost::alloc::vec::Vec<f64>,
}
/// A message of a collective: numbers of one type.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CollectiveValues {
    /// The numbers.
    #[prost(oneof = "collective_values::Kind", tags = "1, 2, 3")]
    pub kind: ::core::option::Option<collective_values::Kind>,
}
/// Nested message and enum types in `CollectiveValues`.
pub mod collective_values {
    /// The numbers.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// Signed integers.
        #[prost(message, tag = "1")]
        SignedValues(super::SignedValues),
        /// Unsigned integers.
        #[prost(message, tag = "2")]
        UnsignedValues(super::UnsignedValues),
        /// Floating-point numbers.
        #[prost(message, tag = "3")]
        FloatValues(super::FloatValues),
    }
}
/// Parameters of one run of a collective; the same from all processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveWork {
    /// Required. The operation.
    #[prost(enumeration = "CollectiveOperation", tag = "1")]
    pub operation: i32,
    /// Required for reduce and all-reduce. The way to combine values.
    #[prost(enumeration = "Reduction", tag = "2")]
    pub reduction: i32,
    /// For broadcast and reduce. The process that sends or gets the values.
    #[prost(uint32, tag = "3")]
    pub root_process: u32,
}
/// Operator of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum Reduction {
    /// Never sent where values are combined.
    Unspecified = 0,
    /// The sum; of integers modulo 2^64.
    Sum = 1,
    /// The least; floating-point numbers in the order of IEEE 754's totalOrder.
    Min = 2,
    /// The greatest, in the same order.
    Max = 3,
    /// Bits that all have; of integers only.
    And = 4,
    /// Bits that one has; of integers only.
    Or = 5,
    /// Bits that an odd count has; of integers only. Switches do not combine this and what follows.
    Xor = 6,
    /// The product; of integers modulo 2^32 or 2^64.
    Product = 7,
    /// 1 if all integers are not 0, otherwise 0.
    LogicalAnd = 8,
    /// 1 if one integer is not 0, otherwise 0.
    LogicalOr = 9,
    /// 1 if an odd count of integers is not 0, otherwise 0.
    LogicalXor = 10,
    /// Of pairs of a value and its place, two numbers of one type, the one with the least value, and
    /// of equal values that with the lowest place.
    MinLoc = 11,
    /// The one with the greatest value likewise.
    MaxLoc = 12,
}
impl Reduction {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "REDUCTION_UNSPECIFIED",
            Self::Sum => "REDUCTION_SUM",
            Self::Min => "REDUCTION_MIN",
            Self::Max => "REDUCTION_MAX",
            Self::And => "REDUCTION_AND",
            Self::Or => "REDUCTION_OR",
            Self::Xor => "REDUCTION_XOR",
            Self::Product => "REDUCTION_PRODUCT",
            Self::LogicalAnd => "REDUCTION_LOGICAL_AND",
            Self::LogicalOr => "REDUCTION_LOGICAL_OR",
            Self::LogicalXor => "REDUCTION_LOGICAL_XOR",
            Self::MinLoc => "REDUCTION_MIN_LOC",
            Self::MaxLoc => "REDUCTION_MAX_LOC",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "REDUCTION_UNSPECIFIED" => Some(Self::Unspecified),
            "REDUCTION_SUM" => Some(Self::Sum),
            "REDUCTION_MIN" => Some(Self::Min),
            "REDUCTION_MAX" => Some(Self::Max),
            "REDUCTION_AND" => Some(Self::And),
            "REDUCTION_OR" => Some(Self::Or),
            "REDUCTION_XOR" => Some(Self::Xor),
            "REDUCTION_PRODUCT" => Some(Self::Product),
            "REDUCTION_LOGICAL_AND" => Some(Self::LogicalAnd),
            "REDUCTION_LOGICAL_OR" => Some(Self::LogicalOr),
            "REDUCTION_LOGICAL_XOR" => Some(Self::LogicalXor),
            "REDUCTION_MIN_LOC" => Some(Self::MinLoc),
            "REDUCTION_MAX_LOC" => Some(Self::MaxLoc),
            _ => None,
        }
    }
}
/// Kind of collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum CollectiveOperation {
    /// Never sent.
    Unspecified = 0,
    /// Nobody goes on before everybody has come.
    Barrier = 1,
    /// One process's values to all.
    Broadcast = 2,
    /// All processes' values, combined, to one.
    Reduce = 3,
    /// All processes' values, combined, to all.
    AllReduce = 4,
}
impl CollectiveOperation {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "COLLECTIVE_OPERATION_UNSPECIFIED",
            Self::Barrier => "COLLECTIVE_OPERATION_BARRIER",
            Self::Broadcast => "COLLECTIVE_OPERATION_BROADCAST",
            Self::Reduce => "COLLECTIVE_OPERATION_REDUCE",
            Self::AllReduce => "COLLECTIVE_OPERATION_ALL_REDUCE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "COLLECTIVE_OPERATION_UNSPECIFIED" => Some(Self::Unspecified),
            "COLLECTIVE_OPERATION_BARRIER" => Some(Self::Barrier),
            "COLLECTIVE_OPERATION_BROADCAST" => Some(Self::Broadcast),
            "COLLECTIVE_OPERATION_REDUCE" => Some(Self::Reduce),
            "COLLECTIVE_OPERATION_ALL_REDUCE" => Some(Self::AllReduce),
            _ => None,
        }
    }
}
/// Request of ReadFabricAggregation.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadFabricAggregationRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Optional. Node ids; empty means all. Adapters behind the switches named are read with them.
    #[prost(string, repeated, tag = "2")]
    pub switch_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Response of ReadFabricAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadFabricAggregationResponse {
    /// The entries of one switch, or of one adapter that holds some.
    #[prost(message, optional, tag = "1")]
    pub table: ::core::option::Option<AggregationTable>,
}
/// Request of WriteFabricAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteFabricAggregationRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Required. Term and generation of the writer.
    #[prost(message, optional, tag = "2")]
    pub fence: ::core::option::Option<Fence>,
    /// Required. Entries to write, at most one part per place.
    #[prost(message, repeated, tag = "3")]
    pub writes: ::prost::alloc::vec::Vec<AggregationWrite>,
}
/// Response of WriteFabricAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteFabricAggregationResponse {
    /// Places whose part was refused; theirs changed nothing.
    #[prost(message, repeated, tag = "1")]
    pub refusals: ::prost::alloc::vec::Vec<AggregationRefusal>,
}
/// Request of ContributeValues.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContributeValuesRequest {
    /// Required. Number of the tree.
    #[prost(uint32, tag = "1")]
    pub tree: u32,
    /// Required. Number of the run: one that no run on this tree had before.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// Required. Process and endpoint.
    #[prost(message, optional, tag = "3")]
    pub process: ::core::option::Option<AggregationProcess>,
    /// Required. Number of processes that take part.
    #[prost(uint32, tag = "4")]
    pub process_count: u32,
    /// Required. Receiver: its switch, or in an adapter tree the parent of the process, or itself
    /// if it has children.
    #[prost(message, optional, tag = "5")]
    pub to: ::core::option::Option<AggregationNode>,
    /// Required. Kind of the operation.
    #[prost(message, optional, tag = "6")]
    pub work: ::core::option::Option<CollectiveWork>,
    /// Optional. The values; left out for a barrier and by those who only receive.
    #[prost(message, optional, tag = "7")]
    pub values: ::core::option::Option<CollectiveValues>,
    /// Optional. The run is given up if it has not ended by then; 5 s if left out, at most 9 s.
    #[prost(message, optional, tag = "8")]
    pub timeout: ::core::option::Option<::prost_types::Duration>,
}
/// Response of ContributeValues.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ContributeValuesResponse {
    /// Result for the process; left out where it gets none.
    #[prost(message, optional, tag = "1")]
    pub values: ::core::option::Option<CollectiveValues>,
}
/// Request of ReadAggregation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadAggregationRequest {}
/// Response of ReadAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadAggregationResponse {
    /// The entries of one place.
    #[prost(message, optional, tag = "1")]
    pub table: ::core::option::Option<AggregationTable>,
}
/// Request of WriteAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteAggregationRequest {
    /// Required. Term and generation of the writer.
    #[prost(message, optional, tag = "1")]
    pub fence: ::core::option::Option<Fence>,
    /// Required. Entries to write, at most one part per place.
    #[prost(message, repeated, tag = "2")]
    pub writes: ::prost::alloc::vec::Vec<AggregationWrite>,
}
/// Response of WriteAggregation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteAggregationResponse {
    /// Places whose part was refused; theirs changed nothing.
    #[prost(message, repeated, tag = "1")]
    pub refusals: ::prost::alloc::vec::Vec<AggregationRefusal>,
}
/// Generated client implementations.
pub mod fabric_aggregation_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// The aggregation engines of the emulated fabric's switches and adapters.
    #[derive(Debug, Clone)]
    pub struct FabricAggregationServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl FabricAggregationServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> FabricAggregationServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> FabricAggregationServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            FabricAggregationServiceClient::new(
                InterceptedService::new(inner, interceptor),
            )
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Reads aggregation entries; for switch agents. A dead place says nothing.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        pub async fn read_fabric_aggregation(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadFabricAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<
                tonic::codec::Streaming<super::ReadFabricAggregationResponse>,
            >,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.FabricAggregationService/ReadFabricAggregation",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.FabricAggregationService",
                        "ReadFabricAggregation",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Writes aggregation entries, a place's part all or nothing; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, ABORTED / STALE_FENCE (nothing was written),
        /// INVALID_ARGUMENT / FIELD_MISSING; a part that a place refuses is named in the answer:
        /// UNKNOWN_SWITCH, UNKNOWN_ENDPOINT, SWITCH_DOWN, LIMIT_REACHED or BAD_ENTRY.
        pub async fn write_fabric_aggregation(
            &mut self,
            request: impl tonic::IntoRequest<super::WriteFabricAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteFabricAggregationResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.FabricAggregationService",
                "WriteFabricAggregation",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricAggregationService/WriteFabricAggregation",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Sends the part of one process to a run of a collective, and waits for its end.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / PAYLOAD_TOO_LONG, INVALID_ARGUMENT / CONTRIBUTION_INVALID,
        /// PERMISSION_DENIED / NOT_PERMITTED (another caller has attached the endpoint, or the tree has no
        /// such process), RESOURCE_EXHAUSTED / LIMIT_REACHED, ABORTED / COLLECTIVE_FAILED (no wrong value
        /// came of it: do it again with a new sequence number; also if nobody has attached the endpoint).
        pub async fn contribute_values(
            &mut self,
            request: impl tonic::IntoRequest<super::ContributeValuesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ContributeValuesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.FabricAggregationService",
                "ContributeValues",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricAggregationService/ContributeValues",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod fabric_aggregation_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with FabricAggregationServiceServer.
    #[async_trait]
    pub trait FabricAggregationService: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the ReadFabricAggregation method.
        type ReadFabricAggregationStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::ReadFabricAggregationResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Reads aggregation entries; for switch agents. A dead place says nothing.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        async fn read_fabric_aggregation(
            &self,
            request: tonic::Request<super::ReadFabricAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReadFabricAggregationStream>,
            tonic::Status,
        >;
        /// Writes aggregation entries, a place's part all or nothing; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, ABORTED / STALE_FENCE (nothing was written),
        /// INVALID_ARGUMENT / FIELD_MISSING; a part that a place refuses is named in the answer:
        /// UNKNOWN_SWITCH, UNKNOWN_ENDPOINT, SWITCH_DOWN, LIMIT_REACHED or BAD_ENTRY.
        async fn write_fabric_aggregation(
            &self,
            request: tonic::Request<super::WriteFabricAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteFabricAggregationResponse>,
            tonic::Status,
        >;
        /// Sends the part of one process to a run of a collective, and waits for its end.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / PAYLOAD_TOO_LONG, INVALID_ARGUMENT / CONTRIBUTION_INVALID,
        /// PERMISSION_DENIED / NOT_PERMITTED (another caller has attached the endpoint, or the tree has no
        /// such process), RESOURCE_EXHAUSTED / LIMIT_REACHED, ABORTED / COLLECTIVE_FAILED (no wrong value
        /// came of it: do it again with a new sequence number; also if nobody has attached the endpoint).
        async fn contribute_values(
            &self,
            request: tonic::Request<super::ContributeValuesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ContributeValuesResponse>,
            tonic::Status,
        >;
    }
    /// The aggregation engines of the emulated fabric's switches and adapters.
    #[derive(Debug)]
    pub struct FabricAggregationServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> FabricAggregationServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for FabricAggregationServiceServer<T>
    where
        T: FabricAggregationService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.FabricAggregationService/ReadFabricAggregation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricAggregationService>::read_fabric_aggregation(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricAggregationService/WriteFabricAggregation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricAggregationService>::write_fabric_aggregation(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricAggregationService/ContributeValues" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricAggregationService>::contribute_values(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for FabricAggregationServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.FabricAggregationService";
    impl<T> tonic::server::NamedService for FabricAggregationServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod switch_aggregation_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Aggregation engines as a switch agent reaches them.
    #[derive(Debug, Clone)]
    pub struct SwitchAggregationServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl SwitchAggregationServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> SwitchAggregationServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> SwitchAggregationServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            SwitchAggregationServiceClient::new(
                InterceptedService::new(inner, interceptor),
            )
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Reads the aggregation entries of this agent's switches and of the adapters behind them, a place
        /// per message.
        /// Errors: UNAVAILABLE / FABRIC_UNAVAILABLE, FAILED_PRECONDITION / NO_AGGREGATION (the hardware
        /// has no such engines).
        pub async fn read_aggregation(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReadAggregationResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.SwitchAggregationService/ReadAggregation",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.SwitchAggregationService",
                        "ReadAggregation",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Writes aggregation entries, a place's part all or nothing. Safe to repeat.
        /// Errors: ABORTED / STALE_FENCE, FAILED_PRECONDITION / TERM_NOT_GRANTED, INVALID_ARGUMENT /
        /// FIELD_MISSING, UNAVAILABLE / FABRIC_UNAVAILABLE,
        /// FAILED_PRECONDITION / NO_AGGREGATION; a part that a place refuses is named in the answer.
        pub async fn write_aggregation(
            &mut self,
            request: impl tonic::IntoRequest<super::WriteAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteAggregationResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.SwitchAggregationService",
                "WriteAggregation",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.SwitchAggregationService/WriteAggregation",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod switch_aggregation_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with SwitchAggregationServiceServer.
    #[async_trait]
    pub trait SwitchAggregationService: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the ReadAggregation method.
        type ReadAggregationStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ReadAggregationResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Reads the aggregation entries of this agent's switches and of the adapters behind them, a place
        /// per message.
        /// Errors: UNAVAILABLE / FABRIC_UNAVAILABLE, FAILED_PRECONDITION / NO_AGGREGATION (the hardware
        /// has no such engines).
        async fn read_aggregation(
            &self,
            request: tonic::Request<super::ReadAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReadAggregationStream>,
            tonic::Status,
        >;
        /// Writes aggregation entries, a place's part all or nothing. Safe to repeat.
        /// Errors: ABORTED / STALE_FENCE, FAILED_PRECONDITION / TERM_NOT_GRANTED, INVALID_ARGUMENT /
        /// FIELD_MISSING, UNAVAILABLE / FABRIC_UNAVAILABLE,
        /// FAILED_PRECONDITION / NO_AGGREGATION; a part that a place refuses is named in the answer.
        async fn write_aggregation(
            &self,
            request: tonic::Request<super::WriteAggregationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteAggregationResponse>,
            tonic::Status,
        >;
    }
    /// Aggregation engines as a switch agent reaches them.
    #[derive(Debug)]
    pub struct SwitchAggregationServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> SwitchAggregationServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for SwitchAggregationServiceServer<T>
    where
        T: SwitchAggregationService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.SwitchAggregationService/ReadAggregation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAggregationService>::read_aggregation(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.SwitchAggregationService/WriteAggregation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAggregationService>::write_aggregation(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for SwitchAggregationServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.SwitchAggregationService";
    impl<T> tonic::server::NamedService for SwitchAggregationServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// A multicast group: one communicator of a parallel job.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Group {
    /// Immutable. Name chosen by the processes, unique among live groups, 1 to 256 characters.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Output only. Group number (GN); never used for another group.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// Immutable. Multicast group identifier on the fabric; may be used again after the group is gone.
    #[prost(uint32, tag = "3")]
    pub mgid: u32,
    /// Output only. Node whose operating agent hosts the group agent.
    #[prost(string, tag = "4")]
    pub agent_node: ::prost::alloc::string::String,
    /// Output only. Address (host:port) of the group agent.
    #[prost(string, tag = "5")]
    pub agent_address: ::prost::alloc::string::String,
    /// Output only. Epoch of the group agent; whatever carries an older one is refused.
    #[prost(uint64, tag = "6")]
    pub epoch: u64,
    /// Output only. Live members, ordered by PN. Left out of lists unless asked for.
    #[prost(message, repeated, tag = "7")]
    pub members: ::prost::alloc::vec::Vec<Member>,
    /// Output only. Number of live members.
    #[prost(uint32, tag = "8")]
    pub member_count: u32,
    /// Output only. Revision of the last change of the membership.
    #[prost(uint64, tag = "9")]
    pub members_revision: u64,
    /// Immutable. Kept when its last member leaves.
    #[prost(bool, tag = "10")]
    pub persistent: bool,
    /// Immutable. Never merged with another group: the TIC moves it to a spanning tree without groups
    /// where it would be. Where there is none it gets no hardware route, and senders are refused with
    /// FAILED_PRECONDITION / NOT_ROUTED.
    #[prost(bool, tag = "11")]
    pub exclusive: bool,
    /// Output only. Route that the route service last reported; absent until then.
    #[prost(message, optional, tag = "12")]
    pub route: ::core::option::Option<Route>,
    /// Output only. Time of creation.
    #[prost(message, optional, tag = "13")]
    pub create_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. Revision of the last change of anything in this record or its membership; what
    /// group agents report as known.
    #[prost(uint64, tag = "14")]
    pub records_revision: u64,
    /// Output only. Layer that its creator named; empty if none.
    #[prost(string, tag = "15")]
    pub layer: ::prost::alloc::string::String,
    /// Immutable. Job that the group belongs to and ends with; empty if none.
    #[prost(string, tag = "16")]
    pub job: ::prost::alloc::string::String,
    /// Immutable. The group is not routed before it has had so many members; 0 if it waits for nobody.
    #[prost(uint32, tag = "17")]
    pub complete_at_member_count: u32,
    /// Output only. It still waits for members. Set again when its last member has left.
    #[prost(bool, tag = "18")]
    pub incomplete: bool,
    /// Output only. MGID whose spanning tree the group was moved to; absent if it is on that of its
    /// own MGID. Packets name the group's own.
    #[prost(uint32, optional, tag = "19")]
    pub home_mgid: ::core::option::Option<u32>,
    /// Immutable. Shape of its unicast tree; absent for two below each.
    #[prost(message, optional, tag = "20")]
    pub tree: ::core::option::Option<TreeShape>,
}
/// Shape of a group's unicast tree: the place of each rank in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TreeShape {
    /// Required. Kind of the tree.
    #[prost(enumeration = "TreeFamily", tag = "1")]
    pub family: i32,
    /// Required. Places below a place (k-ary), or base of the ranks (k-nomial); 2 to 64.
    #[prost(uint32, tag = "2")]
    pub width: u32,
    /// Required for a hierarchical tree. Ranks of a block, at least 2.
    #[prost(uint32, tag = "3")]
    pub block: u32,
}
/// Hints of a group's creator; they help the TIC to choose the MGID and bind nobody.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MgidHints {
    /// Optional. Endpoints that will be members, as far as they are known.
    #[prost(string, repeated, tag = "1")]
    pub expected_endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. Names a layer: no endpoint is in two groups of it. Layers whose names agree up to the
    /// last "/" belong together, as the rows and columns of one process grid.
    #[prost(string, tag = "2")]
    pub layer: ::prost::alloc::string::String,
    /// Optional. Groups that the layer will have; 0 if not known.
    #[prost(uint32, tag = "3")]
    pub layer_group_count: u32,
    /// Optional. Groups that all layers which belong together will have; 0 if not known.
    #[prost(uint32, tag = "4")]
    pub all_group_count: u32,
}
/// One process that belongs to a group.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Member {
    /// Output only. Process number (PN): the rank in the group.
    #[prost(uint32, tag = "1")]
    pub pn: u32,
    /// Required. Node the process runs on.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Required. Endpoint (adapter port) the process communicates with.
    #[prost(string, tag = "3")]
    pub endpoint: ::prost::alloc::string::String,
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "4")]
    pub process: ::prost::alloc::string::String,
    /// Output only. Address (host:port) of the node's operating agent.
    #[prost(string, tag = "5")]
    pub address: ::prost::alloc::string::String,
    /// Output only. Revision at which the process joined.
    #[prost(uint64, tag = "6")]
    pub joined_revision: u64,
    /// Output only. Incarnation of the node.
    #[prost(uint64, tag = "7")]
    pub incarnation: u64,
    /// Output only. Word of the TIC for what one agent tells another, passed on as it is: of a group
    /// to its agent, and from there with a position, for the member's node; of a join, and from there
    /// with a registration, for the node of the group agent.
    #[prost(fixed64, optional, tag = "8")]
    pub voucher: ::core::option::Option<u64>,
    /// Output only. It only sends: switches deliver nothing of the group to its endpoint for it.
    #[prost(bool, tag = "9")]
    pub sends_only: bool,
}
/// State of a group in the hardware.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Route {
    /// Output only. Membership revision that the switches have been programmed for.
    #[prost(uint64, tag = "1")]
    pub routed_revision: u64,
    /// Output only. State of the hardware route.
    #[prost(enumeration = "RouteState", tag = "2")]
    pub state: i32,
    /// Output only. Color (multicast table entry) that senders put into packets; valid if
    /// ROUTE_STATE_ROUTED.
    #[prost(uint32, tag = "3")]
    pub color: u32,
    /// Output only. Virtual group whose tree this group shares.
    #[prost(uint64, tag = "4")]
    pub virtual_group: u64,
    /// Output only. Reason why there is no hardware route, or its peculiarity; empty otherwise.
    #[prost(string, tag = "5")]
    pub reason: ::prost::alloc::string::String,
    /// Output only. Member endpoints that no live link reaches.
    #[prost(string, repeated, tag = "6")]
    pub cut_off_endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Output only. Color of the second tree, where fault tolerance gives that an entry of its own:
    /// senders send each packet with this one, too.
    #[prost(uint32, optional, tag = "7")]
    pub second_color: ::core::option::Option<u32>,
    /// Output only. The reason as a code.
    #[prost(enumeration = "RouteReason", tag = "8")]
    pub reason_code: i32,
}
/// A group that gets another spanning tree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupMove {
    /// Required. Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// MGID whose spanning tree it is on: its home, or its own.
    #[prost(uint32, tag = "2")]
    pub from_mgid: u32,
    /// An MGID of the spanning tree that it gets; the TIC takes the smallest free one of that tree.
    #[prost(uint32, tag = "3")]
    pub to_mgid: u32,
}
/// Kind of a unicast tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum TreeFamily {
    /// Never sent.
    Unspecified = 0,
    /// Each place has equally many below it.
    KAry = 1,
    /// Above a rank is that without its lowest non-zero digit.
    KNomial = 2,
    /// A k-nomial tree in each block of ranks that follow one another, and one over their first.
    Hierarchical = 3,
}
impl TreeFamily {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "TREE_FAMILY_UNSPECIFIED",
            Self::KAry => "TREE_FAMILY_K_ARY",
            Self::KNomial => "TREE_FAMILY_K_NOMIAL",
            Self::Hierarchical => "TREE_FAMILY_HIERARCHICAL",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TREE_FAMILY_UNSPECIFIED" => Some(Self::Unspecified),
            "TREE_FAMILY_K_ARY" => Some(Self::KAry),
            "TREE_FAMILY_K_NOMIAL" => Some(Self::KNomial),
            "TREE_FAMILY_HIERARCHICAL" => Some(Self::Hierarchical),
            _ => None,
        }
    }
}
/// Reason for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RouteReason {
    /// The route is as the MGID says, or was reported before there were codes.
    Unspecified = 0,
    /// The group waits for its members.
    WaitsForMembers = 1,
    /// Fewer than two endpoints are to be connected.
    FewerThanTwoEndpoints = 2,
    /// Senders of other groups still use table entries that the new route needs.
    WaitsForEntries = 3,
    /// The group is exclusive, and would have to share its tree.
    ExclusiveTreeShared = 4,
    /// The engine refused the group.
    Refused = 5,
    /// No spanning tree serves the group.
    Unrouted = 6,
    /// The group is on another spanning tree than its MGID says.
    Moved = 7,
    /// One of the two trees of the group lacks a link.
    Unprotected = 8,
    /// The engine does not have the group yet.
    NotPlanned = 9,
    /// The planned trees do not reach all members, though links to them are live.
    MembersMissed = 10,
}
impl RouteReason {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "ROUTE_REASON_UNSPECIFIED",
            Self::WaitsForMembers => "ROUTE_REASON_WAITS_FOR_MEMBERS",
            Self::FewerThanTwoEndpoints => "ROUTE_REASON_FEWER_THAN_TWO_ENDPOINTS",
            Self::WaitsForEntries => "ROUTE_REASON_WAITS_FOR_ENTRIES",
            Self::ExclusiveTreeShared => "ROUTE_REASON_EXCLUSIVE_TREE_SHARED",
            Self::Refused => "ROUTE_REASON_REFUSED",
            Self::Unrouted => "ROUTE_REASON_UNROUTED",
            Self::Moved => "ROUTE_REASON_MOVED",
            Self::Unprotected => "ROUTE_REASON_UNPROTECTED",
            Self::NotPlanned => "ROUTE_REASON_NOT_PLANNED",
            Self::MembersMissed => "ROUTE_REASON_MEMBERS_MISSED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ROUTE_REASON_UNSPECIFIED" => Some(Self::Unspecified),
            "ROUTE_REASON_WAITS_FOR_MEMBERS" => Some(Self::WaitsForMembers),
            "ROUTE_REASON_FEWER_THAN_TWO_ENDPOINTS" => Some(Self::FewerThanTwoEndpoints),
            "ROUTE_REASON_WAITS_FOR_ENTRIES" => Some(Self::WaitsForEntries),
            "ROUTE_REASON_EXCLUSIVE_TREE_SHARED" => Some(Self::ExclusiveTreeShared),
            "ROUTE_REASON_REFUSED" => Some(Self::Refused),
            "ROUTE_REASON_UNROUTED" => Some(Self::Unrouted),
            "ROUTE_REASON_MOVED" => Some(Self::Moved),
            "ROUTE_REASON_UNPROTECTED" => Some(Self::Unprotected),
            "ROUTE_REASON_NOT_PLANNED" => Some(Self::NotPlanned),
            "ROUTE_REASON_MEMBERS_MISSED" => Some(Self::MembersMissed),
            _ => None,
        }
    }
}
/// State of a group's entries in the switch tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum RouteState {
    /// Never sent.
    Unspecified = 0,
    /// The switches hold the group's tree.
    Routed = 1,
    /// There is no hardware route; the route says why. Senders are refused with FAILED_PRECONDITION /
    /// NOT_ROUTED: the unicast tree that could serve the group carries no data yet.
    UnicastOnly = 2,
}
impl RouteState {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "ROUTE_STATE_UNSPECIFIED",
            Self::Routed => "ROUTE_STATE_ROUTED",
            Self::UnicastOnly => "ROUTE_STATE_UNICAST_ONLY",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "ROUTE_STATE_UNSPECIFIED" => Some(Self::Unspecified),
            "ROUTE_STATE_ROUTED" => Some(Self::Routed),
            "ROUTE_STATE_UNICAST_ONLY" => Some(Self::UnicastOnly),
            _ => None,
        }
    }
}
/// A collective of the members of a group, and the trees it runs on.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Collective {
    /// Immutable. Name, unique among live collectives, 1 to 256 characters. Names that begin with
    /// `requested/` are those of collectives that members ask for.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Immutable. Group whose members take part: those it had when the collective was created.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Immutable. Tenant it belongs to; may be empty.
    #[prost(string, tag = "3")]
    pub tenant: ::prost::alloc::string::String,
    /// Immutable. Job of the tenant it belongs to; may be empty.
    #[prost(string, tag = "4")]
    pub job: ::prost::alloc::string::String,
    /// Immutable. Operations that it will run.
    #[prost(enumeration = "CollectiveOperation", repeated, tag = "5")]
    pub operations: ::prost::alloc::vec::Vec<i32>,
    /// Immutable. Bytes of the smallest message.
    #[prost(uint32, tag = "6")]
    pub min_bytes: u32,
    /// Immutable. Bytes of the largest message.
    #[prost(uint32, tag = "7")]
    pub max_bytes: u32,
    /// Immutable. True if it insisted on a switch tree when it was created.
    #[prost(bool, tag = "8")]
    pub switch_tree_required: bool,
    /// Output only. Kind of the trees that it runs on, or none.
    #[prost(enumeration = "CollectiveState", tag = "9")]
    pub state: i32,
    /// Output only. Reason why it has no switch tree, or the member that is cut off; empty otherwise.
    #[prost(string, tag = "10")]
    pub reason: ::prost::alloc::string::String,
    /// Output only. Its processes, by their numbers.
    #[prost(message, repeated, tag = "11")]
    pub processes: ::prost::alloc::vec::Vec<CollectiveProcess>,
    /// Output only. Its tree of switches, if it has one.
    #[prost(message, optional, tag = "12")]
    pub switch_tree: ::core::option::Option<AggregationTree>,
    /// Output only. Its tree of adapters: for sizes where that is faster, or where there is no tree of
    /// switches.
    #[prost(message, optional, tag = "13")]
    pub adapter_tree: ::core::option::Option<AggregationTree>,
    /// Output only. Messages of reductions up to so many bytes run on the switch tree; larger ones on
    /// the adapter tree.
    #[prost(uint32, tag = "14")]
    pub switch_tree_max_bytes: u32,
    /// Output only. True if switches and adapters are known to hold the trees.
    #[prost(bool, tag = "15")]
    pub programmed: bool,
    /// Output only. Entries it takes in switches.
    #[prost(uint32, tag = "16")]
    pub switch_entries: u32,
    /// Output only. True if a member of the group asked for it (RequestSwitchTree). It ends when a
    /// member joins or leaves the group; others stay until they are released or their group ends.
    #[prost(bool, tag = "17")]
    pub requested_by_member: bool,
    /// Output only. Another number whenever it gets or loses a tree; 0 from TICs of earlier versions.
    #[prost(uint64, tag = "18")]
    pub revision: u64,
    /// Output only. Choice of the tree of adapters; absent without one, and from TICs of earlier
    /// versions. It stays as long as the collective has the tree, whatever is measured meanwhile.
    #[prost(message, optional, tag = "19")]
    pub adapter_tree_choice: ::core::option::Option<AdapterTreeChoice>,
}
/// Choice of a tree of adapters by the cost model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AdapterTreeChoice {
    /// Kind of the tree, over the processes in the order of their places in the fabric. Blocks of a
    /// hierarchical tree are the processes of one adapter, leaf switch, and so on.
    #[prost(enumeration = "TreeFamily", tag = "1")]
    pub family: i32,
    /// Children of a node (k-ary), or k of a k-nomial tree. The tree is narrower where a node would
    /// have more children than `aggregation_children` of the TIC allows.
    #[prost(uint32, tag = "2")]
    pub width: u32,
    /// Origin of the constants that it was chosen by.
    #[prost(enumeration = "ConstantsOrigin", tag = "3")]
    pub constants: i32,
}
/// A process of a collective.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveProcess {
    /// Its node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Its name on the node.
    #[prost(string, tag = "2")]
    pub process: ::prost::alloc::string::String,
    /// Its endpoint.
    #[prost(string, tag = "3")]
    pub endpoint: ::prost::alloc::string::String,
}
/// Somebody that entries are kept for and limited.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveHolder {
    /// Required. The tenant.
    #[prost(string, tag = "1")]
    pub tenant: ::prost::alloc::string::String,
    /// Optional. One job of it; left out, the tenant with all its jobs.
    #[prost(string, optional, tag = "2")]
    pub job: ::core::option::Option<::prost::alloc::string::String>,
}
/// Most that a holder may have. Entries count that are in use or reserved for it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveQuota {
    /// Required. Job or tenant.
    #[prost(message, optional, tag = "1")]
    pub holder: ::core::option::Option<CollectiveHolder>,
    /// Optional. Collectives; more are refused.
    #[prost(uint32, optional, tag = "2")]
    pub collectives: ::core::option::Option<u32>,
    /// Optional. Entries of all switches together; collectives that would take more run on adapters,
    /// reservations of more are refused.
    #[prost(uint32, optional, tag = "3")]
    pub entries: ::core::option::Option<u32>,
    /// Optional. Entries of any one switch; a switch where the holder has them is passed by,
    /// reservations of more are refused.
    #[prost(uint32, optional, tag = "4")]
    pub entries_per_switch: ::core::option::Option<u32>,
}
/// Entries kept for a holder.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveReservation {
    /// Output only. Its number, never used twice.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// Required. For whom.
    #[prost(message, optional, tag = "2")]
    pub holder: ::core::option::Option<CollectiveHolder>,
    /// Required. Entries in each switch.
    #[prost(uint32, tag = "3")]
    pub entries: u32,
    /// Required. In the switches on and above the leaf switches of these.
    #[prost(string, repeated, tag = "4")]
    pub endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Aggregation entries of one holder.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CollectiveUsage {
    /// The holder.
    #[prost(message, optional, tag = "1")]
    pub holder: ::core::option::Option<CollectiveHolder>,
    /// Collectives, with or without a switch tree.
    #[prost(uint32, tag = "2")]
    pub collectives: u32,
    /// Entries of all switches together.
    #[prost(uint32, tag = "3")]
    pub entries: u32,
}
/// Holders of the entries of one switch.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SwitchHoldings {
    /// Node id.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Entries it has.
    #[prost(uint32, tag = "2")]
    pub entries: u32,
    /// The collectives that hold one each.
    #[prost(string, repeated, tag = "3")]
    pub collectives: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Entries kept for holders that do not use them now.
    #[prost(uint32, tag = "4")]
    pub reserved_entries: u32,
}
/// Origin of constants of the cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum ConstantsOrigin {
    /// A TIC of an earlier version chose the tree by its settings.
    Unspecified = 0,
    /// Measured between the agents of this fabric.
    Measured = 1,
    /// Named by the settings of the TIC.
    Configured = 2,
    /// Stated numbers that nobody has measured.
    Default = 3,
}
impl ConstantsOrigin {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "CONSTANTS_ORIGIN_UNSPECIFIED",
            Self::Measured => "CONSTANTS_ORIGIN_MEASURED",
            Self::Configured => "CONSTANTS_ORIGIN_CONFIGURED",
            Self::Default => "CONSTANTS_ORIGIN_DEFAULT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "CONSTANTS_ORIGIN_UNSPECIFIED" => Some(Self::Unspecified),
            "CONSTANTS_ORIGIN_MEASURED" => Some(Self::Measured),
            "CONSTANTS_ORIGIN_CONFIGURED" => Some(Self::Configured),
            "CONSTANTS_ORIGIN_DEFAULT" => Some(Self::Default),
            _ => None,
        }
    }
}
/// Resources that a collective runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum CollectiveState {
    /// Never sent.
    Unspecified = 0,
    /// A tree of switches, and one of adapters where that is faster.
    SwitchTree = 1,
    /// Adapters only.
    Adapters = 2,
    /// Nothing, until a member that is cut off can be reached again.
    Suspended = 3,
}
impl CollectiveState {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "COLLECTIVE_STATE_UNSPECIFIED",
            Self::SwitchTree => "COLLECTIVE_STATE_SWITCH_TREE",
            Self::Adapters => "COLLECTIVE_STATE_ADAPTERS",
            Self::Suspended => "COLLECTIVE_STATE_SUSPENDED",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "COLLECTIVE_STATE_UNSPECIFIED" => Some(Self::Unspecified),
            "COLLECTIVE_STATE_SWITCH_TREE" => Some(Self::SwitchTree),
            "COLLECTIVE_STATE_ADAPTERS" => Some(Self::Adapters),
            "COLLECTIVE_STATE_SUSPENDED" => Some(Self::Suspended),
            _ => None,
        }
    }
}
/// Request of CreateCollective.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CreateCollectiveRequest {
    /// Required. Its name, which must not begin with `requested/`.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Required. The group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Optional. The tenant it belongs to.
    #[prost(string, tag = "3")]
    pub tenant: ::prost::alloc::string::String,
    /// Optional. The job of the tenant it belongs to.
    #[prost(string, tag = "4")]
    pub job: ::prost::alloc::string::String,
    /// Required. Operations that it will run.
    #[prost(enumeration = "CollectiveOperation", repeated, tag = "5")]
    pub operations: ::prost::alloc::vec::Vec<i32>,
    /// Optional. Bytes of the smallest message.
    #[prost(uint32, tag = "6")]
    pub min_bytes: u32,
    /// Required. Bytes of the largest message; 0 only for messages without bytes.
    #[prost(uint32, tag = "7")]
    pub max_bytes: u32,
    /// Optional. Refuse if there is no switch tree, instead of running on adapters.
    #[prost(bool, tag = "8")]
    pub switch_tree_required: bool,
}
/// Response of CreateCollective.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateCollectiveResponse {
    /// The collective.
    #[prost(message, optional, tag = "1")]
    pub collective: ::core::option::Option<Collective>,
}
/// Request of RequestSwitchTree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RequestSwitchTreeRequest {
    /// Required. The group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Required. Node of the member that asks.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Required. Process of the member that asks.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
}
/// Response of RequestSwitchTree.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RequestSwitchTreeResponse {
    /// The collective, without processes and trees.
    #[prost(message, optional, tag = "1")]
    pub collective: ::core::option::Option<Collective>,
}
/// Request of ReleaseCollective.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReleaseCollectiveRequest {
    /// Required. Its name.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
}
/// Response of ReleaseCollective.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReleaseCollectiveResponse {
    /// False if there was none.
    #[prost(bool, tag = "1")]
    pub released: bool,
}
/// Request of GetCollective.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetCollectiveRequest {
    /// Required. Its name.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
}
/// Response of GetCollective.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetCollectiveResponse {
    /// The collective.
    #[prost(message, optional, tag = "1")]
    pub collective: ::core::option::Option<Collective>,
}
/// Request of ListCollectives.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListCollectivesRequest {
    /// Optional. Most collectives in one answer; 0 means 1000, more than 10000 means 10000.
    #[prost(uint32, tag = "1")]
    pub page_size: u32,
    /// Optional. Token of the previous answer.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
    /// Optional. Revision of a list that the caller has: if it is still the list, the collectives are
    /// left out. Has no effect with a page token, nor with TICs of earlier versions.
    #[prost(uint64, tag = "3")]
    pub unless_revision: u64,
}
/// Response of ListCollectives.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListCollectivesResponse {
    /// The collectives.
    #[prost(message, repeated, tag = "1")]
    pub collectives: ::prost::alloc::vec::Vec<Collective>,
    /// Token of the next page; empty at the end.
    #[prost(string, tag = "2")]
    pub next_page_token: ::prost::alloc::string::String,
    /// Revision of the list: another number once any page shows something else, also for other TICs; 0
    /// from TICs of earlier versions.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
    /// True if the list is still that of `unless_revision`; it is left out then.
    #[prost(bool, tag = "4")]
    pub unchanged: bool,
}
/// Request of ReserveEntries.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReserveEntriesRequest {
    /// Required. Entries to keep, and their holder.
    #[prost(message, optional, tag = "1")]
    pub reservation: ::core::option::Option<CollectiveReservation>,
}
/// Response of ReserveEntries.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReserveEntriesResponse {
    /// The reservation with its number.
    #[prost(message, optional, tag = "1")]
    pub reservation: ::core::option::Option<CollectiveReservation>,
}
/// Request of CancelReservation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CancelReservationRequest {
    /// Required. Its number.
    #[prost(uint32, tag = "1")]
    pub id: u32,
}
/// Response of CancelReservation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CancelReservationResponse {
    /// False if there was none.
    #[prost(bool, tag = "1")]
    pub cancelled: bool,
}
/// Request of SetCollectiveQuota.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SetCollectiveQuotaRequest {
    /// Required. The quota; without any limit it is taken away.
    #[prost(message, optional, tag = "1")]
    pub quota: ::core::option::Option<CollectiveQuota>,
}
/// Response of SetCollectiveQuota.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SetCollectiveQuotaResponse {}
/// Request of GetEntryUsage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetEntryUsageRequest {}
/// Response of GetEntryUsage.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetEntryUsageResponse {
    /// The switches that hold or keep entries, by node id.
    #[prost(message, repeated, tag = "1")]
    pub switches: ::prost::alloc::vec::Vec<SwitchHoldings>,
    /// Entries that tenants and jobs hold.
    #[prost(message, repeated, tag = "2")]
    pub usages: ::prost::alloc::vec::Vec<CollectiveUsage>,
    /// Their limits.
    #[prost(message, repeated, tag = "3")]
    pub quotas: ::prost::alloc::vec::Vec<CollectiveQuota>,
    /// Entries reserved for them.
    #[prost(message, repeated, tag = "4")]
    pub reservations: ::prost::alloc::vec::Vec<CollectiveReservation>,
}
/// Request of WatchAggregationTrees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WatchAggregationTreesRequest {}
/// Response of WatchAggregationTrees.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchAggregationTreesResponse {
    /// Revision of the trees with this message.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// This message has all trees there are.
    #[prost(bool, tag = "2")]
    pub snapshot: bool,
    /// Trees that are new.
    #[prost(message, repeated, tag = "3")]
    pub added: ::prost::alloc::vec::Vec<AggregationTree>,
    /// Trees that are gone.
    #[prost(uint32, repeated, tag = "4")]
    pub removed: ::prost::alloc::vec::Vec<u32>,
}
/// Request of ReportAggregationTrees.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportAggregationTreesRequest {
    /// Required. Term of the route service.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Required. Revision of the trees.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
    /// Optional. Trees of it that are not held everywhere.
    #[prost(uint32, repeated, tag = "3")]
    pub missing_trees: ::prost::alloc::vec::Vec<u32>,
}
/// Response of ReportAggregationTrees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportAggregationTreesResponse {}
/// Request of RunCollective.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RunCollectiveRequest {
    /// Required. The collective.
    #[prost(string, tag = "1")]
    pub collective: ::prost::alloc::string::String,
    /// Required. Node of the process.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Required. The process.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Required. Number of the run: one that no run of this collective had before, the same at all
    /// processes.
    #[prost(uint64, tag = "4")]
    pub sequence: u64,
    /// Required. Kind of the operation; processes are numbered as the collective lists them.
    #[prost(message, optional, tag = "5")]
    pub work: ::core::option::Option<CollectiveWork>,
    /// Optional. The values; left out for a barrier and by those who only receive.
    #[prost(message, optional, tag = "6")]
    pub values: ::core::option::Option<CollectiveValues>,
    /// Optional. The run is given up if it has not ended by then; 5 s if left out, at most 9 s.
    #[prost(message, optional, tag = "7")]
    pub timeout: ::core::option::Option<::prost_types::Duration>,
}
/// Response of RunCollective.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RunCollectiveResponse {
    /// Result for the process; left out where it gets none.
    #[prost(message, optional, tag = "1")]
    pub values: ::core::option::Option<CollectiveValues>,
    /// Tree it ran on.
    #[prost(uint32, tag = "2")]
    pub tree: u32,
}
/// Constants of the cost model, measured between agents. Times are in microseconds, as the cost
/// model has them.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TreeConstants {
    /// Required, more than 0. Links of the path between two nodes.
    #[prost(double, tag = "1")]
    pub path_link_count: f64,
    /// Required. Time for each link.
    #[prost(double, tag = "2")]
    pub link_us: f64,
    /// Required. Time for a child's report.
    #[prost(double, tag = "3")]
    pub matching_us: f64,
    /// Required, more than 0. Time to store and send a byte.
    #[prost(double, tag = "4")]
    pub store_us_per_byte: f64,
    /// Required, more than 0. Time to combine a byte.
    #[prost(double, tag = "5")]
    pub reduce_us_per_byte: f64,
    /// Required. Time of every operation beside its tree.
    #[prost(double, tag = "6")]
    pub software_us: f64,
    /// Optional. Names of the constants that are stated defaults, because the measurements gave 0.
    #[prost(string, repeated, tag = "7")]
    pub default_fields: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Required. Number of measurements.
    #[prost(uint32, tag = "8")]
    pub measurement_count: u32,
    /// Required. Part of the measurements' variance that the model explains, at most 1.
    #[prost(double, tag = "9")]
    pub r_squared: f64,
    /// Output only. Time at which the TIC was given them, on its clock.
    #[prost(message, optional, tag = "10")]
    pub set_time: ::core::option::Option<::prost_types::Timestamp>,
}
/// Request of SetTreeConstants.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SetTreeConstantsRequest {
    /// Optional. The constants; left out, those that there are are forgotten.
    #[prost(message, optional, tag = "1")]
    pub constants: ::core::option::Option<TreeConstants>,
}
/// Response of SetTreeConstants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SetTreeConstantsResponse {}
/// Request of GetTreeConstants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetTreeConstantsRequest {}
/// Response of GetTreeConstants.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetTreeConstantsResponse {
    /// The constants; absent if none were measured.
    #[prost(message, optional, tag = "1")]
    pub constants: ::core::option::Option<TreeConstants>,
}
/// Generated client implementations.
pub mod collective_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Gives collectives their trees, within the entries that switches have; served by the TIC, which
    /// keeps them. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes
    /// something with RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing was changed), RESOURCE_EXHAUSTED /
    /// STORE_FULL (the store has no space left) or INTERNAL / STORE_FAILED (whether it was changed is
    /// known when the call is repeated).
    #[derive(Debug, Clone)]
    pub struct CollectiveServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl CollectiveServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> CollectiveServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> CollectiveServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            CollectiveServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Creates a collective of the members a group has now. Durable once answered; repeated with the
        /// same fields it answers the same.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, ALREADY_EXISTS / COLLECTIVE_EXISTS, INVALID_ARGUMENT /
        /// NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / COLLECTIVE_INVALID,
        /// RESOURCE_EXHAUSTED / QUOTA_REACHED, FAILED_PRECONDITION / MEMBER_CUT_OFF, FAILED_PRECONDITION /
        /// NO_SWITCH_TREE (only where one was required).
        pub async fn create_collective(
            &mut self,
            request: impl tonic::IntoRequest<super::CreateCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateCollectiveResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "CreateCollective",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/CreateCollective",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Gives the members that a group has now a collective with a switch tree, because one of them
        /// asks for it at its operating agent (ProcessService.RequestSwitchTree). It is for barriers,
        /// broadcasts and all-reduces, up to the size for which switches are faster. It belongs to the job
        /// of the group and to the account of the job's share; without a share, to the tenant with whose
        /// name and a '/' the group's name begins. It ends when a member joins or leaves the group.
        /// Durable once answered. If the group has a collective with a switch tree of exactly these
        /// members, made by anybody, that one is the answer, so all members may ask.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID,
        /// FAILED_PRECONDITION / NO_SWITCH_TREE (the message says why: no entries are free, or adapters
        /// are faster, such as for a single member), RESOURCE_EXHAUSTED / QUOTA_REACHED,
        /// FAILED_PRECONDITION / MEMBER_CUT_OFF, INVALID_ARGUMENT / UNKNOWN_ENDPOINT (a member's, which is
        /// no longer in the topology), ALREADY_EXISTS / COLLECTIVE_EXISTS (another one has the name that
        /// it would get).
        pub async fn request_switch_tree(
            &mut self,
            request: impl tonic::IntoRequest<super::RequestSwitchTreeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RequestSwitchTreeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "RequestSwitchTree",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/RequestSwitchTree",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Releases a collective; its entries are free then. One that is gone already is no error.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID.
        pub async fn release_collective(
            &mut self,
            request: impl tonic::IntoRequest<super::ReleaseCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReleaseCollectiveResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "ReleaseCollective",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/ReleaseCollective",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers one collective with its trees.
        /// Errors: NOT_FOUND / UNKNOWN_COLLECTIVE.
        pub async fn get_collective(
            &mut self,
            request: impl tonic::IntoRequest<super::GetCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetCollectiveResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "GetCollective",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/GetCollective",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists collectives by name, without processes and trees; nothing but a revision if the caller
        /// has the list already.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        pub async fn list_collectives(
            &mut self,
            request: impl tonic::IntoRequest<super::ListCollectivesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListCollectivesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "ListCollectives",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/ListCollectives",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Keeps entries for a tenant or job.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, FAILED_PRECONDITION / MEMBER_CUT_OFF, RESOURCE_EXHAUSTED / NO_ROOM,
        /// RESOURCE_EXHAUSTED / QUOTA_REACHED.
        pub async fn reserve_entries(
            &mut self,
            request: impl tonic::IntoRequest<super::ReserveEntriesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveEntriesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "ReserveEntries",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/ReserveEntries",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Ends a reservation; one that is gone already is no error.
        /// Errors: none of its own.
        pub async fn cancel_reservation(
            &mut self,
            request: impl tonic::IntoRequest<super::CancelReservationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CancelReservationResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "CancelReservation",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/CancelReservation",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Limits a tenant or job from now on; what it has stays.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn set_collective_quota(
            &mut self,
            request: impl tonic::IntoRequest<super::SetCollectiveQuotaRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SetCollectiveQuotaResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "SetCollectiveQuota",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/SetCollectiveQuota",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Says who holds what: per switch, per holder.
        /// Errors: none of its own.
        pub async fn get_entry_usage(
            &mut self,
            request: impl tonic::IntoRequest<super::GetEntryUsageRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetEntryUsageResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "GetEntryUsage",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/GetEntryUsage",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the trees that switches and adapters are to hold: all of them at the start, then what
        /// differs. For the route service.
        /// Errors: none of its own.
        pub async fn watch_aggregation_trees(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchAggregationTreesRequest>,
        ) -> std::result::Result<
            tonic::Response<
                tonic::codec::Streaming<super::WatchAggregationTreesResponse>,
            >,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.CollectiveService/WatchAggregationTrees",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.CollectiveService",
                        "WatchAggregationTrees",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// The route service says which trees are not held yet; all others of the revision are.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// REVISION_OUT_OF_RANGE.
        pub async fn report_aggregation_trees(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportAggregationTreesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportAggregationTreesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "ReportAggregationTrees",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/ReportAggregationTrees",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Takes constants of the cost model that were measured between the agents. By these the TIC
        /// chooses the unicast trees of groups that are created from now on; without, these have two below
        /// each member. By these it also chooses the trees of adapters that collectives get from now on;
        /// without, by the constants of its settings, or stated defaults. Durable once answered.
        /// Errors: INVALID_ARGUMENT / COLLECTIVE_INVALID.
        pub async fn set_tree_constants(
            &mut self,
            request: impl tonic::IntoRequest<super::SetTreeConstantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SetTreeConstantsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "SetTreeConstants",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/SetTreeConstants",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers these constants.
        /// Errors: none of its own.
        pub async fn get_tree_constants(
            &mut self,
            request: impl tonic::IntoRequest<super::GetTreeConstantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetTreeConstantsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveService",
                "GetTreeConstants",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveService/GetTreeConstants",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod collective_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with CollectiveServiceServer.
    #[async_trait]
    pub trait CollectiveService: std::marker::Send + std::marker::Sync + 'static {
        /// Creates a collective of the members a group has now. Durable once answered; repeated with the
        /// same fields it answers the same.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, ALREADY_EXISTS / COLLECTIVE_EXISTS, INVALID_ARGUMENT /
        /// NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / COLLECTIVE_INVALID,
        /// RESOURCE_EXHAUSTED / QUOTA_REACHED, FAILED_PRECONDITION / MEMBER_CUT_OFF, FAILED_PRECONDITION /
        /// NO_SWITCH_TREE (only where one was required).
        async fn create_collective(
            &self,
            request: tonic::Request<super::CreateCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateCollectiveResponse>,
            tonic::Status,
        >;
        /// Gives the members that a group has now a collective with a switch tree, because one of them
        /// asks for it at its operating agent (ProcessService.RequestSwitchTree). It is for barriers,
        /// broadcasts and all-reduces, up to the size for which switches are faster. It belongs to the job
        /// of the group and to the account of the job's share; without a share, to the tenant with whose
        /// name and a '/' the group's name begins. It ends when a member joins or leaves the group.
        /// Durable once answered. If the group has a collective with a switch tree of exactly these
        /// members, made by anybody, that one is the answer, so all members may ask.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID,
        /// FAILED_PRECONDITION / NO_SWITCH_TREE (the message says why: no entries are free, or adapters
        /// are faster, such as for a single member), RESOURCE_EXHAUSTED / QUOTA_REACHED,
        /// FAILED_PRECONDITION / MEMBER_CUT_OFF, INVALID_ARGUMENT / UNKNOWN_ENDPOINT (a member's, which is
        /// no longer in the topology), ALREADY_EXISTS / COLLECTIVE_EXISTS (another one has the name that
        /// it would get).
        async fn request_switch_tree(
            &self,
            request: tonic::Request<super::RequestSwitchTreeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RequestSwitchTreeResponse>,
            tonic::Status,
        >;
        /// Releases a collective; its entries are free then. One that is gone already is no error.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID.
        async fn release_collective(
            &self,
            request: tonic::Request<super::ReleaseCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReleaseCollectiveResponse>,
            tonic::Status,
        >;
        /// Answers one collective with its trees.
        /// Errors: NOT_FOUND / UNKNOWN_COLLECTIVE.
        async fn get_collective(
            &self,
            request: tonic::Request<super::GetCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetCollectiveResponse>,
            tonic::Status,
        >;
        /// Lists collectives by name, without processes and trees; nothing but a revision if the caller
        /// has the list already.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        async fn list_collectives(
            &self,
            request: tonic::Request<super::ListCollectivesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListCollectivesResponse>,
            tonic::Status,
        >;
        /// Keeps entries for a tenant or job.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, FAILED_PRECONDITION / MEMBER_CUT_OFF, RESOURCE_EXHAUSTED / NO_ROOM,
        /// RESOURCE_EXHAUSTED / QUOTA_REACHED.
        async fn reserve_entries(
            &self,
            request: tonic::Request<super::ReserveEntriesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveEntriesResponse>,
            tonic::Status,
        >;
        /// Ends a reservation; one that is gone already is no error.
        /// Errors: none of its own.
        async fn cancel_reservation(
            &self,
            request: tonic::Request<super::CancelReservationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CancelReservationResponse>,
            tonic::Status,
        >;
        /// Limits a tenant or job from now on; what it has stays.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID.
        async fn set_collective_quota(
            &self,
            request: tonic::Request<super::SetCollectiveQuotaRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SetCollectiveQuotaResponse>,
            tonic::Status,
        >;
        /// Says who holds what: per switch, per holder.
        /// Errors: none of its own.
        async fn get_entry_usage(
            &self,
            request: tonic::Request<super::GetEntryUsageRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetEntryUsageResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchAggregationTrees method.
        type WatchAggregationTreesStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::WatchAggregationTreesResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Streams the trees that switches and adapters are to hold: all of them at the start, then what
        /// differs. For the route service.
        /// Errors: none of its own.
        async fn watch_aggregation_trees(
            &self,
            request: tonic::Request<super::WatchAggregationTreesRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchAggregationTreesStream>,
            tonic::Status,
        >;
        /// The route service says which trees are not held yet; all others of the revision are.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// REVISION_OUT_OF_RANGE.
        async fn report_aggregation_trees(
            &self,
            request: tonic::Request<super::ReportAggregationTreesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportAggregationTreesResponse>,
            tonic::Status,
        >;
        /// Takes constants of the cost model that were measured between the agents. By these the TIC
        /// chooses the unicast trees of groups that are created from now on; without, these have two below
        /// each member. By these it also chooses the trees of adapters that collectives get from now on;
        /// without, by the constants of its settings, or stated defaults. Durable once answered.
        /// Errors: INVALID_ARGUMENT / COLLECTIVE_INVALID.
        async fn set_tree_constants(
            &self,
            request: tonic::Request<super::SetTreeConstantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SetTreeConstantsResponse>,
            tonic::Status,
        >;
        /// Answers these constants.
        /// Errors: none of its own.
        async fn get_tree_constants(
            &self,
            request: tonic::Request<super::GetTreeConstantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetTreeConstantsResponse>,
            tonic::Status,
        >;
    }
    /// Gives collectives their trees, within the entries that switches have; served by the TIC, which
    /// keeps them. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes
    /// something with RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing was changed), RESOURCE_EXHAUSTED /
    /// STORE_FULL (the store has no space left) or INTERNAL / STORE_FAILED (whether it was changed is
    /// known when the call is repeated).
    #[derive(Debug)]
    pub struct CollectiveServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> CollectiveServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for CollectiveServiceServer<T>
    where
        T: CollectiveService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.CollectiveService/CreateCollective" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::create_collective(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/RequestSwitchTree" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::request_switch_tree(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/ReleaseCollective" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::release_collective(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/GetCollective" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::get_collective(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/ListCollectives" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::list_collectives(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/ReserveEntries" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::reserve_entries(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/CancelReservation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::cancel_reservation(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/SetCollectiveQuota" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::set_collective_quota(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/GetEntryUsage" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::get_entry_usage(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/WatchAggregationTrees" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::watch_aggregation_trees(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/ReportAggregationTrees" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::report_aggregation_trees(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/SetTreeConstants" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::set_tree_constants(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.CollectiveService/GetTreeConstants" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveService>::get_tree_constants(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for CollectiveServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.CollectiveService";
    impl<T> tonic::server::NamedService for CollectiveServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod collective_agent_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Runs collectives for the processes of the nodes hosted here; served by operating agents.
    #[derive(Debug, Clone)]
    pub struct CollectiveAgentServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl CollectiveAgentServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> CollectiveAgentServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> CollectiveAgentServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            CollectiveAgentServiceClient::new(
                InterceptedService::new(inner, interceptor),
            )
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Takes part in one run of a collective for one process, and waits for its end. All processes of
        /// the collective must call it with the same sequence and work.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, NOT_FOUND / UNKNOWN_COLLECTIVE,
        /// NOT_FOUND / NOT_A_MEMBER, FAILED_PRECONDITION / NOT_PROGRAMMED (works later),
        /// FAILED_PRECONDITION / MEMBER_CUT_OFF, UNAVAILABLE / PEER_UNAVAILABLE, and those of
        /// ContributeValues: ABORTED / COLLECTIVE_FAILED says that no value came of it; repeat it with a
        /// new sequence.
        pub async fn run_collective(
            &mut self,
            request: impl tonic::IntoRequest<super::RunCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RunCollectiveResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.CollectiveAgentService",
                "RunCollective",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.CollectiveAgentService/RunCollective",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod collective_agent_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with CollectiveAgentServiceServer.
    #[async_trait]
    pub trait CollectiveAgentService: std::marker::Send + std::marker::Sync + 'static {
        /// Takes part in one run of a collective for one process, and waits for its end. All processes of
        /// the collective must call it with the same sequence and work.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, NOT_FOUND / UNKNOWN_COLLECTIVE,
        /// NOT_FOUND / NOT_A_MEMBER, FAILED_PRECONDITION / NOT_PROGRAMMED (works later),
        /// FAILED_PRECONDITION / MEMBER_CUT_OFF, UNAVAILABLE / PEER_UNAVAILABLE, and those of
        /// ContributeValues: ABORTED / COLLECTIVE_FAILED says that no value came of it; repeat it with a
        /// new sequence.
        async fn run_collective(
            &self,
            request: tonic::Request<super::RunCollectiveRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RunCollectiveResponse>,
            tonic::Status,
        >;
    }
    /// Runs collectives for the processes of the nodes hosted here; served by operating agents.
    #[derive(Debug)]
    pub struct CollectiveAgentServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> CollectiveAgentServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for CollectiveAgentServiceServer<T>
    where
        T: CollectiveAgentService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.CollectiveAgentService/RunCollective" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as CollectiveAgentService>::run_collective(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for CollectiveAgentServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.CollectiveAgentService";
    impl<T> tonic::server::NamedService for CollectiveAgentServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// A part of the fabric that can fail and heal.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Element {
    /// Required. The part.
    #[prost(oneof = "element::Kind", tags = "1, 2, 3")]
    pub kind: ::core::option::Option<element::Kind>,
}
/// Nested message and enum types in `Element`.
pub mod element {
    /// Required. The part.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Kind {
        /// A link, named by the switch port at either end.
        #[prost(message, tag = "1")]
        Link(super::PortName),
        /// A switch, by node id or unique description.
        #[prost(string, tag = "2")]
        SwitchName(::prost::alloc::string::String),
        /// An endpoint, by name.
        #[prost(string, tag = "3")]
        Endpoint(::prost::alloc::string::String),
    }
}
/// A port of a switch.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PortName {
    /// Required. Node id of the switch, such as S-ec0d9a0300ec8240.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Physical port number, from 1.
    #[prost(uint32, tag = "2")]
    pub port: u32,
}
/// A multicast packet.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Packet {
    /// Required. MGID of the group; endpoints filter by it.
    #[prost(uint32, tag = "1")]
    pub mgid: u32,
    /// Required. Color; switches look it up.
    #[prost(uint32, tag = "2")]
    pub color: u32,
    /// Optional. At most 4096 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
    /// Optional. Says who sent it: a number of the sender's own, another one after each restart.
    /// Switches do not look at it; receivers drop what they have got with the same source and
    /// sequence. 0: not to be told apart.
    #[prost(uint64, tag = "4")]
    pub source: u64,
    /// Optional. Number of the packet among those that the source sent to the group, from 1.
    #[prost(uint64, tag = "5")]
    pub sequence: u64,
}
/// Message from an attached process.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttachEndpointsRequest {
    /// Optional. Endpoints to attach from now on.
    #[prost(string, repeated, tag = "1")]
    pub attach: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. Endpoints to detach.
    #[prost(string, repeated, tag = "2")]
    pub detach: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. Packets to send, in order.
    #[prost(message, repeated, tag = "3")]
    pub packets: ::prost::alloc::vec::Vec<EndpointPacket>,
}
/// A packet at an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct EndpointPacket {
    /// Required. Sending endpoint, or the receiving one in a response.
    #[prost(string, tag = "1")]
    pub endpoint: ::prost::alloc::string::String,
    /// Required. The packet.
    #[prost(message, optional, tag = "2")]
    pub packet: ::core::option::Option<Packet>,
}
/// Message to an attached process.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AttachEndpointsResponse {
    /// Packets that arrived, each at one endpoint.
    #[prost(message, repeated, tag = "1")]
    pub packets: ::prost::alloc::vec::Vec<EndpointPacket>,
    /// Endpoints that have been attached.
    #[prost(string, repeated, tag = "2")]
    pub attached: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Refused parts of a request, as texts that name endpoint and reason.
    #[prost(string, repeated, tag = "3")]
    pub refusals: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Request of InjectPacket.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct InjectPacketRequest {
    /// Required. Sending endpoint.
    #[prost(string, tag = "1")]
    pub endpoint: ::prost::alloc::string::String,
    /// Required. The packet.
    #[prost(message, optional, tag = "2")]
    pub packet: ::core::option::Option<Packet>,
}
/// Response of InjectPacket.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct InjectPacketResponse {
    /// Endpoints a copy reached, in the order of arrival; a second copy is listed again.
    #[prost(string, repeated, tag = "1")]
    pub delivered: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Links crossed by copies.
    #[prost(uint64, tag = "2")]
    pub hops: u64,
    /// Copies dropped because no entry matched.
    #[prost(uint64, tag = "3")]
    pub dropped_no_entry: u64,
    /// Copies dropped at dead ports.
    #[prost(uint64, tag = "4")]
    pub dropped_dead_port: u64,
    /// The packet ran into its hop budget: there is a loop.
    #[prost(bool, tag = "5")]
    pub looped: bool,
}
/// Request of FailElement.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FailElementRequest {
    /// Required. The part.
    #[prost(message, optional, tag = "1")]
    pub element: ::core::option::Option<Element>,
}
/// Response of FailElement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FailElementResponse {
    /// True if it was live before.
    #[prost(bool, tag = "1")]
    pub changed: bool,
}
/// Request of HealElement.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HealElementRequest {
    /// Required. The part.
    #[prost(message, optional, tag = "1")]
    pub element: ::core::option::Option<Element>,
}
/// Response of HealElement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HealElementResponse {
    /// True if it was failed before.
    #[prost(bool, tag = "1")]
    pub changed: bool,
}
/// Request of DisturbSwitch.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DisturbSwitchRequest {
    /// Required. Node id.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Kind of the disturbance.
    #[prost(oneof = "disturb_switch_request::Disturbance", tags = "2, 3, 4")]
    pub disturbance: ::core::option::Option<disturb_switch_request::Disturbance>,
}
/// Nested message and enum types in `DisturbSwitchRequest`.
pub mod disturb_switch_request {
    /// Required. Kind of the disturbance.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Disturbance {
        /// All entries are gone; the fence stays.
        #[prost(message, tag = "2")]
        Wipe(super::WipeTable),
        /// Entries lead elsewhere.
        #[prost(message, tag = "3")]
        Corrupt(super::CorruptTable),
        /// Behavior of the switch at writes from now on.
        #[prost(message, tag = "4")]
        Programming(super::Programming),
    }
}
/// All entries of a table vanish.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WipeTable {}
/// Entries of a table change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CorruptTable {
    /// Optional. Number of entries, spread over the table; 0 means one.
    #[prost(uint32, tag = "1")]
    pub entries: u32,
}
/// Behavior of a switch at writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Programming {
    /// Optional. Duration of a write, at most a minute; left out, as fast as can be.
    #[prost(message, optional, tag = "1")]
    pub delay: ::core::option::Option<::prost_types::Duration>,
    /// Optional. Writes are refused with WRITE_FAILED.
    #[prost(bool, tag = "2")]
    pub fails: bool,
}
/// Response of DisturbSwitch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DisturbSwitchResponse {
    /// Entries that are not what they were.
    #[prost(uint32, tag = "1")]
    pub changed_entries: u32,
}
/// Request of WatchFailedElements.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WatchFailedElementsRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
}
/// Response of WatchFailedElements.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchFailedElementsResponse {
    /// All failed parts.
    #[prost(message, repeated, tag = "1")]
    pub elements: ::prost::alloc::vec::Vec<Element>,
}
/// Request of ListFabricSwitches.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListFabricSwitchesRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
}
/// Response of ListFabricSwitches.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListFabricSwitchesResponse {
    /// The switches, ordered by node id.
    #[prost(message, repeated, tag = "1")]
    pub switches: ::prost::alloc::vec::Vec<Switch>,
}
/// Request of ReadSwitchTables.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadSwitchTablesRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Optional. Node ids; empty means all.
    #[prost(string, repeated, tag = "2")]
    pub switch_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Response of ReadSwitchTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadSwitchTablesResponse {
    /// The table of one switch.
    #[prost(message, optional, tag = "1")]
    pub table: ::core::option::Option<SwitchTable>,
}
/// Request of WriteSwitchTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteSwitchTablesRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Required. Term and generation of the writer.
    #[prost(message, optional, tag = "2")]
    pub fence: ::core::option::Option<Fence>,
    /// Required. Entries to write.
    #[prost(message, repeated, tag = "3")]
    pub writes: ::prost::alloc::vec::Vec<SwitchWrite>,
}
/// Response of WriteSwitchTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteSwitchTablesResponse {
    /// Number of entries written.
    #[prost(uint64, tag = "1")]
    pub written_entries: u64,
    /// Switches whose part was refused; theirs changed nothing.
    #[prost(message, repeated, tag = "2")]
    pub refusals: ::prost::alloc::vec::Vec<SwitchRefusal>,
}
/// Request of ListSwitchPorts.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListSwitchPortsRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Required. Node id.
    #[prost(string, tag = "2")]
    pub switch_name: ::prost::alloc::string::String,
}
/// Response of ListSwitchPorts.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListSwitchPortsResponse {
    /// The ports, ordered by number.
    #[prost(message, repeated, tag = "1")]
    pub ports: ::prost::alloc::vec::Vec<PortStatus>,
}
/// Request of ReadSwitchCounters.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadSwitchCountersRequest {
    /// Required. Key that proves a switch agent.
    #[prost(string, tag = "1")]
    pub management_key: ::prost::alloc::string::String,
    /// Optional. Node ids; empty means all.
    #[prost(string, repeated, tag = "2")]
    pub switch_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Response of ReadSwitchCounters.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadSwitchCountersResponse {
    /// The counters of one switch.
    #[prost(message, optional, tag = "1")]
    pub counters: ::core::option::Option<SwitchCounters>,
}
/// Generated client implementations.
pub mod fabric_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// The emulated fabric: switches with real tables that move real packets between attached endpoints.
    #[derive(Debug, Clone)]
    pub struct FabricServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl FabricServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> FabricServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> FabricServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            FabricServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Attaches endpoints, sends their packets and streams what arrives for them; they detach when the
        /// stream ends.
        /// Errors: none of its own; what is refused is named in the stream: UNKNOWN_ENDPOINT,
        /// ENDPOINT_ATTACHED, FIELD_MISSING, COLOR_OUT_OF_RANGE or PAYLOAD_TOO_LONG. The stream ends with
        /// UNAVAILABLE / SHUTTING_DOWN when the fabric stops.
        pub async fn attach_endpoints(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::AttachEndpointsRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::AttachEndpointsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.FabricService/AttachEndpoints",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.FabricService", "AttachEndpoints"),
                );
            self.inner.streaming(req, path, codec).await
        }
        /// Sends one packet as if from an endpoint and says where it went.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT
        /// / COLOR_OUT_OF_RANGE, INVALID_ARGUMENT / PAYLOAD_TOO_LONG.
        pub async fn inject_packet(
            &mut self,
            request: impl tonic::IntoRequest<super::InjectPacketRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InjectPacketResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.FabricService", "InjectPacket");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/InjectPacket",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Breaks a part of the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn fail_element(
            &mut self,
            request: impl tonic::IntoRequest<super::FailElementRequest>,
        ) -> std::result::Result<
            tonic::Response<super::FailElementResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.FabricService", "FailElement");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/FailElement",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Mends a part of the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn heal_element(
            &mut self,
            request: impl tonic::IntoRequest<super::HealElementRequest>,
        ) -> std::result::Result<
            tonic::Response<super::HealElementResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.FabricService", "HealElement");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/HealElement",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Changes the table of a switch behind everybody's back, or makes the switch slow or unable to
        /// take writes.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT / FIELD_MISSING, UNAVAILABLE /
        /// SWITCH_DOWN.
        pub async fn disturb_switch(
            &mut self,
            request: impl tonic::IntoRequest<super::DisturbSwitchRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DisturbSwitchResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.FabricService", "DisturbSwitch");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/DisturbSwitch",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the failed parts: the whole list at the start and again after each change.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        pub async fn watch_failed_elements(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchFailedElementsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchFailedElementsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.FabricService/WatchFailedElements",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.FabricService", "WatchFailedElements"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Lists the switches.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        pub async fn list_fabric_switches(
            &mut self,
            request: impl tonic::IntoRequest<super::ListFabricSwitchesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListFabricSwitchesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.FabricService",
                "ListFabricSwitches",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/ListFabricSwitches",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reads switch tables; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        pub async fn read_switch_tables(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadSwitchTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReadSwitchTablesResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.FabricService/ReadSwitchTables",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.FabricService", "ReadSwitchTables"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Writes switch tables; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, ABORTED / STALE_FENCE, INVALID_ARGUMENT /
        /// FIELD_MISSING; a part that one switch refuses is named in the answer: UNKNOWN_SWITCH,
        /// SWITCH_DOWN, WRITE_FAILED or BAD_ENTRY.
        pub async fn write_switch_tables(
            &mut self,
            request: impl tonic::IntoRequest<super::WriteSwitchTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteSwitchTablesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.FabricService",
                "WriteSwitchTables",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/WriteSwitchTables",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the ports of one switch; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        pub async fn list_switch_ports(
            &mut self,
            request: impl tonic::IntoRequest<super::ListSwitchPortsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSwitchPortsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.FabricService",
                "ListSwitchPorts",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.FabricService/ListSwitchPorts",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reads the port counters of live switches; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        pub async fn read_switch_counters(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadSwitchCountersRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReadSwitchCountersResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.FabricService/ReadSwitchCounters",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.FabricService", "ReadSwitchCounters"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod fabric_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with FabricServiceServer.
    #[async_trait]
    pub trait FabricService: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the AttachEndpoints method.
        type AttachEndpointsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::AttachEndpointsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Attaches endpoints, sends their packets and streams what arrives for them; they detach when the
        /// stream ends.
        /// Errors: none of its own; what is refused is named in the stream: UNKNOWN_ENDPOINT,
        /// ENDPOINT_ATTACHED, FIELD_MISSING, COLOR_OUT_OF_RANGE or PAYLOAD_TOO_LONG. The stream ends with
        /// UNAVAILABLE / SHUTTING_DOWN when the fabric stops.
        async fn attach_endpoints(
            &self,
            request: tonic::Request<tonic::Streaming<super::AttachEndpointsRequest>>,
        ) -> std::result::Result<
            tonic::Response<Self::AttachEndpointsStream>,
            tonic::Status,
        >;
        /// Sends one packet as if from an endpoint and says where it went.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT
        /// / COLOR_OUT_OF_RANGE, INVALID_ARGUMENT / PAYLOAD_TOO_LONG.
        async fn inject_packet(
            &self,
            request: tonic::Request<super::InjectPacketRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InjectPacketResponse>,
            tonic::Status,
        >;
        /// Breaks a part of the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / FIELD_MISSING.
        async fn fail_element(
            &self,
            request: tonic::Request<super::FailElementRequest>,
        ) -> std::result::Result<
            tonic::Response<super::FailElementResponse>,
            tonic::Status,
        >;
        /// Mends a part of the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / FIELD_MISSING.
        async fn heal_element(
            &self,
            request: tonic::Request<super::HealElementRequest>,
        ) -> std::result::Result<
            tonic::Response<super::HealElementResponse>,
            tonic::Status,
        >;
        /// Changes the table of a switch behind everybody's back, or makes the switch slow or unable to
        /// take writes.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT / FIELD_MISSING, UNAVAILABLE /
        /// SWITCH_DOWN.
        async fn disturb_switch(
            &self,
            request: tonic::Request<super::DisturbSwitchRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DisturbSwitchResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchFailedElements method.
        type WatchFailedElementsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::WatchFailedElementsResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Streams the failed parts: the whole list at the start and again after each change.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        async fn watch_failed_elements(
            &self,
            request: tonic::Request<super::WatchFailedElementsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchFailedElementsStream>,
            tonic::Status,
        >;
        /// Lists the switches.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG.
        async fn list_fabric_switches(
            &self,
            request: tonic::Request<super::ListFabricSwitchesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListFabricSwitchesResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ReadSwitchTables method.
        type ReadSwitchTablesStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::ReadSwitchTablesResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Reads switch tables; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        async fn read_switch_tables(
            &self,
            request: tonic::Request<super::ReadSwitchTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReadSwitchTablesStream>,
            tonic::Status,
        >;
        /// Writes switch tables; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, ABORTED / STALE_FENCE, INVALID_ARGUMENT /
        /// FIELD_MISSING; a part that one switch refuses is named in the answer: UNKNOWN_SWITCH,
        /// SWITCH_DOWN, WRITE_FAILED or BAD_ENTRY.
        async fn write_switch_tables(
            &self,
            request: tonic::Request<super::WriteSwitchTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteSwitchTablesResponse>,
            tonic::Status,
        >;
        /// Lists the ports of one switch; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        async fn list_switch_ports(
            &self,
            request: tonic::Request<super::ListSwitchPortsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSwitchPortsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ReadSwitchCounters method.
        type ReadSwitchCountersStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::ReadSwitchCountersResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Reads the port counters of live switches; for switch agents.
        /// Errors: PERMISSION_DENIED / MANAGEMENT_KEY_WRONG, NOT_FOUND / UNKNOWN_SWITCH.
        async fn read_switch_counters(
            &self,
            request: tonic::Request<super::ReadSwitchCountersRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReadSwitchCountersStream>,
            tonic::Status,
        >;
    }
    /// The emulated fabric: switches with real tables that move real packets between attached endpoints.
    #[derive(Debug)]
    pub struct FabricServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> FabricServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for FabricServiceServer<T>
    where
        T: FabricService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.FabricService/AttachEndpoints" => {
                    #[allow(non_camel_case_types)]
                    struct AttachEndpointsSvc<T: FabricService>(pub Arc<T>);
                    impl<
                        T: FabricService,
                    > tonic::server::StreamingService<super::AttachEndpointsRequest>
                    for AttachEndpointsSvc<T> {
                        type Response = super::AttachEndpointsResponse;
                        type ResponseStream = T::AttachEndpointsStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::AttachEndpointsRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as FabricService>::attach_endpoints(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = AttachEndpointsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.FabricService/InjectPacket" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::inject_packet(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.FabricService/FailElement" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::fail_element(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.FabricService/HealElement" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::heal_element(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.FabricService/DisturbSwitch" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::disturb_switch(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.FabricService/WatchFailedElements" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::watch_failed_elements(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricService/ListFabricSwitches" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::list_fabric_switches(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricService/ReadSwitchTables" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::read_switch_tables(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricService/WriteSwitchTables" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::write_switch_tables(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricService/ListSwitchPorts" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::list_switch_ports(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.FabricService/ReadSwitchCounters" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as FabricService>::read_switch_counters(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for FabricServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.FabricService";
    impl<T> tonic::server::NamedService for FabricServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// A compute node: one operating agent and the endpoints it owns.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Node {
    /// Immutable. Name of the node, unique.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Required. Address (host:port) at which the node's operating agent is reached.
    #[prost(string, tag = "2")]
    pub address: ::prost::alloc::string::String,
    /// Required. Endpoints (adapter ports of the topology) that belong to the node.
    #[prost(string, repeated, tag = "3")]
    pub endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Output only. Grows each time the node comes back after a failure or restart.
    #[prost(uint64, tag = "4")]
    pub incarnation: u64,
    /// Output only. Up or failed.
    #[prost(enumeration = "NodeState", tag = "5")]
    pub state: i32,
    /// Output only. Set while the node is suppressed, as it has come and gone too often: until then it
    /// hosts no group agents while another member's node can, or is not readmitted, as the TIC's
    /// settings say.
    #[prost(message, optional, tag = "6")]
    pub suppressed_until: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. Reason why it is suppressed; empty if it is not.
    #[prost(string, tag = "7")]
    pub suppressed_reason: ::prost::alloc::string::String,
    /// Output only. Time when its agent last reported to the TIC that leads, or answered it; unset
    /// if it has not since that TIC leads. Set in answers of GetNode and ListNodes only.
    #[prost(message, optional, tag = "8")]
    pub last_contact_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. An administrator has drained the node: no job gets it, and it hosts the agent of a
    /// group only if no other member's node can. All that is on it stays.
    #[prost(bool, tag = "9")]
    pub drained: bool,
}
/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum NodeState {
    /// Never sent.
    Unspecified = 0,
    /// The node's agent reports.
    Up = 1,
    /// The node was expelled from all its groups; it may come back with a new incarnation.
    Failed = 2,
    /// The node's agent is overdue and has not answered yet: it is about to be expelled, or kept as
    /// too many nodes are silent at once. No job gets the node. In answers of GetNode and ListNodes
    /// only.
    Silent = 3,
}
impl NodeState {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "NODE_STATE_UNSPECIFIED",
            Self::Up => "NODE_STATE_UP",
            Self::Failed => "NODE_STATE_FAILED",
            Self::Silent => "NODE_STATE_SILENT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "NODE_STATE_UNSPECIFIED" => Some(Self::Unspecified),
            "NODE_STATE_UP" => Some(Self::Up),
            "NODE_STATE_FAILED" => Some(Self::Failed),
            "NODE_STATE_SILENT" => Some(Self::Silent),
            _ => None,
        }
    }
}
/// Request of RegisterNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RegisterNodeRequest {
    /// Required. The node; output only fields are ignored.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
    /// Required. Chosen by the operating agent at each start of the node, higher than before; a call
    /// with one that is not higher than the recorded one changes nothing. Nanoseconds since 1970 do;
    /// at most a day beyond the TIC's clock.
    #[prost(uint64, tag = "2")]
    pub start_id: u64,
    /// Optional. Key of this start, 16 random bytes that the TIC gives nobody: with it the TIC vouches
    /// to this node for what others tell it. Without one the node asks the TIC instead.
    #[prost(bytes = "vec", tag = "3")]
    pub voucher_key: ::prost::alloc::vec::Vec<u8>,
}
/// Response of RegisterNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RegisterNodeResponse {
    /// The node as recorded, with its incarnation.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
    /// The start that the record belongs to. If it is higher than the one asked with, the node has not
    /// been admitted: ask with a higher one.
    #[prost(uint64, tag = "2")]
    pub start_id: u64,
}
/// Request of JoinGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct JoinGroupRequest {
    /// Required. Unique per attempt to join; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Node of the process.
    #[prost(string, tag = "3")]
    pub node: ::prost::alloc::string::String,
    /// Required. Incarnation of the node.
    #[prost(uint64, tag = "4")]
    pub incarnation: u64,
    /// Required. Endpoint of the process; must belong to the node.
    #[prost(string, tag = "5")]
    pub endpoint: ::prost::alloc::string::String,
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "6")]
    pub process: ::prost::alloc::string::String,
    /// Optional. MGID for a new group; left out, the TIC chooses. Must match if the group exists.
    #[prost(uint32, optional, tag = "7")]
    pub mgid: ::core::option::Option<u32>,
    /// Optional. Keep a new group when its last member leaves; not looked at if the group exists.
    #[prost(bool, tag = "8")]
    pub persistent: bool,
    /// Optional. Never merge a new group with others; not looked at if the group exists.
    #[prost(bool, tag = "9")]
    pub exclusive: bool,
    /// Optional. Hints for the MGID of a new group; not looked at if the group exists.
    #[prost(message, optional, tag = "10")]
    pub hints: ::core::option::Option<MgidHints>,
    /// Optional. Job that a new group belongs to; not looked at if the group exists.
    #[prost(string, tag = "11")]
    pub job: ::prost::alloc::string::String,
    /// Optional. Do not route a new group before it has had so many members; not looked at if the
    /// group exists.
    #[prost(uint32, tag = "12")]
    pub complete_at_member_count: u32,
    /// Optional. Token of the job that the group belongs to; required if groups are reserved for it.
    #[prost(string, tag = "13")]
    pub job_token: ::prost::alloc::string::String,
    /// Optional. The process only sends: switches deliver nothing of the group to its endpoint, unless
    /// another member there receives. Not looked at if the process is a member already.
    #[prost(bool, tag = "14")]
    pub sends_only: bool,
}
/// Response of JoinGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JoinGroupResponse {
    /// The group without its member list.
    #[prost(message, optional, tag = "1")]
    pub group: ::core::option::Option<Group>,
    /// The new member with its PN.
    #[prost(message, optional, tag = "2")]
    pub member: ::core::option::Option<Member>,
    /// Revision of the change.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}
/// Request of LeaveGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LeaveGroupRequest {
    /// Required. Unique per attempt to leave; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Node of the process.
    #[prost(string, tag = "3")]
    pub node: ::prost::alloc::string::String,
    /// Required. Incarnation of the node.
    #[prost(uint64, tag = "4")]
    pub incarnation: u64,
    /// Required. Name of the process.
    #[prost(string, tag = "5")]
    pub process: ::prost::alloc::string::String,
}
/// Response of LeaveGroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LeaveGroupResponse {
    /// Revision of the change.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// Number of the group.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// The rank that is free now.
    #[prost(uint32, tag = "3")]
    pub pn: u32,
}
/// Request of DeleteGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteGroupRequest {
    /// Required. Unique per attempt; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of DeleteGroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteGroupResponse {
    /// Revision of the change.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
}
/// Request of PlanMgids.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanMgidsRequest {
    /// Required. The groups, in any order.
    #[prost(message, repeated, tag = "1")]
    pub groups: ::prost::alloc::vec::Vec<PlannedGroup>,
}
/// A group that is thought of.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PlannedGroup {
    /// Optional. Its name; a group that exists keeps its MGID.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Required. Endpoints of its members, each once.
    #[prost(string, repeated, tag = "2")]
    pub endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. MGID that it would be given; left out, the TIC chooses.
    #[prost(uint32, optional, tag = "3")]
    pub mgid: ::core::option::Option<u32>,
    /// Optional. Layer of a new group, as in MgidHints.
    #[prost(string, tag = "4")]
    pub layer: ::prost::alloc::string::String,
    /// Optional. A new group must not share a spanning tree.
    #[prost(bool, tag = "5")]
    pub exclusive: bool,
}
/// Response of PlanMgids.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanMgidsResponse {
    /// One for each group, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub mgids: ::prost::alloc::vec::Vec<PlannedMgid>,
}
/// The MGID that a group would get.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PlannedMgid {
    /// Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// The MGID.
    #[prost(uint32, tag = "2")]
    pub mgid: u32,
    /// Color that it maps to.
    #[prost(uint32, tag = "3")]
    pub color: u32,
    /// Spanning tree that it maps to.
    #[prost(uint32, tag = "4")]
    pub spanning_tree: u32,
    /// Members that use the color on another spanning tree; if there are any, one of the groups has to
    /// go elsewhere. Of a group that
    /// exists only new members count, here and below.
    #[prost(uint32, tag = "5")]
    pub conflicting_members: u32,
    /// Members that are in another group of the spanning tree; if there are any, the groups are
    /// merged.
    #[prost(uint32, tag = "6")]
    pub merging_members: u32,
}
/// Request of GetGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetGroupRequest {
    /// Required unless gn is given. Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Optional. Group number; wins over the name.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// Optional. A TIC that does not lead may answer from its copy, which is a second or so behind;
    /// the revision says how far.
    #[prost(bool, tag = "3")]
    pub allow_stale: bool,
    /// Optional. Only members on this node; left out, all of them.
    #[prost(string, tag = "4")]
    pub members_on_node: ::prost::alloc::string::String,
    /// Optional. The members_revision that the caller has the members of: they are left out if that is
    /// still the newest.
    #[prost(uint64, tag = "5")]
    pub unless_members_revision: u64,
    /// Optional. Members with the vouchers for their nodes; only for the operating agent of the node
    /// that hosts the group agent.
    #[prost(bool, tag = "6")]
    pub with_vouchers: bool,
}
/// Response of GetGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetGroupResponse {
    /// The group with its members.
    #[prost(message, optional, tag = "1")]
    pub group: ::core::option::Option<Group>,
    /// Revision of the records.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
    /// True if the members were left out because the caller has them.
    #[prost(bool, tag = "3")]
    pub members_left_out: bool,
}
/// Request of ListGroups.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListGroupsRequest {
    /// Optional. Most groups in one answer; 0 means 1000, more than 10000 means 10000.
    #[prost(uint32, tag = "1")]
    pub page_size: u32,
    /// Optional. Token of the previous answer.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
    /// Optional. Include the member lists.
    #[prost(bool, tag = "3")]
    pub with_members: bool,
    /// Optional. A TIC that does not lead may answer from its copy, which is a second or so behind;
    /// the revision says how far.
    #[prost(bool, tag = "4")]
    pub allow_stale: bool,
}
/// Response of ListGroups.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListGroupsResponse {
    /// The groups.
    #[prost(message, repeated, tag = "1")]
    pub groups: ::prost::alloc::vec::Vec<Group>,
    /// Token of the next page; empty at the end.
    #[prost(string, tag = "2")]
    pub next_page_token: ::prost::alloc::string::String,
    /// Revision of the records.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}
/// Request of ListNodes.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListNodesRequest {
    /// Optional. Most nodes in one answer; 0 means 1000, more than 10000 means 10000.
    #[prost(uint32, tag = "1")]
    pub page_size: u32,
    /// Optional. Token of the previous answer.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
    /// Optional. A TIC that does not lead may answer from its copy, which is a second or so behind;
    /// the revision says how far.
    #[prost(bool, tag = "3")]
    pub allow_stale: bool,
}
/// Response of ListNodes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListNodesResponse {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub nodes: ::prost::alloc::vec::Vec<Node>,
    /// Token of the next page; empty at the end.
    #[prost(string, tag = "2")]
    pub next_page_token: ::prost::alloc::string::String,
    /// Revision of the records.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
    /// Nodes that have not answered and are kept only because too many are silent at once.
    #[prost(uint32, tag = "4")]
    pub held_node_count: u32,
    /// Leaf switches at which nodes are kept because too many there are silent at once. Other nodes
    /// may be kept because too many of all are.
    #[prost(uint32, tag = "5")]
    pub held_block_count: u32,
}
/// Request of GetNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetNodeRequest {
    /// Required. Name of the node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of GetNode.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetNodeResponse {
    /// The node.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
    /// Its memberships, ordered by GN and PN, at most 1000 of them.
    #[prost(message, repeated, tag = "2")]
    pub memberships: ::prost::alloc::vec::Vec<NodeMembership>,
    /// Number of groups whose agents it hosts.
    #[prost(uint32, tag = "3")]
    pub hosted_group_count: u32,
    /// The job that has it; empty if none has.
    #[prost(string, tag = "4")]
    pub job: ::prost::alloc::string::String,
    /// Revision of the records.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
    /// Number of all its memberships.
    #[prost(uint32, tag = "6")]
    pub membership_count: u32,
}
/// A membership of a node.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NodeMembership {
    /// Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Rank in it.
    #[prost(uint32, tag = "2")]
    pub pn: u32,
    /// Name of the process.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Endpoint that it uses.
    #[prost(string, tag = "4")]
    pub endpoint: ::prost::alloc::string::String,
}
/// Request of RemoveNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RemoveNodeRequest {
    /// Required. Name of the node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of RemoveNode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RemoveNodeResponse {
    /// Revision of the change.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
}
/// Request of ReportNodeFailure.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportNodeFailureRequest {
    /// Required. The failed node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Optional. Incarnation that failed; 0 means the present one. A newer incarnation is left alone.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// Required. Name of the reporter, for the log.
    #[prost(string, tag = "3")]
    pub reporter: ::prost::alloc::string::String,
    /// Optional. The reporter only cannot reach the node: the TIC does what its settings say about
    /// such reports, which is to ask the node first, and answers before it has done so.
    #[prost(bool, tag = "4")]
    pub probe_first: bool,
}
/// Response of ReportNodeFailure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportNodeFailureResponse {
    /// Number of memberships that ended.
    #[prost(uint32, tag = "1")]
    pub ended_memberships: u32,
    /// Revision of the change; that of the records if nothing changed.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
}
/// Request of ReadmitNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadmitNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ReadmitNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadmitNodeResponse {
    /// The node, not suppressed.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
}
/// Request of DrainNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DrainNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of DrainNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DrainNodeResponse {
    /// The node, drained.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
    /// Job that has the node; empty if none has.
    #[prost(string, tag = "2")]
    pub job: ::prost::alloc::string::String,
    /// Memberships of its processes.
    #[prost(uint32, tag = "3")]
    pub membership_count: u32,
    /// Group agents that it hosts.
    #[prost(uint32, tag = "4")]
    pub hosted_group_count: u32,
}
/// Request of ResumeNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ResumeNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ResumeNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ResumeNodeResponse {
    /// The node, not drained.
    #[prost(message, optional, tag = "1")]
    pub node: ::core::option::Option<Node>,
}
/// Status report of one node and the group agents on it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupAgentStatus {
    /// Required. The hosting node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Incarnation of the node.
    #[prost(uint64, tag = "2")]
    pub incarnation: u64,
    /// Required. Groups that it hosts.
    #[prost(message, repeated, tag = "3")]
    pub groups: ::prost::alloc::vec::Vec<HostedGroup>,
    /// Optional. Longest time until the next report of a node without group agents, at most an hour;
    /// left out or 0 means 30 seconds. One with group agents reports within `\[tic\] report_timeout`.
    #[prost(message, optional, tag = "4")]
    pub next_report_in: ::core::option::Option<::prost_types::Duration>,
}
/// One group as its agent knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct HostedGroup {
    /// Required. Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Required. Epoch of the agent.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// Required. Revision of the records the agent has taken over; 0 if none yet.
    #[prost(uint64, tag = "3")]
    pub known_revision: u64,
}
/// Request of ReportGroupAgents.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportGroupAgentsRequest {
    /// Required. One status per node.
    #[prost(message, repeated, tag = "1")]
    pub statuses: ::prost::alloc::vec::Vec<GroupAgentStatus>,
}
/// Response of ReportGroupAgents.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportGroupAgentsResponse {
    /// One answer per status, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub verdicts: ::prost::alloc::vec::Vec<GroupAgentVerdict>,
}
/// Message of the TIC to the agents of one node.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupAgentVerdict {
    /// The hosting node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// The node was expelled, or the incarnation is not the newest: drop everything and register
    /// again.
    #[prost(bool, tag = "2")]
    pub expelled: bool,
    /// Groups the node must host and is behind on: fetch them with GetGroup.
    #[prost(uint64, repeated, tag = "3")]
    pub refresh_gns: ::prost::alloc::vec::Vec<u64>,
    /// Groups the node does not host any more.
    #[prost(uint64, repeated, tag = "4")]
    pub drop_gns: ::prost::alloc::vec::Vec<u64>,
}
/// Request of ReportFailedElements.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportFailedElementsRequest {
    /// Required. Name of the reporting switch agent; its report replaces its earlier one.
    #[prost(string, tag = "1")]
    pub reporter: ::prost::alloc::string::String,
    /// Required. Everything that is down.
    #[prost(message, repeated, tag = "2")]
    pub elements: ::prost::alloc::vec::Vec<Element>,
}
/// Response of ReportFailedElements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportFailedElementsResponse {
    /// Number of failed elements the TIC knows of, from all reporters.
    #[prost(uint32, tag = "1")]
    pub failed_count: u32,
    /// The newest term that a route service was granted; 0 if none was. A switch agent takes no
    /// newer one.
    #[prost(uint64, tag = "2")]
    pub newest_route_term: u64,
}
/// Request of ListReporters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListReportersRequest {}
/// Response of ListReporters.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListReportersResponse {
    /// In the order of their names.
    #[prost(message, repeated, tag = "1")]
    pub reporters: ::prost::alloc::vec::Vec<FailureReporter>,
}
/// A switch agent that has reported failed elements.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FailureReporter {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Number of elements in its last list.
    #[prost(uint32, tag = "2")]
    pub failed_count: u32,
}
/// Request of RemoveReporter.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RemoveReporterRequest {
    /// Required. Name of the switch agent.
    #[prost(string, tag = "1")]
    pub reporter: ::prost::alloc::string::String,
}
/// Response of RemoveReporter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RemoveReporterResponse {
    /// Number of failed elements the TIC knows of from all other reporters.
    #[prost(uint32, tag = "1")]
    pub failed_count: u32,
}
/// Request of WatchDirectory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WatchDirectoryRequest {}
/// Response of WatchDirectory.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchDirectoryResponse {
    /// Revision of the records after these changes.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// These changes belong to the snapshot the stream starts with.
    #[prost(bool, tag = "2")]
    pub snapshot: bool,
    /// The snapshot ends with this message.
    #[prost(bool, tag = "3")]
    pub snapshot_end: bool,
    /// The changes, in order.
    #[prost(message, repeated, tag = "4")]
    pub changes: ::prost::alloc::vec::Vec<DirectoryChange>,
    /// In messages of the snapshot. SHA-256 of the topology that the records are of, as
    /// DownloadTopology gives it.
    #[prost(bytes = "vec", tag = "5")]
    pub topology_sha256: ::prost::alloc::vec::Vec<u8>,
    /// Optional. Origins (`traceparent`, as W3C Trace Context has it) of requests behind these changes
    /// that are traced, at most 16: what is done about the changes belongs to their traces.
    #[prost(string, repeated, tag = "6")]
    pub traceparents: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// One change of the records.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DirectoryChange {
    /// Required. The change.
    #[prost(oneof = "directory_change::Kind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub kind: ::core::option::Option<directory_change::Kind>,
}
/// Nested message and enum types in `DirectoryChange`.
pub mod directory_change {
    /// Required. The change.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// A group was created or its record changed; without members.
        #[prost(message, tag = "1")]
        Group(super::Group),
        /// A group is gone, by GN.
        #[prost(uint64, tag = "2")]
        DeletedGn(u64),
        /// A process joined.
        #[prost(message, tag = "3")]
        Joined(super::MemberChange),
        /// A process left or failed.
        #[prost(message, tag = "4")]
        Left(super::MemberChange),
        /// A node registered or changed state.
        #[prost(message, tag = "5")]
        Node(super::Node),
        /// The failed parts of the fabric changed: the whole new list.
        #[prost(message, tag = "6")]
        FailedElements(super::FailedElements),
        /// The record of a node was removed, by its name.
        #[prost(string, tag = "7")]
        RemovedNode(::prost::alloc::string::String),
    }
}
/// A member of a group by number.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MemberChange {
    /// Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// The member.
    #[prost(message, optional, tag = "2")]
    pub member: ::core::option::Option<Member>,
}
/// All failed parts of the fabric.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FailedElements {
    /// The parts.
    #[prost(message, repeated, tag = "1")]
    pub elements: ::prost::alloc::vec::Vec<Element>,
}
/// Request of DownloadTopology.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DownloadTopologyRequest {}
/// Response of DownloadTopology.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DownloadTopologyResponse {
    /// The next piece of the text, cut at any byte; UTF-8 as a whole.
    #[prost(bytes = "vec", tag = "1")]
    pub chunk: ::prost::alloc::vec::Vec<u8>,
}
/// Request of ExportRecords.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExportRecordsRequest {}
/// Response of ExportRecords.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExportRecordsResponse {
    /// The next piece of the file, cut at any byte. Its last line has a digest of all before: a file
    /// without it was cut off.
    #[prost(bytes = "vec", tag = "1")]
    pub chunk: ::prost::alloc::vec::Vec<u8>,
}
/// Request of ReportRecordsCopy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportRecordsCopyRequest {}
/// Response of ReportRecordsCopy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportRecordsCopyResponse {}
/// Request of AcquireRouteTerm.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AcquireRouteTermRequest {
    /// Required. Name of the route service, for the log and for those that wait.
    #[prost(string, tag = "1")]
    pub router: ::prost::alloc::string::String,
    /// Optional. Take the term even if another route service holds it, which is deposed by that.
    #[prost(bool, tag = "2")]
    pub take_over: bool,
    /// Optional. Address of the route service, host:port; told to callers that wait, for their
    /// own callers.
    #[prost(string, tag = "3")]
    pub address: ::prost::alloc::string::String,
}
/// Response of AcquireRouteTerm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AcquireRouteTermResponse {
    /// The new term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The term is held for this time; renew it before.
    #[prost(message, optional, tag = "2")]
    pub lease: ::core::option::Option<::prost_types::Duration>,
}
/// Request of RenewRouteTerm.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RenewRouteTermRequest {
    /// Required. Name of the route service.
    #[prost(string, tag = "1")]
    pub router: ::prost::alloc::string::String,
    /// Required. The term.
    #[prost(uint64, tag = "2")]
    pub term: u64,
    /// Optional. As in AcquireRouteTerm.
    #[prost(string, tag = "3")]
    pub address: ::prost::alloc::string::String,
}
/// Response of RenewRouteTerm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RenewRouteTermResponse {
    /// The term is held for this time; renew it before.
    #[prost(message, optional, tag = "1")]
    pub lease: ::core::option::Option<::prost_types::Duration>,
}
/// Request of ReleaseRouteTerm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReleaseRouteTermRequest {
    /// Required. The term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
}
/// Response of ReleaseRouteTerm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReleaseRouteTermResponse {}
/// Request of ReportRoutes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportRoutesRequest {
    /// Required. Term of the route service.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// Required. Routes that changed.
    #[prost(message, repeated, tag = "2")]
    pub routes: ::prost::alloc::vec::Vec<GroupRoute>,
    /// Required. Term and generation of the plan.
    #[prost(message, optional, tag = "3")]
    pub fence: ::core::option::Option<Fence>,
    /// Optional. No switch holds an entry of a group that was gone at this revision; 0 if not known.
    #[prost(uint64, tag = "4")]
    pub clean_revision: u64,
}
/// The route of one group.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupRoute {
    /// Required. Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Required. The route.
    #[prost(message, optional, tag = "2")]
    pub route: ::core::option::Option<Route>,
}
/// Response of ReportRoutes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportRoutesResponse {
    /// Revision of the records after the report.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
}
/// Request of MoveGroups.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MoveGroupsRequest {
    /// Required. The moves, 1000 at most, and each group once.
    #[prost(message, repeated, tag = "1")]
    pub moves: ::prost::alloc::vec::Vec<GroupMove>,
}
/// Response of MoveGroups.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MoveGroupsResponse {
    /// Names of the groups that move.
    #[prost(string, repeated, tag = "1")]
    pub moved_groups: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Revision of the records with the moves.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
}
/// Generated client implementations.
pub mod tic_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Topology information center: owns the groups, their members, the nodes and the topology. Any call
    /// may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes something with
    /// RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a queue; nothing was changed),
    /// RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left; nothing was changed) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated). Where several TICs
    /// share a store one of them leads. The others refuse with UNAVAILABLE / NOT_LEADER, whose metadata
    /// name the leader's address if it is known; they answer DownloadTopology, and reads that allow it
    /// from a copy. A call that was lost when the leader changed may be repeated at the next one: what a
    /// request id was answered with is durable. Where parts show each other certificates, any call of
    /// this or another service may also be refused with PERMISSION_DENIED / NOT_PERMITTED: the caller's
    /// role, node or tenant does not have it. Bytes that are no message of a call of this or another
    /// service are refused with INVALID_ARGUMENT / REQUEST_UNREADABLE. Clients that ask too much of this
    /// or another service are refused with RESOURCE_EXHAUSTED / RATE_LIMITED, RESOURCE_EXHAUSTED /
    /// TOO_MANY_OPEN_CALLS or RESOURCE_EXHAUSTED / TOO_MANY_REQUEST_BYTES, and told when to come again.
    /// A message that does not arrive in time ends its call with DEADLINE_EXCEEDED / REQUEST_TOO_SLOW.
    #[derive(Debug, Clone)]
    pub struct TicServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl TicServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> TicServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> TicServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            TicServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Announces a node, or that a failed one is back. Safe to repeat.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, ALREADY_EXISTS / ENDPOINT_TAKEN, INVALID_ARGUMENT / START_OUT_OF_RANGE,
        /// UNAVAILABLE / NODE_SUPPRESSED (it has come and gone too often; works later, or once an
        /// administrator readmits it).
        pub async fn register_node(
            &mut self,
            request: impl tonic::IntoRequest<super::RegisterNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "RegisterNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/RegisterNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Adds a process to a group; an unknown group is created. Durable once answered.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING,
        /// ALREADY_EXISTS / MGID_IN_USE, UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT /
        /// MGID_OUT_OF_RANGE, ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / JOINED_ELSEWHERE,
        /// FAILED_PRECONDITION / MEMBERSHIP_ENDED, INVALID_ARGUMENT / REQUEST_ID_REUSED. Of a group of a
        /// job: PERMISSION_DENIED / TOKEN_REFUSED, RESOURCE_EXHAUSTED / QUOTA_REACHED (it has as many as
        /// were reserved), NOT_FOUND / UNKNOWN_JOB, FAILED_PRECONDITION / JOB_ENDED.
        pub async fn join_group(
            &mut self,
            request: impl tonic::IntoRequest<super::JoinGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::JoinGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "JoinGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/JoinGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Takes a process out of a group. Durable once answered.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, NOT_FOUND / NOT_A_MEMBER, NOT_FOUND / UNKNOWN_NODE,
        /// FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / REQUEST_ID_REUSED.
        pub async fn leave_group(
            &mut self,
            request: impl tonic::IntoRequest<super::LeaveGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LeaveGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "LeaveGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/LeaveGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Removes a group with all its members.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// REQUEST_ID_REUSED.
        pub async fn delete_group(
            &mut self,
            request: impl tonic::IntoRequest<super::DeleteGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "DeleteGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/DeleteGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Says which MGIDs groups would get if they were formed together now; changes nothing. While no
        /// group changes, the answer is the same, it does not depend on the order of the groups, and
        /// GroupBatchService.FormGroups gives these MGIDs.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, INVALID_ARGUMENT / NAME_INVALID,
        /// ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / MGID_IN_USE,
        /// UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT / MGID_OUT_OF_RANGE,
        /// RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn plan_mgids(
            &mut self,
            request: impl tonic::IntoRequest<super::PlanMgidsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanMgidsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "PlanMgids");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/PlanMgids",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers one group with its members.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn get_group(
            &mut self,
            request: impl tonic::IntoRequest<super::GetGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "GetGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/GetGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists groups, ordered by GN.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        pub async fn list_groups(
            &mut self,
            request: impl tonic::IntoRequest<super::ListGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListGroupsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ListGroups");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ListGroups",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists nodes, ordered by name.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        pub async fn list_nodes(
            &mut self,
            request: impl tonic::IntoRequest<super::ListNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListNodesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ListNodes");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ListNodes",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers one node with its memberships.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn get_node(
            &mut self,
            request: impl tonic::IntoRequest<super::GetNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "GetNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/GetNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// An administrator says that a node is gone for good, or has another name now: its record is
        /// removed, and its endpoints are free for another node. One that still runs registers again.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / NODE_UP (it takes part;
        /// ReportNodeFailure expels it), INVALID_ARGUMENT / NAME_INVALID.
        pub async fn remove_node(
            &mut self,
            request: impl tonic::IntoRequest<super::RemoveNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "RemoveNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/RemoveNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Network management says that a node has failed: it is expelled at once. Or somebody cannot
        /// reach a node: the TIC asks it, and expels it if it does not answer.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT /
        /// NAME_INVALID.
        pub async fn report_node_failure(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportNodeFailureRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportNodeFailureResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReportNodeFailure");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReportNodeFailure",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// An administrator says that a node is well: it is forgotten how often it has come and gone, and
        /// it is not suppressed any more.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn readmit_node(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadmitNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReadmitNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReadmitNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReadmitNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// An administrator wants a node to be empty: from now on no job gets it, also after a restart of
        /// the node. Its job, its memberships and the agents that it hosts stay until their owners end
        /// them, and its processes may join groups. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn drain_node(
            &mut self,
            request: impl tonic::IntoRequest<super::DrainNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DrainNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "DrainNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/DrainNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Jobs may get the node again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn resume_node(
            &mut self,
            request: impl tonic::IntoRequest<super::ResumeNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ResumeNode");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ResumeNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Moves groups to other spanning trees, as RouteService.PlanRebalance plans. Their members keep
        /// the MGID, and lose no packets. A group is left out if it is gone, not where it is said to be or
        /// exclusive, or if no MGID of the tree is free.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn move_groups(
            &mut self,
            request: impl tonic::IntoRequest<super::MoveGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::MoveGroupsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "MoveGroups");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/MoveGroups",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Status report of several nodes and their group agents; the answer says which groups they are
        /// behind on. Each node reports, also one without group agents: the TIC probes a node whose report
        /// is overdue, and expels it if it does not answer.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn report_group_agents(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportGroupAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportGroupAgentsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReportGroupAgents");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReportGroupAgents",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Switch agents say which parts of the fabric are down: always the whole list of what one agent
        /// sees. With certificates the reporter is the agent that the caller's certificate names.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING.
        pub async fn report_failed_elements(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportFailedElementsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportFailedElementsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.TicService",
                "ReportFailedElements",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReportFailedElements",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the switch agents whose lists of failed elements count, also those that are silent.
        /// Errors: none of its own.
        pub async fn list_reporters(
            &mut self,
            request: impl tonic::IntoRequest<super::ListReportersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListReportersResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ListReporters");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ListReporters",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// An administrator says that a switch agent is gone for good, or has another name now: its list
        /// of failed elements counts no more.
        /// One that still runs reports again.
        /// Errors: NOT_FOUND / UNKNOWN_REPORTER, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn remove_reporter(
            &mut self,
            request: impl tonic::IntoRequest<super::RemoveReporterRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveReporterResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "RemoveReporter");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/RemoveReporter",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the current records, then every change.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED; the stream ends with UNAVAILABLE / READER_TOO_SLOW
        /// or INTERNAL / STORE_FAILED: start again.
        pub async fn watch_directory(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchDirectoryRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchDirectoryResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.TicService/WatchDirectory",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.TicService", "WatchDirectory"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// Streams the topology as ibnetdiscover prints it.
        /// Errors: UNAVAILABLE / NO_TOPOLOGY (none has been discovered yet).
        pub async fn download_topology(
            &mut self,
            request: impl tonic::IntoRequest<super::DownloadTopologyRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::DownloadTopologyResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.TicService/DownloadTopology",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.TicService", "DownloadTopology"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// Streams a copy of all records, as `fabricast store import` reads it: of one revision, while
        /// changes go on. Few copies are made at one time, and one of a client.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED, INTERNAL / STORE_FAILED;
        /// UNAVAILABLE / READER_TOO_SLOW (no part was taken for 30 seconds).
        pub async fn export_records(
            &mut self,
            request: impl tonic::IntoRequest<super::ExportRecordsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ExportRecordsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.TicService/ExportRecords",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.TicService", "ExportRecords"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// The caller of ExportRecords says that it keeps a whole copy: the metric
        /// fabricast_tic_records_copy_timestamp_seconds of this TIC tells when it was called. Nothing is
        /// recorded, so a TIC that leads later does not know of it.
        /// Errors: none of its own.
        pub async fn report_records_copy(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportRecordsCopyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportRecordsCopyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReportRecordsCopy");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReportRecordsCopy",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Gives the calling route service a term above all earlier ones, unless another one holds the
        /// newest: then call again.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE / ROUTE_TERM_HELD (whose metadata say by
        /// whom, and for how many milliseconds yet if it is not renewed).
        pub async fn acquire_route_term(
            &mut self,
            request: impl tonic::IntoRequest<super::AcquireRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::AcquireRouteTermResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "AcquireRouteTerm");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/AcquireRouteTerm",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Holds a term for another lease, counted from this call.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn renew_route_term(
            &mut self,
            request: impl tonic::IntoRequest<super::RenewRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RenewRouteTermResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "RenewRouteTerm");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/RenewRouteTerm",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Gives a term back, so that the next route service need not wait. Safe to repeat; an older term
        /// is given back already.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn release_route_term(
            &mut self,
            request: impl tonic::IntoRequest<super::ReleaseRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReleaseRouteTermResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReleaseRouteTerm");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReleaseRouteTerm",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// The route service says what it has programmed.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / COLOR_OUT_OF_RANGE,
        /// INVALID_ARGUMENT / REVISION_OUT_OF_RANGE (the records are not so new).
        pub async fn report_routes(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportRoutesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportRoutesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TicService", "ReportRoutes");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TicService/ReportRoutes",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod tic_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with TicServiceServer.
    #[async_trait]
    pub trait TicService: std::marker::Send + std::marker::Sync + 'static {
        /// Announces a node, or that a failed one is back. Safe to repeat.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, ALREADY_EXISTS / ENDPOINT_TAKEN, INVALID_ARGUMENT / START_OUT_OF_RANGE,
        /// UNAVAILABLE / NODE_SUPPRESSED (it has come and gone too often; works later, or once an
        /// administrator readmits it).
        async fn register_node(
            &self,
            request: tonic::Request<super::RegisterNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterNodeResponse>,
            tonic::Status,
        >;
        /// Adds a process to a group; an unknown group is created. Durable once answered.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT /
        /// UNKNOWN_ENDPOINT, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING,
        /// ALREADY_EXISTS / MGID_IN_USE, UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT /
        /// MGID_OUT_OF_RANGE, ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / JOINED_ELSEWHERE,
        /// FAILED_PRECONDITION / MEMBERSHIP_ENDED, INVALID_ARGUMENT / REQUEST_ID_REUSED. Of a group of a
        /// job: PERMISSION_DENIED / TOKEN_REFUSED, RESOURCE_EXHAUSTED / QUOTA_REACHED (it has as many as
        /// were reserved), NOT_FOUND / UNKNOWN_JOB, FAILED_PRECONDITION / JOB_ENDED.
        async fn join_group(
            &self,
            request: tonic::Request<super::JoinGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::JoinGroupResponse>,
            tonic::Status,
        >;
        /// Takes a process out of a group. Durable once answered.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, NOT_FOUND / NOT_A_MEMBER, NOT_FOUND / UNKNOWN_NODE,
        /// FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / REQUEST_ID_REUSED.
        async fn leave_group(
            &self,
            request: tonic::Request<super::LeaveGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LeaveGroupResponse>,
            tonic::Status,
        >;
        /// Removes a group with all its members.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// REQUEST_ID_REUSED.
        async fn delete_group(
            &self,
            request: tonic::Request<super::DeleteGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteGroupResponse>,
            tonic::Status,
        >;
        /// Says which MGIDs groups would get if they were formed together now; changes nothing. While no
        /// group changes, the answer is the same, it does not depend on the order of the groups, and
        /// GroupBatchService.FormGroups gives these MGIDs.
        /// Errors: INVALID_ARGUMENT / UNKNOWN_ENDPOINT, INVALID_ARGUMENT / NAME_INVALID,
        /// ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / MGID_IN_USE,
        /// UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT / MGID_OUT_OF_RANGE,
        /// RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn plan_mgids(
            &self,
            request: tonic::Request<super::PlanMgidsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanMgidsResponse>,
            tonic::Status,
        >;
        /// Answers one group with its members.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, INVALID_ARGUMENT / NAME_INVALID.
        async fn get_group(
            &self,
            request: tonic::Request<super::GetGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetGroupResponse>,
            tonic::Status,
        >;
        /// Lists groups, ordered by GN.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        async fn list_groups(
            &self,
            request: tonic::Request<super::ListGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListGroupsResponse>,
            tonic::Status,
        >;
        /// Lists nodes, ordered by name.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        async fn list_nodes(
            &self,
            request: tonic::Request<super::ListNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListNodesResponse>,
            tonic::Status,
        >;
        /// Answers one node with its memberships.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn get_node(
            &self,
            request: tonic::Request<super::GetNodeRequest>,
        ) -> std::result::Result<tonic::Response<super::GetNodeResponse>, tonic::Status>;
        /// An administrator says that a node is gone for good, or has another name now: its record is
        /// removed, and its endpoints are free for another node. One that still runs registers again.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / NODE_UP (it takes part;
        /// ReportNodeFailure expels it), INVALID_ARGUMENT / NAME_INVALID.
        async fn remove_node(
            &self,
            request: tonic::Request<super::RemoveNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveNodeResponse>,
            tonic::Status,
        >;
        /// Network management says that a node has failed: it is expelled at once. Or somebody cannot
        /// reach a node: the TIC asks it, and expels it if it does not answer.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, FAILED_PRECONDITION / STALE_INCARNATION, INVALID_ARGUMENT /
        /// NAME_INVALID.
        async fn report_node_failure(
            &self,
            request: tonic::Request<super::ReportNodeFailureRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportNodeFailureResponse>,
            tonic::Status,
        >;
        /// An administrator says that a node is well: it is forgotten how often it has come and gone, and
        /// it is not suppressed any more.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn readmit_node(
            &self,
            request: tonic::Request<super::ReadmitNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReadmitNodeResponse>,
            tonic::Status,
        >;
        /// An administrator wants a node to be empty: from now on no job gets it, also after a restart of
        /// the node. Its job, its memberships and the agents that it hosts stay until their owners end
        /// them, and its processes may join groups. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn drain_node(
            &self,
            request: tonic::Request<super::DrainNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DrainNodeResponse>,
            tonic::Status,
        >;
        /// Jobs may get the node again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn resume_node(
            &self,
            request: tonic::Request<super::ResumeNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeNodeResponse>,
            tonic::Status,
        >;
        /// Moves groups to other spanning trees, as RouteService.PlanRebalance plans. Their members keep
        /// the MGID, and lose no packets. A group is left out if it is gone, not where it is said to be or
        /// exclusive, or if no MGID of the tree is free.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn move_groups(
            &self,
            request: tonic::Request<super::MoveGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::MoveGroupsResponse>,
            tonic::Status,
        >;
        /// Status report of several nodes and their group agents; the answer says which groups they are
        /// behind on. Each node reports, also one without group agents: the TIC probes a node whose report
        /// is overdue, and expels it if it does not answer.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING.
        async fn report_group_agents(
            &self,
            request: tonic::Request<super::ReportGroupAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportGroupAgentsResponse>,
            tonic::Status,
        >;
        /// Switch agents say which parts of the fabric are down: always the whole list of what one agent
        /// sees. With certificates the reporter is the agent that the caller's certificate names.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING.
        async fn report_failed_elements(
            &self,
            request: tonic::Request<super::ReportFailedElementsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportFailedElementsResponse>,
            tonic::Status,
        >;
        /// Lists the switch agents whose lists of failed elements count, also those that are silent.
        /// Errors: none of its own.
        async fn list_reporters(
            &self,
            request: tonic::Request<super::ListReportersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListReportersResponse>,
            tonic::Status,
        >;
        /// An administrator says that a switch agent is gone for good, or has another name now: its list
        /// of failed elements counts no more.
        /// One that still runs reports again.
        /// Errors: NOT_FOUND / UNKNOWN_REPORTER, INVALID_ARGUMENT / NAME_INVALID.
        async fn remove_reporter(
            &self,
            request: tonic::Request<super::RemoveReporterRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveReporterResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchDirectory method.
        type WatchDirectoryStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::WatchDirectoryResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Streams the current records, then every change.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED; the stream ends with UNAVAILABLE / READER_TOO_SLOW
        /// or INTERNAL / STORE_FAILED: start again.
        async fn watch_directory(
            &self,
            request: tonic::Request<super::WatchDirectoryRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchDirectoryStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the DownloadTopology method.
        type DownloadTopologyStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::DownloadTopologyResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Streams the topology as ibnetdiscover prints it.
        /// Errors: UNAVAILABLE / NO_TOPOLOGY (none has been discovered yet).
        async fn download_topology(
            &self,
            request: tonic::Request<super::DownloadTopologyRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::DownloadTopologyStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the ExportRecords method.
        type ExportRecordsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ExportRecordsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Streams a copy of all records, as `fabricast store import` reads it: of one revision, while
        /// changes go on. Few copies are made at one time, and one of a client.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED, INTERNAL / STORE_FAILED;
        /// UNAVAILABLE / READER_TOO_SLOW (no part was taken for 30 seconds).
        async fn export_records(
            &self,
            request: tonic::Request<super::ExportRecordsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ExportRecordsStream>,
            tonic::Status,
        >;
        /// The caller of ExportRecords says that it keeps a whole copy: the metric
        /// fabricast_tic_records_copy_timestamp_seconds of this TIC tells when it was called. Nothing is
        /// recorded, so a TIC that leads later does not know of it.
        /// Errors: none of its own.
        async fn report_records_copy(
            &self,
            request: tonic::Request<super::ReportRecordsCopyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportRecordsCopyResponse>,
            tonic::Status,
        >;
        /// Gives the calling route service a term above all earlier ones, unless another one holds the
        /// newest: then call again.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE / ROUTE_TERM_HELD (whose metadata say by
        /// whom, and for how many milliseconds yet if it is not renewed).
        async fn acquire_route_term(
            &self,
            request: tonic::Request<super::AcquireRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::AcquireRouteTermResponse>,
            tonic::Status,
        >;
        /// Holds a term for another lease, counted from this call.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / FIELD_MISSING.
        async fn renew_route_term(
            &self,
            request: tonic::Request<super::RenewRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RenewRouteTermResponse>,
            tonic::Status,
        >;
        /// Gives a term back, so that the next route service need not wait. Safe to repeat; an older term
        /// is given back already.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING.
        async fn release_route_term(
            &self,
            request: tonic::Request<super::ReleaseRouteTermRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReleaseRouteTermResponse>,
            tonic::Status,
        >;
        /// The route service says what it has programmed.
        /// Errors: ABORTED / STALE_TERM, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING, INVALID_ARGUMENT / COLOR_OUT_OF_RANGE,
        /// INVALID_ARGUMENT / REVISION_OUT_OF_RANGE (the records are not so new).
        async fn report_routes(
            &self,
            request: tonic::Request<super::ReportRoutesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportRoutesResponse>,
            tonic::Status,
        >;
    }
    /// Topology information center: owns the groups, their members, the nodes and the topology. Any call
    /// may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes something with
    /// RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a queue; nothing was changed),
    /// RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left; nothing was changed) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated). Where several TICs
    /// share a store one of them leads. The others refuse with UNAVAILABLE / NOT_LEADER, whose metadata
    /// name the leader's address if it is known; they answer DownloadTopology, and reads that allow it
    /// from a copy. A call that was lost when the leader changed may be repeated at the next one: what a
    /// request id was answered with is durable. Where parts show each other certificates, any call of
    /// this or another service may also be refused with PERMISSION_DENIED / NOT_PERMITTED: the caller's
    /// role, node or tenant does not have it. Bytes that are no message of a call of this or another
    /// service are refused with INVALID_ARGUMENT / REQUEST_UNREADABLE. Clients that ask too much of this
    /// or another service are refused with RESOURCE_EXHAUSTED / RATE_LIMITED, RESOURCE_EXHAUSTED /
    /// TOO_MANY_OPEN_CALLS or RESOURCE_EXHAUSTED / TOO_MANY_REQUEST_BYTES, and told when to come again.
    /// A message that does not arrive in time ends its call with DEADLINE_EXCEEDED / REQUEST_TOO_SLOW.
    #[derive(Debug)]
    pub struct TicServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> TicServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for TicServiceServer<T>
    where
        T: TicService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.TicService/RegisterNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::register_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/JoinGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::join_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/LeaveGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::leave_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/DeleteGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::delete_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/PlanMgids" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::plan_mgids(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/GetGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::get_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ListGroups" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::list_groups(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ListNodes" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::list_nodes(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/GetNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::get_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/RemoveNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::remove_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReportNodeFailure" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::report_node_failure(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReadmitNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::readmit_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/DrainNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::drain_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ResumeNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::resume_node(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/MoveGroups" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::move_groups(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReportGroupAgents" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::report_group_agents(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReportFailedElements" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::report_failed_elements(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.TicService/ListReporters" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::list_reporters(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/RemoveReporter" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::remove_reporter(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/WatchDirectory" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::watch_directory(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/DownloadTopology" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::download_topology(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ExportRecords" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::export_records(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReportRecordsCopy" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::report_records_copy(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/AcquireRouteTerm" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::acquire_route_term(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/RenewRouteTerm" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::renew_route_term(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReleaseRouteTerm" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::release_route_term(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TicService/ReportRoutes" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TicService>::report_routes(&inner, request).await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for TicServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.TicService";
    impl<T> tonic::server::NamedService for TicServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Request of FormGroups: one of many, as a message has a bounded size.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FormGroupsRequest {
    /// Required in the first message. Unique per batch; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Optional, in the first message. Job that new groups belong to.
    #[prost(string, tag = "2")]
    pub job: ::prost::alloc::string::String,
    /// Required in one of the messages. Groups to form; each is named once in a batch.
    #[prost(message, repeated, tag = "3")]
    pub groups: ::prost::alloc::vec::Vec<FormedGroupSpec>,
    /// Optional, in the first message. Token of that job; required if groups are reserved for it.
    #[prost(string, tag = "4")]
    pub job_token: ::prost::alloc::string::String,
}
/// A group that is to be formed.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FormedGroupSpec {
    /// Required. Name of the group; one that exists is joined.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Required. Those who join; the first one's node hosts the agent of a new group.
    #[prost(message, repeated, tag = "2")]
    pub members: ::prost::alloc::vec::Vec<FormedMember>,
    /// Optional. MGID for a new group; left out, the TIC chooses. Must match if the group exists.
    #[prost(uint32, optional, tag = "3")]
    pub mgid: ::core::option::Option<u32>,
    /// Optional. Keep a new group when its last member leaves; not looked at if the group exists.
    #[prost(bool, tag = "4")]
    pub persistent: bool,
    /// Optional. Never merge a new group with others; not looked at if the group exists.
    #[prost(bool, tag = "5")]
    pub exclusive: bool,
    /// Optional. Layer of a new group, as in MgidHints.
    #[prost(string, tag = "6")]
    pub layer: ::prost::alloc::string::String,
    /// Optional. Do not route a new group before it has had so many members; 0 routes it at once.
    #[prost(uint32, tag = "7")]
    pub complete_at_member_count: u32,
    /// Optional. Shape of a new group's unicast tree; left out, the TIC chooses it by the measured
    /// constants, or takes two below each where there are none.
    #[prost(message, optional, tag = "8")]
    pub tree: ::core::option::Option<TreeShape>,
    /// Optional. Bytes of the operations that matter most, for that choice; left out, 8.
    #[prost(uint32, optional, tag = "9")]
    pub operation_byte_count: ::core::option::Option<u32>,
}
/// A process that is to join.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FormedMember {
    /// Required. Endpoint of the process.
    #[prost(string, tag = "1")]
    pub endpoint: ::prost::alloc::string::String,
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "2")]
    pub process: ::prost::alloc::string::String,
    /// Optional. Its node; left out, the one that has the endpoint.
    #[prost(string, tag = "3")]
    pub node: ::prost::alloc::string::String,
    /// Optional. Incarnation of the node; 0 means the present one.
    #[prost(uint64, tag = "4")]
    pub incarnation: u64,
}
/// Response of FormGroups: one for every portion.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FormGroupsResponse {
    /// The groups that are durable now, in the order in which they were sent. A group of many members
    /// is in several answers, each with the PNs of some; it counts as formed with the last.
    #[prost(message, repeated, tag = "1")]
    pub groups: ::prost::alloc::vec::Vec<FormedGroup>,
    /// Groups of the whole batch that are formed after this portion.
    #[prost(uint32, tag = "2")]
    pub formed_count: u32,
    /// Groups of the whole batch.
    #[prost(uint32, tag = "3")]
    pub group_count: u32,
}
/// A group that was formed.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct FormedGroup {
    /// Its name.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Its number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// Its MGID.
    #[prost(uint32, tag = "3")]
    pub mgid: u32,
    /// The PNs, in the order of the members.
    #[prost(uint32, repeated, tag = "4")]
    pub pns: ::prost::alloc::vec::Vec<u32>,
}
/// Request of DeleteJobGroups.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteJobGroupsRequest {
    /// Required. Unique per attempt; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the job, as its groups have it.
    #[prost(string, tag = "2")]
    pub job: ::prost::alloc::string::String,
}
/// Response of DeleteJobGroups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteJobGroupsResponse {
    /// Groups that ended. After a crash in between: by the attempt that came to the end.
    #[prost(uint64, tag = "1")]
    pub group_count: u64,
    /// Memberships that ended with them.
    #[prost(uint64, tag = "2")]
    pub membership_count: u64,
    /// Revision of the last change.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}
/// Request of JoinMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JoinManyRequest {
    /// Required. The joins; at most 10000.
    #[prost(message, repeated, tag = "1")]
    pub joins: ::prost::alloc::vec::Vec<JoinGroupRequest>,
}
/// Response of JoinMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JoinManyResponse {
    /// One for each join, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub answers: ::prost::alloc::vec::Vec<JoinAnswer>,
}
/// Result of one join of many.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JoinAnswer {
    /// Required. Granted or refused.
    #[prost(oneof = "join_answer::Answer", tags = "1, 2")]
    pub answer: ::core::option::Option<join_answer::Answer>,
}
/// Nested message and enum types in `JoinAnswer`.
pub mod join_answer {
    /// Required. Granted or refused.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Answer {
        /// It was granted.
        #[prost(message, tag = "1")]
        Joined(super::JoinGroupResponse),
        /// It was refused.
        #[prost(message, tag = "2")]
        Refusal(super::CallRefusal),
    }
}
/// Request of LeaveMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LeaveManyRequest {
    /// Required. The leaves; at most 10000.
    #[prost(message, repeated, tag = "1")]
    pub leaves: ::prost::alloc::vec::Vec<LeaveGroupRequest>,
}
/// Response of LeaveMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct LeaveManyResponse {
    /// One for each leave, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub answers: ::prost::alloc::vec::Vec<LeaveAnswer>,
}
/// Result of one leave of many.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LeaveAnswer {
    /// Required. Done or refused.
    #[prost(oneof = "leave_answer::Answer", tags = "1, 2")]
    pub answer: ::core::option::Option<leave_answer::Answer>,
}
/// Nested message and enum types in `LeaveAnswer`.
pub mod leave_answer {
    /// Required. Done or refused.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Answer {
        /// It is done.
        #[prost(message, tag = "1")]
        Left(super::LeaveGroupResponse),
        /// It was refused.
        #[prost(message, tag = "2")]
        Refusal(super::CallRefusal),
    }
}
/// Request of GetMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetManyRequest {
    /// Required. The questions, at most 10000.
    #[prost(message, repeated, tag = "1")]
    pub gets: ::prost::alloc::vec::Vec<GetGroupRequest>,
}
/// Response of GetMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetManyResponse {
    /// The result of each, in the order asked. Large groups fill an answer before all are in it: ask
    /// again for the rest.
    #[prost(message, repeated, tag = "1")]
    pub answers: ::prost::alloc::vec::Vec<GetAnswer>,
    /// Revision of the records when all was answered: a group that was not found has ended by then.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
}
/// Result of one question of many.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetAnswer {
    /// Required. Found or refused.
    #[prost(oneof = "get_answer::Answer", tags = "1, 2")]
    pub answer: ::core::option::Option<get_answer::Answer>,
}
/// Nested message and enum types in `GetAnswer`.
pub mod get_answer {
    /// Required. Found or refused.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Answer {
        /// The group.
        #[prost(message, tag = "1")]
        Found(super::GetGroupResponse),
        /// It was refused.
        #[prost(message, tag = "2")]
        Refusal(super::CallRefusal),
    }
}
/// The status of one call among many.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CallRefusal {
    /// Code of gRPC.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Reason, as in ErrorInfo; empty if the status had none.
    #[prost(string, tag = "2")]
    pub reason: ::prost::alloc::string::String,
    /// The refused field and the reason.
    #[prost(string, tag = "3")]
    pub message: ::prost::alloc::string::String,
}
/// Generated client implementations.
pub mod group_batch_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Many groups and memberships with one call; served by the TIC. Any call may also be refused with
    /// UNAVAILABLE / SHUTTING_DOWN, RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a
    /// queue), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL / STORE_FAILED
    /// (what was changed is known when the call is repeated).
    #[derive(Debug, Clone)]
    pub struct GroupBatchServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl GroupBatchServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> GroupBatchServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> GroupBatchServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            GroupBatchServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Forms whole groups, as a job launcher does: everything is sent, then checked, and only then
        /// formed, portion by portion. A portion is durable once it is answered, and a group is formed
        /// wholly or not at all; one with more than 4 096 members is in several portions, and is not
        /// routed before all of them have joined. A caller that lacks some answers repeats the call with
        /// the same groups
        /// under the same request id: nothing is formed twice, and nobody who has left since is brought
        /// back. Nothing is formed if the check finds anything; the message names the group and the field.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// TREE_INVALID, INVALID_ARGUMENT / UNKNOWN_ENDPOINT, NOT_FOUND / UNKNOWN_NODE,
        /// FAILED_PRECONDITION / STALE_INCARNATION,
        /// ALREADY_EXISTS / MGID_IN_USE, UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT /
        /// MGID_OUT_OF_RANGE, ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / JOINED_ELSEWHERE,
        /// INVALID_ARGUMENT / REQUEST_ID_REUSED, and those of TicService.JoinGroup of a group of a job.
        /// One of them after the first answer: the records changed while groups were formed; those
        /// answered stay. DEADLINE_EXCEEDED / REQUEST_TOO_SLOW if messages come too slowly, UNAVAILABLE /
        /// READER_TOO_SLOW if answers are taken too slowly.
        pub async fn form_groups(
            &mut self,
            request: impl tonic::IntoStreamingRequest<Message = super::FormGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::FormGroupsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.GroupBatchService/FormGroups",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.GroupBatchService", "FormGroups"));
            self.inner.streaming(req, path, codec).await
        }
        /// Ends all groups of a job, with all their members. Groups that are formed meanwhile are left
        /// alone.
        /// Errors: NOT_FOUND / UNKNOWN_JOB (no group belongs to it), INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / REQUEST_ID_REUSED.
        pub async fn delete_job_groups(
            &mut self,
            request: impl tonic::IntoRequest<super::DeleteJobGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteJobGroupsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupBatchService",
                "DeleteJobGroups",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupBatchService/DeleteJobGroups",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Many calls of TicService.JoinGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn join_many(
            &mut self,
            request: impl tonic::IntoRequest<super::JoinManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::JoinManyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.GroupBatchService", "JoinMany");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupBatchService/JoinMany",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Many calls of TicService.LeaveGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn leave_many(
            &mut self,
            request: impl tonic::IntoRequest<super::LeaveManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LeaveManyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.GroupBatchService", "LeaveMany");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupBatchService/LeaveMany",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Many calls of TicService.GetGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn get_many(
            &mut self,
            request: impl tonic::IntoRequest<super::GetManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetManyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.GroupBatchService", "GetMany");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupBatchService/GetMany",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod group_batch_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with GroupBatchServiceServer.
    #[async_trait]
    pub trait GroupBatchService: std::marker::Send + std::marker::Sync + 'static {
        /// Server streaming response type for the FormGroups method.
        type FormGroupsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::FormGroupsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Forms whole groups, as a job launcher does: everything is sent, then checked, and only then
        /// formed, portion by portion. A portion is durable once it is answered, and a group is formed
        /// wholly or not at all; one with more than 4 096 members is in several portions, and is not
        /// routed before all of them have joined. A caller that lacks some answers repeats the call with
        /// the same groups
        /// under the same request id: nothing is formed twice, and nobody who has left since is brought
        /// back. Nothing is formed if the check finds anything; the message names the group and the field.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// TREE_INVALID, INVALID_ARGUMENT / UNKNOWN_ENDPOINT, NOT_FOUND / UNKNOWN_NODE,
        /// FAILED_PRECONDITION / STALE_INCARNATION,
        /// ALREADY_EXISTS / MGID_IN_USE, UNAVAILABLE / MGID_NOT_CLEAN, INVALID_ARGUMENT /
        /// MGID_OUT_OF_RANGE, ALREADY_EXISTS / GROUP_DIFFERS, ALREADY_EXISTS / JOINED_ELSEWHERE,
        /// INVALID_ARGUMENT / REQUEST_ID_REUSED, and those of TicService.JoinGroup of a group of a job.
        /// One of them after the first answer: the records changed while groups were formed; those
        /// answered stay. DEADLINE_EXCEEDED / REQUEST_TOO_SLOW if messages come too slowly, UNAVAILABLE /
        /// READER_TOO_SLOW if answers are taken too slowly.
        async fn form_groups(
            &self,
            request: tonic::Request<tonic::Streaming<super::FormGroupsRequest>>,
        ) -> std::result::Result<tonic::Response<Self::FormGroupsStream>, tonic::Status>;
        /// Ends all groups of a job, with all their members. Groups that are formed meanwhile are left
        /// alone.
        /// Errors: NOT_FOUND / UNKNOWN_JOB (no group belongs to it), INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / REQUEST_ID_REUSED.
        async fn delete_job_groups(
            &self,
            request: tonic::Request<super::DeleteJobGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteJobGroupsResponse>,
            tonic::Status,
        >;
        /// Many calls of TicService.JoinGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn join_many(
            &self,
            request: tonic::Request<super::JoinManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::JoinManyResponse>,
            tonic::Status,
        >;
        /// Many calls of TicService.LeaveGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn leave_many(
            &self,
            request: tonic::Request<super::LeaveManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LeaveManyResponse>,
            tonic::Status,
        >;
        /// Many calls of TicService.GetGroup at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn get_many(
            &self,
            request: tonic::Request<super::GetManyRequest>,
        ) -> std::result::Result<tonic::Response<super::GetManyResponse>, tonic::Status>;
    }
    /// Many groups and memberships with one call; served by the TIC. Any call may also be refused with
    /// UNAVAILABLE / SHUTTING_DOWN, RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a
    /// queue), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL / STORE_FAILED
    /// (what was changed is known when the call is repeated).
    #[derive(Debug)]
    pub struct GroupBatchServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> GroupBatchServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for GroupBatchServiceServer<T>
    where
        T: GroupBatchService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.GroupBatchService/FormGroups" => {
                    #[allow(non_camel_case_types)]
                    struct FormGroupsSvc<T: GroupBatchService>(pub Arc<T>);
                    impl<
                        T: GroupBatchService,
                    > tonic::server::StreamingService<super::FormGroupsRequest>
                    for FormGroupsSvc<T> {
                        type Response = super::FormGroupsResponse;
                        type ResponseStream = T::FormGroupsStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::FormGroupsRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as GroupBatchService>::form_groups(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = FormGroupsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.GroupBatchService/DeleteJobGroups" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupBatchService>::delete_job_groups(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupBatchService/JoinMany" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupBatchService>::join_many(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.GroupBatchService/LeaveMany" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupBatchService>::leave_many(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.GroupBatchService/GetMany" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupBatchService>::get_many(&inner, request).await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for GroupBatchServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.GroupBatchService";
    impl<T> tonic::server::NamedService for GroupBatchServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// A member and its neighbours in the unicast tree.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Position {
    /// Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Epoch of the group agent that says so.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The member the position is for.
    #[prost(uint32, tag = "3")]
    pub pn: u32,
    /// The node that member is on.
    #[prost(string, tag = "4")]
    pub node: ::prost::alloc::string::String,
    /// The parent; absent for the root.
    #[prost(message, optional, tag = "5")]
    pub parent: ::core::option::Option<Neighbor>,
    /// The children, ascending by PN.
    #[prost(message, repeated, tag = "6")]
    pub children: ::prost::alloc::vec::Vec<Neighbor>,
    /// Route of the group as far as the agent knows; absent until routed.
    #[prost(message, optional, tag = "7")]
    pub route: ::core::option::Option<Route>,
    /// Grows with every change within the epoch.
    #[prost(uint64, tag = "8")]
    pub version: u64,
    /// The membership itself, as long as its node may not have heard of it.
    #[prost(message, optional, tag = "9")]
    pub enrolment: ::core::option::Option<Enrolment>,
    /// Shape of the tree; absent for two below each.
    #[prost(message, optional, tag = "10")]
    pub tree: ::core::option::Option<TreeShape>,
}
/// A membership as the TIC recorded it, for a node that may not have heard of it: somebody else may
/// have made it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Enrolment {
    /// Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// The group's address on the fabric.
    #[prost(uint32, tag = "2")]
    pub mgid: u32,
    /// The member, with the voucher for its node.
    #[prost(message, optional, tag = "3")]
    pub member: ::core::option::Option<Member>,
    /// Node of the group's agent.
    #[prost(string, tag = "4")]
    pub agent_node: ::prost::alloc::string::String,
    /// Address (host:port) of that agent.
    #[prost(string, tag = "5")]
    pub agent_address: ::prost::alloc::string::String,
    /// Revision of the records at which the member was there.
    #[prost(uint64, tag = "6")]
    pub revision: u64,
}
/// A tree neighbour and where to reach it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Neighbor {
    /// PN of the neighbour.
    #[prost(uint32, tag = "1")]
    pub pn: u32,
    /// Its node.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Address (host:port) of its operating agent.
    #[prost(string, tag = "3")]
    pub address: ::prost::alloc::string::String,
}
/// Request of RegisterMember.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RegisterMemberRequest {
    /// Required. Node that hosts the group agent.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// Required. Epoch of the agent as the TIC told it.
    #[prost(uint64, tag = "3")]
    pub epoch: u64,
    /// Required. The member, with the PN that the TIC allotted and its voucher.
    #[prost(message, optional, tag = "4")]
    pub member: ::core::option::Option<Member>,
}
/// Response of RegisterMember.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterMemberResponse {
    /// The member's place in the tree.
    #[prost(message, optional, tag = "1")]
    pub position: ::core::option::Option<Position>,
}
/// Request of RegisterMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterMembersRequest {
    /// Required. The new members, at most 10000.
    #[prost(message, repeated, tag = "1")]
    pub members: ::prost::alloc::vec::Vec<RegisterMemberRequest>,
}
/// Response of RegisterMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterMembersResponse {
    /// The result of each registration, in the order asked.
    #[prost(message, repeated, tag = "1")]
    pub answers: ::prost::alloc::vec::Vec<RegisterAnswer>,
}
/// Result of one registration of many.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RegisterAnswer {
    /// Required. Seated or refused.
    #[prost(oneof = "register_answer::Answer", tags = "1, 2")]
    pub answer: ::core::option::Option<register_answer::Answer>,
}
/// Nested message and enum types in `RegisterAnswer`.
pub mod register_answer {
    /// Required. Seated or refused.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Answer {
        /// The member's place in the tree.
        #[prost(message, tag = "1")]
        Position(super::Position),
        /// It was refused.
        #[prost(message, tag = "2")]
        Refusal(super::CallRefusal),
    }
}
/// Request of DeregisterMember.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeregisterMemberRequest {
    /// Required. Node that hosts the group agent.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// Required. Epoch of the agent as the member knows it.
    #[prost(uint64, tag = "3")]
    pub epoch: u64,
    /// Required. PN of the member.
    #[prost(uint32, tag = "4")]
    pub pn: u32,
    /// Required. Node of the member.
    #[prost(string, tag = "5")]
    pub node: ::prost::alloc::string::String,
}
/// Response of DeregisterMember.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeregisterMemberResponse {}
/// Report of one node to the group agents hosted on another.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentStatus {
    /// Required. Node that hosts the group agents.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. The reporting node.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Required. Its incarnation.
    #[prost(uint64, tag = "3")]
    pub incarnation: u64,
    /// Required. Its memberships in groups of that agent host.
    #[prost(message, repeated, tag = "4")]
    pub memberships: ::prost::alloc::vec::Vec<MembershipStatus>,
}
/// One membership as its operating agent knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MembershipStatus {
    /// Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Epoch of the group agent it follows.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// PN of the member.
    #[prost(uint32, tag = "3")]
    pub pn: u32,
    /// Version of the position it holds; 0 if none.
    #[prost(uint64, tag = "4")]
    pub position_version: u64,
    /// Revision at which it joined.
    #[prost(uint64, tag = "5")]
    pub joined_revision: u64,
}
/// Request of ReportOperatingAgents.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportOperatingAgentsRequest {
    /// Required. One status per pair of nodes.
    #[prost(message, repeated, tag = "1")]
    pub statuses: ::prost::alloc::vec::Vec<OperatingAgentStatus>,
}
/// Response of ReportOperatingAgents.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReportOperatingAgentsResponse {
    /// Positions that the reporters were behind on.
    #[prost(message, repeated, tag = "1")]
    pub positions: ::prost::alloc::vec::Vec<Position>,
    /// Memberships that the agents do not know: ask the TIC.
    #[prost(message, repeated, tag = "2")]
    pub unknown: ::prost::alloc::vec::Vec<UnknownMembership>,
    /// Agent nodes that do not take part here; reports to them were not taken.
    #[prost(string, repeated, tag = "3")]
    pub absent_agent_nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// A membership that is not in the agent's table.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UnknownMembership {
    /// The reporting node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// PN of the member.
    #[prost(uint32, tag = "3")]
    pub pn: u32,
}
/// Request of QueryGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct QueryGroupRequest {
    /// Required. Node that hosts the group agent.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
}
/// Response of QueryGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct QueryGroupResponse {
    /// The group with its members.
    #[prost(message, optional, tag = "1")]
    pub group: ::core::option::Option<Group>,
    /// Every member's place in the tree, by PN.
    #[prost(message, repeated, tag = "2")]
    pub positions: ::prost::alloc::vec::Vec<Position>,
}
/// Request of WatchGroupMembers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WatchGroupMembersRequest {
    /// Required. Node that hosts the group agent.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
}
/// Response of WatchGroupMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchGroupMembersResponse {
    /// All members, ordered by PN.
    #[prost(message, repeated, tag = "1")]
    pub members: ::prost::alloc::vec::Vec<Member>,
}
/// Request of NotifyGroups.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NotifyGroupsRequest {
    /// Required. Node that hosts the group agents.
    #[prost(string, tag = "1")]
    pub agent_node: ::prost::alloc::string::String,
    /// Required. Groups to fetch.
    #[prost(uint64, repeated, tag = "2")]
    pub gns: ::prost::alloc::vec::Vec<u64>,
}
/// Response of NotifyGroups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct NotifyGroupsResponse {}
/// Generated client implementations.
pub mod group_agent_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Group agents: each holds the member table and the unicast tree of one group. One server hosts
    /// many.
    #[derive(Debug, Clone)]
    pub struct GroupAgentServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl GroupAgentServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> GroupAgentServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> GroupAgentServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            GroupAgentServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// A new member makes itself known; the answer is its place in the tree. Without a voucher, one
        /// that the agent has not heard of is NOT_A_MEMBER; it gets its place once the TIC has told of it.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, ABORTED / STALE_EPOCH, NOT_FOUND / NOT_A_MEMBER,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING.
        pub async fn register_member(
            &mut self,
            request: impl tonic::IntoRequest<super::RegisterMemberRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterMemberResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupAgentService",
                "RegisterMember",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/RegisterMember",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Many calls of RegisterMember at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn register_members(
            &mut self,
            request: impl tonic::IntoRequest<super::RegisterMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterMembersResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupAgentService",
                "RegisterMembers",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/RegisterMembers",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// A member that the TIC has taken out says good-bye.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, ABORTED / STALE_EPOCH, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn deregister_member(
            &mut self,
            request: impl tonic::IntoRequest<super::DeregisterMemberRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeregisterMemberResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupAgentService",
                "DeregisterMember",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/DeregisterMember",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reports that operating agents are alive, all nodes of one process and all groups at once.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn report_operating_agents(
            &mut self,
            request: impl tonic::IntoRequest<super::ReportOperatingAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportOperatingAgentsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupAgentService",
                "ReportOperatingAgents",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/ReportOperatingAgents",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers a group as its agent knows it.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn query_group(
            &mut self,
            request: impl tonic::IntoRequest<super::QueryGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::QueryGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.GroupAgentService", "QueryGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/QueryGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the members of a group as its agent knows them: the present ones at once, then all of
        /// them after every change. Changes in quick succession may come as one.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, at once or when the agent loses the group;
        /// INVALID_ARGUMENT / NAME_INVALID.
        pub async fn watch_group_members(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchGroupMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchGroupMembersResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.GroupAgentService/WatchGroupMembers",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.GroupAgentService",
                        "WatchGroupMembers",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// The TIC hints that groups changed or have this host as their new agent; fetched from the TIC at
        /// once.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn notify_groups(
            &mut self,
            request: impl tonic::IntoRequest<super::NotifyGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::NotifyGroupsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.GroupAgentService",
                "NotifyGroups",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.GroupAgentService/NotifyGroups",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod group_agent_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with GroupAgentServiceServer.
    #[async_trait]
    pub trait GroupAgentService: std::marker::Send + std::marker::Sync + 'static {
        /// A new member makes itself known; the answer is its place in the tree. Without a voucher, one
        /// that the agent has not heard of is NOT_A_MEMBER; it gets its place once the TIC has told of it.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, ABORTED / STALE_EPOCH, NOT_FOUND / NOT_A_MEMBER,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING.
        async fn register_member(
            &self,
            request: tonic::Request<super::RegisterMemberRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterMemberResponse>,
            tonic::Status,
        >;
        /// Many calls of RegisterMember at once. Each comes to its own end.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn register_members(
            &self,
            request: tonic::Request<super::RegisterMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterMembersResponse>,
            tonic::Status,
        >;
        /// A member that the TIC has taken out says good-bye.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, ABORTED / STALE_EPOCH, INVALID_ARGUMENT / NAME_INVALID.
        async fn deregister_member(
            &self,
            request: tonic::Request<super::DeregisterMemberRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeregisterMemberResponse>,
            tonic::Status,
        >;
        /// Reports that operating agents are alive, all nodes of one process and all groups at once.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn report_operating_agents(
            &self,
            request: tonic::Request<super::ReportOperatingAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReportOperatingAgentsResponse>,
            tonic::Status,
        >;
        /// Answers a group as its agent knows it.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, INVALID_ARGUMENT / NAME_INVALID.
        async fn query_group(
            &self,
            request: tonic::Request<super::QueryGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::QueryGroupResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchGroupMembers method.
        type WatchGroupMembersStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::WatchGroupMembersResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Streams the members of a group as its agent knows them: the present ones at once, then all of
        /// them after every change. Changes in quick succession may come as one.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, at once or when the agent loses the group;
        /// INVALID_ARGUMENT / NAME_INVALID.
        async fn watch_group_members(
            &self,
            request: tonic::Request<super::WatchGroupMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchGroupMembersStream>,
            tonic::Status,
        >;
        /// The TIC hints that groups changed or have this host as their new agent; fetched from the TIC at
        /// once.
        /// Errors: NOT_FOUND / NOT_HOSTED_HERE, INVALID_ARGUMENT / NAME_INVALID.
        async fn notify_groups(
            &self,
            request: tonic::Request<super::NotifyGroupsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::NotifyGroupsResponse>,
            tonic::Status,
        >;
    }
    /// Group agents: each holds the member table and the unicast tree of one group. One server hosts
    /// many.
    #[derive(Debug)]
    pub struct GroupAgentServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> GroupAgentServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for GroupAgentServiceServer<T>
    where
        T: GroupAgentService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.GroupAgentService/RegisterMember" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::register_member(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/RegisterMembers" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::register_members(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/DeregisterMember" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::deregister_member(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/ReportOperatingAgents" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::report_operating_agents(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/QueryGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::query_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/WatchGroupMembers" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::watch_group_members(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.GroupAgentService/NotifyGroups" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as GroupAgentService>::notify_groups(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for GroupAgentServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.GroupAgentService";
    impl<T> tonic::server::NamedService for GroupAgentServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Nodes that a scheduler gives to one user. Those of a job that was placed by CreateJob share no
/// link of the fabric with another such job.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Job {
    /// Immutable. Name chosen by the scheduler, unique among live jobs, 1 to 256 characters.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// Output only. Kind of unit the job lies in, as the fabric was when it was placed; unspecified if
    /// the scheduler chose its nodes.
    #[prost(enumeration = "JobClass", tag = "2")]
    pub job_class: i32,
    /// Output only. Its nodes.
    #[prost(message, repeated, tag = "3")]
    pub nodes: ::prost::alloc::vec::Vec<JobNode>,
    /// Output only. Time of creation.
    #[prost(message, optional, tag = "4")]
    pub create_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. Revision of its creation.
    #[prost(uint64, tag = "5")]
    pub revision: u64,
    /// Output only. Groups that the job may form; left out if none were reserved.
    #[prost(message, optional, tag = "6")]
    pub share: ::core::option::Option<JobShare>,
}
/// Groups that are reserved for a job.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct JobShare {
    /// Output only. User who runs the job.
    #[prost(string, tag = "1")]
    pub user: ::prost::alloc::string::String,
    /// Output only. Account that the job counts against.
    #[prost(string, tag = "2")]
    pub account: ::prost::alloc::string::String,
    /// Output only. Groups that the job may have at a time.
    #[prost(uint32, tag = "3")]
    pub group_count: u32,
    /// Output only. An equal part of them for each step that runs at a time, at least one.
    #[prost(uint32, tag = "4")]
    pub groups_per_step: u32,
    /// Output only. Groups that the job has.
    #[prost(uint32, tag = "5")]
    pub used_group_count: u32,
    /// Output only. Latest end of the job, as its scheduler said.
    #[prost(message, optional, tag = "6")]
    pub end_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. The job is released then, unless ReserveJob is repeated; left out if only a call
    /// releases it.
    #[prost(message, optional, tag = "7")]
    pub expire_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Output only. The job is being released; no group of it is formed or joined any more.
    #[prost(bool, tag = "8")]
    pub ending: bool,
    /// Output only. Aggregation entries that are kept for the job in each switch on and above the leaf
    /// switches of its nodes, for trees of its account and its name; 0 if they did not fit a topology
    /// that has changed since.
    #[prost(uint32, tag = "9")]
    pub aggregation_entries: u32,
}
/// A node of a job.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct JobNode {
    /// Name of the node; that of its endpoint if no node with it has registered.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Its endpoints.
    #[prost(string, repeated, tag = "2")]
    pub endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Kind of unit that a job lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum JobClass {
    /// The scheduler chose the nodes.
    Unspecified = 0,
    /// One leaf switch.
    T0 = 1,
    /// One compute midplane.
    T1 = 2,
    /// One block of compute midplanes.
    T2 = 3,
    /// Anywhere in the fabric.
    T3 = 4,
}
impl JobClass {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "JOB_CLASS_UNSPECIFIED",
            Self::T0 => "JOB_CLASS_T0",
            Self::T1 => "JOB_CLASS_T1",
            Self::T2 => "JOB_CLASS_T2",
            Self::T3 => "JOB_CLASS_T3",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "JOB_CLASS_UNSPECIFIED" => Some(Self::Unspecified),
            "JOB_CLASS_T0" => Some(Self::T0),
            "JOB_CLASS_T1" => Some(Self::T1),
            "JOB_CLASS_T2" => Some(Self::T2),
            "JOB_CLASS_T3" => Some(Self::T3),
            _ => None,
        }
    }
}
/// Request of CreateJob.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct CreateJobRequest {
    /// Required. Unique per attempt; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the job.
    #[prost(string, tag = "2")]
    pub job: ::prost::alloc::string::String,
    /// Required unless nodes are named. Number of nodes that it needs.
    #[prost(uint32, tag = "3")]
    pub node_count: u32,
    /// Optional. Exactly these nodes, by name, or by the name of an endpoint where no node has
    /// registered.
    #[prost(string, repeated, tag = "4")]
    pub nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. Put the job into a larger unit if no unit of its class has room.
    #[prost(bool, tag = "5")]
    pub spread: bool,
    /// Optional. Only answer what the job would get; nothing is changed.
    #[prost(bool, tag = "6")]
    pub validate_only: bool,
}
/// Response of CreateJob.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateJobResponse {
    /// The job.
    #[prost(message, optional, tag = "1")]
    pub job: ::core::option::Option<Job>,
}
/// Request of ReserveJob.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReserveJobRequest {
    /// Required. Name of the job, without '/'.
    #[prost(string, tag = "1")]
    pub job: ::prost::alloc::string::String,
    /// Required. Token that the job's processes will show, chosen by the caller at random: 16 to 256
    /// visible ASCII characters. The records keep its hash only.
    #[prost(string, tag = "2")]
    pub token: ::prost::alloc::string::String,
    /// Required unless the job exists. Its nodes, by name, or by the name of an endpoint where no node
    /// has registered.
    #[prost(string, repeated, tag = "3")]
    pub nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Optional. User who runs the job.
    #[prost(string, tag = "4")]
    pub user: ::prost::alloc::string::String,
    /// Optional. Account that it counts against.
    #[prost(string, tag = "5")]
    pub account: ::prost::alloc::string::String,
    /// Optional. Groups that it needs at a time; 0 for its whole share, or what others leave of it.
    #[prost(uint32, tag = "6")]
    pub group_count: u32,
    /// Optional. Steps that run at a time; 0 means 1.
    #[prost(uint32, tag = "7")]
    pub step_count: u32,
    /// Optional. Latest end of the job; others learn from it how long to wait.
    #[prost(message, optional, tag = "8")]
    pub end_time: ::core::option::Option<::prost_types::Timestamp>,
    /// Optional. Release the job so long after the last ReserveJob: 1 second to 1 day, anything else
    /// means the nearest of these. Left out, only DeleteJob releases it.
    #[prost(message, optional, tag = "9")]
    pub lease: ::core::option::Option<::prost_types::Duration>,
    /// Optional. Aggregation entries that it needs in each switch on and above the leaf switches of
    /// its nodes: as a reservation by CollectiveService.ReserveEntries for the account and the job,
    /// within the quotas of both, which ends with the job. Nodes that reach no leaf switch have no
    /// part in it.
    #[prost(uint32, tag = "10")]
    pub aggregation_entries: u32,
}
/// Response of ReserveJob.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReserveJobResponse {
    /// The job with its share.
    #[prost(message, optional, tag = "1")]
    pub job: ::core::option::Option<Job>,
}
/// Request of DeleteJob.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteJobRequest {
    /// Required. Unique per attempt; repeated by retries.
    #[prost(string, tag = "1")]
    pub request_id: ::prost::alloc::string::String,
    /// Required. Name of the job.
    #[prost(string, tag = "2")]
    pub job: ::prost::alloc::string::String,
}
/// Response of DeleteJob.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DeleteJobResponse {
    /// Revision of the change.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// Groups that ended with it. After a crash in between: by the attempt that came to the end.
    #[prost(uint64, tag = "2")]
    pub group_count: u64,
    /// Memberships that ended with them.
    #[prost(uint64, tag = "3")]
    pub membership_count: u64,
}
/// Request of GetJob.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetJobRequest {
    /// Required. Name of the job.
    #[prost(string, tag = "1")]
    pub job: ::prost::alloc::string::String,
}
/// Response of GetJob.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetJobResponse {
    /// The job.
    #[prost(message, optional, tag = "1")]
    pub job: ::core::option::Option<Job>,
}
/// Request of ListJobs.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListJobsRequest {
    /// Optional. Most jobs in one answer; 0 means 1000, more than 10000 means 10000.
    #[prost(uint32, tag = "1")]
    pub page_size: u32,
    /// Optional. Token of the previous answer.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
}
/// Response of ListJobs.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListJobsResponse {
    /// The jobs.
    #[prost(message, repeated, tag = "1")]
    pub jobs: ::prost::alloc::vec::Vec<Job>,
    /// Token of the next page; empty at the end.
    #[prost(string, tag = "2")]
    pub next_page_token: ::prost::alloc::string::String,
}
/// Request of GetJobReport.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetJobReportRequest {
    /// Optional. Say which jobs would have to move so that one of this many nodes finds room.
    #[prost(uint32, tag = "1")]
    pub node_count: u32,
}
/// Response of GetJobReport.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetJobReportResponse {
    /// Nodes that jobs can have.
    #[prost(uint32, tag = "1")]
    pub live_nodes: u32,
    /// Of these, nodes that no job has.
    #[prost(uint32, tag = "2")]
    pub free_nodes: u32,
    /// One entry for each class the fabric has, rising.
    #[prost(message, repeated, tag = "3")]
    pub rooms: ::prost::alloc::vec::Vec<JobRoom>,
    /// True if a job of node_count nodes finds room after moves; false if node_count is 0.
    #[prost(bool, tag = "4")]
    pub has_room: bool,
    /// Jobs to move for it, in this order.
    #[prost(message, repeated, tag = "5")]
    pub moves: ::prost::alloc::vec::Vec<JobMove>,
}
/// Room for jobs of one class.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JobRoom {
    /// The class.
    #[prost(enumeration = "JobClass", tag = "1")]
    pub job_class: i32,
    /// Nodes of the smallest job that is of this class by its size.
    #[prost(uint32, tag = "2")]
    pub least_nodes: u32,
    /// Nodes of the largest job of this class on an empty fabric.
    #[prost(uint32, tag = "3")]
    pub most_nodes: u32,
    /// Nodes of the largest job that finds room in a unit of this class now.
    #[prost(uint32, tag = "4")]
    pub fitting_nodes: u32,
    /// The same after the moves.
    #[prost(uint32, tag = "5")]
    pub fitting_nodes_after: u32,
    /// Jobs to move, in this order.
    #[prost(message, repeated, tag = "6")]
    pub moves: ::prost::alloc::vec::Vec<JobMove>,
}
/// A job that would run elsewhere.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct JobMove {
    /// The job.
    #[prost(string, tag = "1")]
    pub job: ::prost::alloc::string::String,
    /// Nodes it has.
    #[prost(string, repeated, tag = "2")]
    pub from_nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Nodes it would have; free once the moves before are made and it has left its own.
    #[prost(string, repeated, tag = "3")]
    pub to_nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Generated client implementations.
pub mod job_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Gives nodes to jobs so that no two jobs share a link, and reserves groups for jobs; served by the
    /// TIC, which keeps them. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, CreateJob
    /// and GetJobReport with FAILED_PRECONDITION / NOT_A_FAT_TREE (there is no placement by classes on
    /// other fabrics), and any that changes something with RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing
    /// was changed), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated).
    #[derive(Debug, Clone)]
    pub struct JobServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl JobServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> JobServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> JobServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            JobServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Gives nodes to a new job: as many as asked for, or exactly those named. Durable once answered.
        /// Errors: RESOURCE_EXHAUSTED / NO_ROOM (the message names the rule and the counts),
        /// FAILED_PRECONDITION / NODE_TAKEN, FAILED_PRECONDITION / NODE_DOWN, FAILED_PRECONDITION /
        /// LINKS_SHARED, NOT_FOUND / UNKNOWN_NODE, ALREADY_EXISTS / JOB_EXISTS, FAILED_PRECONDITION /
        /// JOB_ENDED, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT
        /// / REQUEST_ID_REUSED.
        pub async fn create_job(
            &mut self,
            request: impl tonic::IntoRequest<super::CreateJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateJobResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.JobService", "CreateJob");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/CreateJob",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reserves groups for a job: for one that was created, or for a new one on nodes that its
        /// scheduler has chosen. Groups of the job are formed and joined with its token only; those named
        /// job/JOB/... belong to it. Durable once answered. Repeated with the same token, user, account
        /// and nodes it answers the same, and extends the reservation.
        /// Errors: RESOURCE_EXHAUSTED / QUOTA_REACHED (more than the job's part of the entries, or than
        /// its account or its collective quota may have), RESOURCE_EXHAUSTED / NO_ROOM (other jobs have
        /// the entries; if it is known when enough of them end, the details say how long to wait),
        /// ALREADY_EXISTS / JOB_EXISTS (it was reserved otherwise), FAILED_PRECONDITION / JOB_ENDED (it is
        /// being released), FAILED_PRECONDITION / MEMBER_CUT_OFF (no node reaches a switch that
        /// aggregates), NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING.
        pub async fn reserve_job(
            &mut self,
            request: impl tonic::IntoRequest<super::ReserveJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveJobResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.JobService", "ReserveJob");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/ReserveJob",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Ends a job; its nodes are free then. All groups of a job with a share end with it.
        /// Errors: NOT_FOUND / UNKNOWN_JOB, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// REQUEST_ID_REUSED.
        pub async fn delete_job(
            &mut self,
            request: impl tonic::IntoRequest<super::DeleteJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteJobResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.JobService", "DeleteJob");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/DeleteJob",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers one job.
        /// Errors: NOT_FOUND / UNKNOWN_JOB, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn get_job(
            &mut self,
            request: impl tonic::IntoRequest<super::GetJobRequest>,
        ) -> std::result::Result<tonic::Response<super::GetJobResponse>, tonic::Status> {
            let method = GrpcMethod::new("fabricast.v1.JobService", "GetJob");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/GetJob",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists jobs, ordered by name.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        pub async fn list_jobs(
            &mut self,
            request: impl tonic::IntoRequest<super::ListJobsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListJobsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.JobService", "ListJobs");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/ListJobs",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Says how large a job of each class could be now, and which jobs would have to move for a larger
        /// one.
        /// Errors: none of its own.
        pub async fn get_job_report(
            &mut self,
            request: impl tonic::IntoRequest<super::GetJobReportRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetJobReportResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.JobService", "GetJobReport");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.JobService/GetJobReport",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod job_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with JobServiceServer.
    #[async_trait]
    pub trait JobService: std::marker::Send + std::marker::Sync + 'static {
        /// Gives nodes to a new job: as many as asked for, or exactly those named. Durable once answered.
        /// Errors: RESOURCE_EXHAUSTED / NO_ROOM (the message names the rule and the counts),
        /// FAILED_PRECONDITION / NODE_TAKEN, FAILED_PRECONDITION / NODE_DOWN, FAILED_PRECONDITION /
        /// LINKS_SHARED, NOT_FOUND / UNKNOWN_NODE, ALREADY_EXISTS / JOB_EXISTS, FAILED_PRECONDITION /
        /// JOB_ENDED, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT
        /// / REQUEST_ID_REUSED.
        async fn create_job(
            &self,
            request: tonic::Request<super::CreateJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateJobResponse>,
            tonic::Status,
        >;
        /// Reserves groups for a job: for one that was created, or for a new one on nodes that its
        /// scheduler has chosen. Groups of the job are formed and joined with its token only; those named
        /// job/JOB/... belong to it. Durable once answered. Repeated with the same token, user, account
        /// and nodes it answers the same, and extends the reservation.
        /// Errors: RESOURCE_EXHAUSTED / QUOTA_REACHED (more than the job's part of the entries, or than
        /// its account or its collective quota may have), RESOURCE_EXHAUSTED / NO_ROOM (other jobs have
        /// the entries; if it is known when enough of them end, the details say how long to wait),
        /// ALREADY_EXISTS / JOB_EXISTS (it was reserved otherwise), FAILED_PRECONDITION / JOB_ENDED (it is
        /// being released), FAILED_PRECONDITION / MEMBER_CUT_OFF (no node reaches a switch that
        /// aggregates), NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// FIELD_MISSING.
        async fn reserve_job(
            &self,
            request: tonic::Request<super::ReserveJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveJobResponse>,
            tonic::Status,
        >;
        /// Ends a job; its nodes are free then. All groups of a job with a share end with it.
        /// Errors: NOT_FOUND / UNKNOWN_JOB, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT /
        /// REQUEST_ID_REUSED.
        async fn delete_job(
            &self,
            request: tonic::Request<super::DeleteJobRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteJobResponse>,
            tonic::Status,
        >;
        /// Answers one job.
        /// Errors: NOT_FOUND / UNKNOWN_JOB, INVALID_ARGUMENT / NAME_INVALID.
        async fn get_job(
            &self,
            request: tonic::Request<super::GetJobRequest>,
        ) -> std::result::Result<tonic::Response<super::GetJobResponse>, tonic::Status>;
        /// Lists jobs, ordered by name.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        async fn list_jobs(
            &self,
            request: tonic::Request<super::ListJobsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListJobsResponse>,
            tonic::Status,
        >;
        /// Says how large a job of each class could be now, and which jobs would have to move for a larger
        /// one.
        /// Errors: none of its own.
        async fn get_job_report(
            &self,
            request: tonic::Request<super::GetJobReportRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetJobReportResponse>,
            tonic::Status,
        >;
    }
    /// Gives nodes to jobs so that no two jobs share a link, and reserves groups for jobs; served by the
    /// TIC, which keeps them. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, CreateJob
    /// and GetJobReport with FAILED_PRECONDITION / NOT_A_FAT_TREE (there is no placement by classes on
    /// other fabrics), and any that changes something with RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing
    /// was changed), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated).
    #[derive(Debug)]
    pub struct JobServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> JobServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for JobServiceServer<T>
    where
        T: JobService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.JobService/CreateJob" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::create_job(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.JobService/ReserveJob" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::reserve_job(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.JobService/DeleteJob" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::delete_job(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.JobService/GetJob" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::get_job(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.JobService/ListJobs" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::list_jobs(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.JobService/GetJobReport" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as JobService>::get_job_report(&inner, request).await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for JobServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.JobService";
    impl<T> tonic::server::NamedService for JobServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// One process in one group, as its operating agent knows it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Membership {
    /// Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// Group number.
    #[prost(uint64, tag = "2")]
    pub gn: u64,
    /// MGID of the group.
    #[prost(uint32, tag = "3")]
    pub mgid: u32,
    /// Node of the process.
    #[prost(string, tag = "4")]
    pub node: ::prost::alloc::string::String,
    /// Endpoint of the process.
    #[prost(string, tag = "5")]
    pub endpoint: ::prost::alloc::string::String,
    /// Name of the process.
    #[prost(string, tag = "6")]
    pub process: ::prost::alloc::string::String,
    /// PN: rank of the process in the group.
    #[prost(uint32, tag = "7")]
    pub pn: u32,
    /// Place in the tree; absent until the group agent has answered.
    #[prost(message, optional, tag = "8")]
    pub position: ::core::option::Option<Position>,
    /// Node that hosts the group agent.
    #[prost(string, tag = "9")]
    pub agent_node: ::prost::alloc::string::String,
    /// True if the hardware multicast connection is open for this member.
    #[prost(bool, tag = "10")]
    pub multicast_open: bool,
}
/// Request of JoinGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct OperatingAgentServiceJoinGroupRequest {
    /// Required. Node of the process.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Optional. Endpoint to join with; left out, the first of the node.
    #[prost(string, tag = "4")]
    pub endpoint: ::prost::alloc::string::String,
    /// Optional. MGID for a new group.
    #[prost(uint32, optional, tag = "5")]
    pub mgid: ::core::option::Option<u32>,
    /// Optional. Keep a new group when its last member leaves; not looked at if the group exists.
    #[prost(bool, tag = "6")]
    pub persistent: bool,
    /// Optional. Never merge a new group with others; not looked at if the group exists.
    #[prost(bool, tag = "7")]
    pub exclusive: bool,
    /// Optional. Makes a retry of the caller safe; left out, one is made up.
    #[prost(string, tag = "8")]
    pub request_id: ::prost::alloc::string::String,
    /// Optional. Hints for the MGID of a new group; not looked at if the group exists.
    #[prost(message, optional, tag = "9")]
    pub hints: ::core::option::Option<MgidHints>,
    /// Optional. Job that a new group belongs to; not looked at if the group exists.
    #[prost(string, tag = "10")]
    pub job: ::prost::alloc::string::String,
    /// Optional. Do not route a new group before it has had so many members; not looked at if the
    /// group exists.
    #[prost(uint32, tag = "11")]
    pub complete_at_member_count: u32,
    /// Optional. Token of the job that the group belongs to; required if groups are reserved for it.
    #[prost(string, tag = "12")]
    pub job_token: ::prost::alloc::string::String,
}
/// Response of JoinGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceJoinGroupResponse {
    /// The new membership.
    #[prost(message, optional, tag = "1")]
    pub membership: ::core::option::Option<Membership>,
}
/// Request of LeaveGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct OperatingAgentServiceLeaveGroupRequest {
    /// Required. Node of the process.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Name of the process.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Optional. Makes a retry of the caller safe; left out, one is made up.
    #[prost(string, tag = "4")]
    pub request_id: ::prost::alloc::string::String,
}
/// Response of LeaveGroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct OperatingAgentServiceLeaveGroupResponse {}
/// Request of JoinMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceJoinManyRequest {
    /// Required. The joins, all of processes on nodes of this server.
    #[prost(message, repeated, tag = "1")]
    pub joins: ::prost::alloc::vec::Vec<OperatingAgentServiceJoinGroupRequest>,
}
/// Response of JoinMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceJoinManyResponse {
    /// One for each join, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub ends: ::prost::alloc::vec::Vec<JoinEnd>,
}
/// Result of one join of many.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct JoinEnd {
    /// Required. Granted or not.
    #[prost(oneof = "join_end::End", tags = "1, 2")]
    pub end: ::core::option::Option<join_end::End>,
}
/// Nested message and enum types in `JoinEnd`.
pub mod join_end {
    /// Required. Granted or not.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum End {
        /// The new membership.
        #[prost(message, tag = "1")]
        Membership(super::Membership),
        /// Reason for the refusal.
        #[prost(message, tag = "2")]
        Refusal(super::CallRefusal),
    }
}
/// Request of LeaveMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceLeaveManyRequest {
    /// Required. The leaves, all of processes on nodes of this server.
    #[prost(message, repeated, tag = "1")]
    pub leaves: ::prost::alloc::vec::Vec<OperatingAgentServiceLeaveGroupRequest>,
}
/// Response of LeaveMany.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceLeaveManyResponse {
    /// One for each leave, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub ends: ::prost::alloc::vec::Vec<LeaveEnd>,
}
/// Result of one leave of many.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LeaveEnd {
    /// Reason why the process is still a member, or was none; absent if it has left.
    #[prost(message, optional, tag = "1")]
    pub refusal: ::core::option::Option<CallRefusal>,
}
/// Request of QueryGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct OperatingAgentServiceQueryGroupRequest {
    /// Required. Node of the asking process.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Name of the group; the node must have a member in it.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of QueryGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperatingAgentServiceQueryGroupResponse {
    /// The group with its members.
    #[prost(message, optional, tag = "1")]
    pub group: ::core::option::Option<Group>,
    /// Every member's place in the tree, by PN.
    #[prost(message, repeated, tag = "2")]
    pub positions: ::prost::alloc::vec::Vec<Position>,
}
/// Request of ListMemberships.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListMembershipsRequest {
    /// Optional. Only this node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ListMemberships.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListMembershipsResponse {
    /// The memberships, ordered by node, group and PN.
    #[prost(message, repeated, tag = "1")]
    pub memberships: ::prost::alloc::vec::Vec<Membership>,
}
/// Request of SendPacket.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SendPacketRequest {
    /// Required. Node of the sending process.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Name of the sending process.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Optional. At most 4096 bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
}
/// Response of SendPacket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SendPacketResponse {}
/// Request of ReceivePackets.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReceivePacketsRequest {
    /// Optional. Only packets for this node; left out, for all nodes of this server.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ReceivePackets.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReceivePacketsResponse {
    /// The packets.
    #[prost(message, repeated, tag = "1")]
    pub packets: ::prost::alloc::vec::Vec<ReceivedPacket>,
}
/// A multicast packet handed to one local member.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReceivedPacket {
    /// Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Receiving node.
    #[prost(string, tag = "3")]
    pub node: ::prost::alloc::string::String,
    /// Receiving process.
    #[prost(string, tag = "4")]
    pub process: ::prost::alloc::string::String,
    /// PN of the receiving process.
    #[prost(uint32, tag = "5")]
    pub pn: u32,
    /// The payload.
    #[prost(bytes = "vec", tag = "6")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
}
/// Request of ProbeNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProbeNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ProbeNode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProbeNodeResponse {
    /// Present incarnation of the node.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
}
/// Request of UpdatePositions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UpdatePositionsRequest {
    /// Required. The positions, for nodes of this server.
    #[prost(message, repeated, tag = "1")]
    pub positions: ::prost::alloc::vec::Vec<Position>,
}
/// Response of UpdatePositions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UpdatePositionsResponse {
    /// Positions that were not taken. Their nodes ask the TIC about the groups; send them again later.
    #[prost(message, repeated, tag = "1")]
    pub refused: ::prost::alloc::vec::Vec<RefusedPosition>,
}
/// A position that a node did not take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RefusedPosition {
    /// Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// PN of the member.
    #[prost(uint32, tag = "2")]
    pub pn: u32,
}
/// Message of the node that opens a link.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpenLinkRequest {
    /// Required in the first message. The node that opens the link.
    #[prost(string, tag = "1")]
    pub from_node: ::prost::alloc::string::String,
    /// Required in the first message. The node of this server that it is linked to.
    #[prost(string, tag = "2")]
    pub to_node: ::prost::alloc::string::String,
    /// Optional. Frames, in order.
    #[prost(message, repeated, tag = "3")]
    pub frames: ::prost::alloc::vec::Vec<LinkFrame>,
}
/// Message of the node that was called.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpenLinkResponse {
    /// Frames, in order.
    #[prost(message, repeated, tag = "1")]
    pub frames: ::prost::alloc::vec::Vec<LinkFrame>,
}
/// Message from one member's agent to that of a neighbor in the group's tree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LinkFrame {
    /// Required. Group number; tells apart the groups that share the link.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Required. PN of the member whose agent speaks.
    #[prost(uint32, tag = "2")]
    pub from_pn: u32,
    /// Required. PN of the member whose agent is spoken to.
    #[prost(uint32, tag = "3")]
    pub to_pn: u32,
    /// Required. Content of the frame, in the form of core/messages/src/codec.rs.
    #[prost(bytes = "vec", tag = "4")]
    pub body: ::prost::alloc::vec::Vec<u8>,
    /// Optional. The process of the member that speaks serves it itself: how to reach that process.
    #[prost(message, optional, tag = "5")]
    pub direct: ::core::option::Option<DirectEnd>,
}
/// A process that serves its member itself, as one neighbor of the member may reach it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DirectEnd {
    /// Optional. Address at which the process listens, `host:port`.
    #[prost(string, tag = "1")]
    pub address: ::prost::alloc::string::String,
    /// Required. Secret of the process for this neighbor, 16 bytes: each proves to know both.
    #[prost(bytes = "vec", tag = "2")]
    pub token: ::prost::alloc::vec::Vec<u8>,
    /// Required. Connections of the two so far: a frame from before the last one came too late.
    #[prost(uint64, tag = "3")]
    pub connections: u64,
}
/// Request of ListHostedNodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListHostedNodesRequest {}
/// Response of ListHostedNodes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListHostedNodesResponse {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub nodes: ::prost::alloc::vec::Vec<Node>,
}
/// Request of StopNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StopNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of StopNode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StopNodeResponse {}
/// Request of StartNode.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StartNodeRequest {
    /// Required. The node.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
}
/// Response of StartNode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StartNodeResponse {
    /// The new incarnation.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
}
/// Request of MeasureOperations.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MeasureOperationsRequest {
    /// Required. Node of the member.
    #[prost(string, tag = "1")]
    pub node: ::prost::alloc::string::String,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. Name of the member's process.
    #[prost(string, tag = "3")]
    pub process: ::prost::alloc::string::String,
    /// Required. Members of the group.
    #[prost(uint32, tag = "4")]
    pub member_count: u32,
    /// Required. Operations, in order; at most 64.
    #[prost(message, repeated, tag = "5")]
    pub operations: ::prost::alloc::vec::Vec<MeasuredOperation>,
}
/// Operation that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MeasuredOperation {
    /// Required. The operation; the source of a broadcast has rank 0, as has the root of a reduction.
    #[prost(enumeration = "CollectiveOperation", tag = "1")]
    pub operation: i32,
    /// Optional. Bytes of each contribution, a multiple of 8; at most 1 MiB.
    #[prost(uint32, tag = "2")]
    pub byte_count: u32,
    /// Required. Times that it runs, at most 1000.
    #[prost(uint32, tag = "3")]
    pub round_count: u32,
}
/// Response of MeasureOperations.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct MeasureOperationsResponse {
    /// Times of each operation, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub times: ::prost::alloc::vec::Vec<OperationTimes>,
}
/// Times that an operation took a member.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperationTimes {
    /// Time of each round, in seconds.
    #[prost(double, repeated, tag = "1")]
    pub seconds: ::prost::alloc::vec::Vec<f64>,
}
/// Generated client implementations.
pub mod operating_agent_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Operating agents: what the processes of a node talk to. One server hosts the agents of many
    /// nodes. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and one that has to wait
    /// for others with RESOURCE_EXHAUSTED / LIMIT_REACHED (too many wait already). Of the joins and
    /// leaves of one client 64 are in progress at a time; one that has not begun after a minute is
    /// refused like that, too.
    #[derive(Debug, Clone)]
    pub struct OperatingAgentServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl OperatingAgentServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> OperatingAgentServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> OperatingAgentServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            OperatingAgentServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Joins a local process to a group, through the TIC and the group agent.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// UNAVAILABLE / PEER_UNAVAILABLE, and those of TicService.JoinGroup.
        pub async fn join_group(
            &mut self,
            request: impl tonic::IntoRequest<
                super::OperatingAgentServiceJoinGroupRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceJoinGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "JoinGroup",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/JoinGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Takes a local process out of a group.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// UNAVAILABLE / PEER_UNAVAILABLE, and those of TicService.LeaveGroup.
        pub async fn leave_group(
            &mut self,
            request: impl tonic::IntoRequest<
                super::OperatingAgentServiceLeaveGroupRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceLeaveGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "LeaveGroup",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/LeaveGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Joins many local processes; the TIC is asked for many in one call. Each join comes to its own
        /// end, as that of JoinGroup.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED, and those of
        /// JoinGroup that name a field; nothing has been joined then.
        pub async fn join_many(
            &mut self,
            request: impl tonic::IntoRequest<super::OperatingAgentServiceJoinManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceJoinManyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "JoinMany",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/JoinMany",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Takes many local processes out of groups. Each leave comes to its own end, as that of
        /// LeaveGroup.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED, and those of
        /// LeaveGroup that name a field; nobody has left then.
        pub async fn leave_many(
            &mut self,
            request: impl tonic::IntoRequest<
                super::OperatingAgentServiceLeaveManyRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceLeaveManyResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "LeaveMany",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/LeaveMany",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Answers a group as its agent knows it (process to OA to GA and back).
        /// Errors: NOT_FOUND / UNKNOWN_NODE, NOT_FOUND / NOT_A_MEMBER, UNAVAILABLE / NODE_STOPPED,
        /// INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE / PEER_UNAVAILABLE, and those of
        /// GroupAgentService.QueryGroup.
        pub async fn query_group(
            &mut self,
            request: impl tonic::IntoRequest<
                super::OperatingAgentServiceQueryGroupRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceQueryGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "QueryGroup",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/QueryGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the memberships of a node, or of all nodes of this server.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn list_memberships(
            &mut self,
            request: impl tonic::IntoRequest<super::ListMembershipsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListMembershipsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "ListMemberships",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/ListMemberships",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Sends one multicast packet from a local member through the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, NOT_FOUND / NOT_A_MEMBER, UNAVAILABLE / NODE_STOPPED,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / PAYLOAD_TOO_LONG, FAILED_PRECONDITION /
        /// NOT_ROUTED, UNAVAILABLE / FABRIC_UNAVAILABLE, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn send_packet(
            &mut self,
            request: impl tonic::IntoRequest<super::SendPacketRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendPacketResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "SendPacket",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/SendPacket",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the packets that arrive for local members.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED /
        /// LIMIT_REACHED.
        pub async fn receive_packets(
            &mut self,
            request: impl tonic::IntoRequest<super::ReceivePacketsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReceivePacketsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.OperatingAgentService/ReceivePackets",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.OperatingAgentService",
                        "ReceivePackets",
                    ),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Is the node alive? Asked before a node is expelled.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn probe_node(
            &mut self,
            request: impl tonic::IntoRequest<super::ProbeNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProbeNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "ProbeNode",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/ProbeNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// A group agent pushes new positions; older epochs and versions are ignored.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// COLOR_OUT_OF_RANGE.
        pub async fn update_positions(
            &mut self,
            request: impl tonic::IntoRequest<super::UpdatePositionsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdatePositionsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "UpdatePositions",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/UpdatePositions",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Links two nodes for the messages of all groups that they share, in both directions and in
        /// order. The stream is the link: when it ends, both begin anew from what they have.
        /// docs/messages.md says what travels.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, NOT_FOUND /
        /// UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, RESOURCE_EXHAUSTED / LIMIT_REACHED (also if the two
        /// are linked already).
        pub async fn open_link(
            &mut self,
            request: impl tonic::IntoStreamingRequest<Message = super::OpenLinkRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::OpenLinkResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.OperatingAgentService/OpenLink",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.OperatingAgentService", "OpenLink"),
                );
            self.inner.streaming(req, path, codec).await
        }
        /// Lists the nodes this server hosts.
        /// Errors: none of its own.
        pub async fn list_hosted_nodes(
            &mut self,
            request: impl tonic::IntoRequest<super::ListHostedNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListHostedNodesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "ListHostedNodes",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/ListHostedNodes",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Stops a hosted node as if it had lost power: it neither reports nor answers nor receives.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn stop_node(
            &mut self,
            request: impl tonic::IntoRequest<super::StopNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StopNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "StopNode",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/StopNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Starts a stopped node again, with no memberships and a new incarnation.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        pub async fn start_node(
            &mut self,
            request: impl tonic::IntoRequest<super::StartNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartNodeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "StartNode",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/StartNode",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Runs operations for a member whose process does not attach, and answers how long they took. All
        /// members of the group are to be called at the same time with the same operations. Waits at most
        /// 10 s for the member, and as long for the others.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / COLLECTIVE_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED, UNAVAILABLE /
        /// PEER_UNAVAILABLE (not all members take part in time), NOT_FOUND / NOT_A_MEMBER, ALREADY_EXISTS
        /// / SEAT_TAKEN, and those of ProcessService.RunOperation.
        pub async fn measure_operations(
            &mut self,
            request: impl tonic::IntoRequest<super::MeasureOperationsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::MeasureOperationsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.OperatingAgentService",
                "MeasureOperations",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.OperatingAgentService/MeasureOperations",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod operating_agent_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with OperatingAgentServiceServer.
    #[async_trait]
    pub trait OperatingAgentService: std::marker::Send + std::marker::Sync + 'static {
        /// Joins a local process to a group, through the TIC and the group agent.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// UNAVAILABLE / PEER_UNAVAILABLE, and those of TicService.JoinGroup.
        async fn join_group(
            &self,
            request: tonic::Request<super::OperatingAgentServiceJoinGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceJoinGroupResponse>,
            tonic::Status,
        >;
        /// Takes a local process out of a group.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// UNAVAILABLE / PEER_UNAVAILABLE, and those of TicService.LeaveGroup.
        async fn leave_group(
            &self,
            request: tonic::Request<super::OperatingAgentServiceLeaveGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceLeaveGroupResponse>,
            tonic::Status,
        >;
        /// Joins many local processes; the TIC is asked for many in one call. Each join comes to its own
        /// end, as that of JoinGroup.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED, and those of
        /// JoinGroup that name a field; nothing has been joined then.
        async fn join_many(
            &self,
            request: tonic::Request<super::OperatingAgentServiceJoinManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceJoinManyResponse>,
            tonic::Status,
        >;
        /// Takes many local processes out of groups. Each leave comes to its own end, as that of
        /// LeaveGroup.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, RESOURCE_EXHAUSTED / LIMIT_REACHED, and those of
        /// LeaveGroup that name a field; nobody has left then.
        async fn leave_many(
            &self,
            request: tonic::Request<super::OperatingAgentServiceLeaveManyRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceLeaveManyResponse>,
            tonic::Status,
        >;
        /// Answers a group as its agent knows it (process to OA to GA and back).
        /// Errors: NOT_FOUND / UNKNOWN_NODE, NOT_FOUND / NOT_A_MEMBER, UNAVAILABLE / NODE_STOPPED,
        /// INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE / PEER_UNAVAILABLE, and those of
        /// GroupAgentService.QueryGroup.
        async fn query_group(
            &self,
            request: tonic::Request<super::OperatingAgentServiceQueryGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::OperatingAgentServiceQueryGroupResponse>,
            tonic::Status,
        >;
        /// Lists the memberships of a node, or of all nodes of this server.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn list_memberships(
            &self,
            request: tonic::Request<super::ListMembershipsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListMembershipsResponse>,
            tonic::Status,
        >;
        /// Sends one multicast packet from a local member through the fabric.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, NOT_FOUND / NOT_A_MEMBER, UNAVAILABLE / NODE_STOPPED,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / PAYLOAD_TOO_LONG, FAILED_PRECONDITION /
        /// NOT_ROUTED, UNAVAILABLE / FABRIC_UNAVAILABLE, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn send_packet(
            &self,
            request: tonic::Request<super::SendPacketRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendPacketResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ReceivePackets method.
        type ReceivePacketsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ReceivePacketsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Streams the packets that arrive for local members.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID, RESOURCE_EXHAUSTED /
        /// LIMIT_REACHED.
        async fn receive_packets(
            &self,
            request: tonic::Request<super::ReceivePacketsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReceivePacketsStream>,
            tonic::Status,
        >;
        /// Is the node alive? Asked before a node is expelled.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID.
        async fn probe_node(
            &self,
            request: tonic::Request<super::ProbeNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProbeNodeResponse>,
            tonic::Status,
        >;
        /// A group agent pushes new positions; older epochs and versions are ignored.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT /
        /// COLOR_OUT_OF_RANGE.
        async fn update_positions(
            &self,
            request: tonic::Request<super::UpdatePositionsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdatePositionsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the OpenLink method.
        type OpenLinkStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::OpenLinkResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Links two nodes for the messages of all groups that they share, in both directions and in
        /// order. The stream is the link: when it ends, both begin anew from what they have.
        /// docs/messages.md says what travels.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, INVALID_ARGUMENT / NAME_INVALID, NOT_FOUND /
        /// UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, RESOURCE_EXHAUSTED / LIMIT_REACHED (also if the two
        /// are linked already).
        async fn open_link(
            &self,
            request: tonic::Request<tonic::Streaming<super::OpenLinkRequest>>,
        ) -> std::result::Result<tonic::Response<Self::OpenLinkStream>, tonic::Status>;
        /// Lists the nodes this server hosts.
        /// Errors: none of its own.
        async fn list_hosted_nodes(
            &self,
            request: tonic::Request<super::ListHostedNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListHostedNodesResponse>,
            tonic::Status,
        >;
        /// Stops a hosted node as if it had lost power: it neither reports nor answers nor receives.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn stop_node(
            &self,
            request: tonic::Request<super::StopNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StopNodeResponse>,
            tonic::Status,
        >;
        /// Starts a stopped node again, with no memberships and a new incarnation.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, INVALID_ARGUMENT / NAME_INVALID.
        async fn start_node(
            &self,
            request: tonic::Request<super::StartNodeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartNodeResponse>,
            tonic::Status,
        >;
        /// Runs operations for a member whose process does not attach, and answers how long they took. All
        /// members of the group are to be called at the same time with the same operations. Waits at most
        /// 10 s for the member, and as long for the others.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / COLLECTIVE_INVALID, RESOURCE_EXHAUSTED / LIMIT_REACHED, UNAVAILABLE /
        /// PEER_UNAVAILABLE (not all members take part in time), NOT_FOUND / NOT_A_MEMBER, ALREADY_EXISTS
        /// / SEAT_TAKEN, and those of ProcessService.RunOperation.
        async fn measure_operations(
            &self,
            request: tonic::Request<super::MeasureOperationsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::MeasureOperationsResponse>,
            tonic::Status,
        >;
    }
    /// Operating agents: what the processes of a node talk to. One server hosts the agents of many
    /// nodes. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and one that has to wait
    /// for others with RESOURCE_EXHAUSTED / LIMIT_REACHED (too many wait already). Of the joins and
    /// leaves of one client 64 are in progress at a time; one that has not begun after a minute is
    /// refused like that, too.
    #[derive(Debug)]
    pub struct OperatingAgentServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> OperatingAgentServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>>
    for OperatingAgentServiceServer<T>
    where
        T: OperatingAgentService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.OperatingAgentService/JoinGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::join_group(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/LeaveGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::leave_group(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/JoinMany" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::join_many(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/LeaveMany" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::leave_many(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/QueryGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::query_group(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/ListMemberships" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::list_memberships(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/SendPacket" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::send_packet(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/ReceivePackets" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::receive_packets(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/ProbeNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::probe_node(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/UpdatePositions" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::update_positions(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/OpenLink" => {
                    #[allow(non_camel_case_types)]
                    struct OpenLinkSvc<T: OperatingAgentService>(pub Arc<T>);
                    impl<
                        T: OperatingAgentService,
                    > tonic::server::StreamingService<super::OpenLinkRequest>
                    for OpenLinkSvc<T> {
                        type Response = super::OpenLinkResponse;
                        type ResponseStream = T::OpenLinkStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::OpenLinkRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as OperatingAgentService>::open_link(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = OpenLinkSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.OperatingAgentService/ListHostedNodes" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::list_hosted_nodes(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/StopNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::stop_node(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/StartNode" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::start_node(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.OperatingAgentService/MeasureOperations" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as OperatingAgentService>::measure_operations(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for OperatingAgentServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.OperatingAgentService";
    impl<T> tonic::server::NamedService for OperatingAgentServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Signed integers of 32 bits.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Int32Numbers {
    /// The numbers.
    #[prost(sfixed32, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<i32>,
}
/// Signed integers of 64 bits.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Int64Numbers {
    /// The numbers.
    #[prost(sfixed64, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<i64>,
}
/// Unsigned integers of 32 bits.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Uint32Numbers {
    /// The numbers.
    #[prost(fixed32, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<u32>,
}
/// Unsigned integers of 64 bits.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Uint64Numbers {
    /// The numbers.
    #[prost(fixed64, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<u64>,
}
/// Floating-point numbers of single precision.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct FloatNumbers {
    /// The numbers.
    #[prost(float, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<f32>,
}
/// Floating-point numbers of double precision.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DoubleNumbers {
    /// The numbers.
    #[prost(double, repeated, tag = "1")]
    pub numbers: ::prost::alloc::vec::Vec<f64>,
}
/// Numbers of one type.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Numbers {
    /// The numbers.
    #[prost(oneof = "numbers::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: ::core::option::Option<numbers::Kind>,
}
/// Nested message and enum types in `Numbers`.
pub mod numbers {
    /// The numbers.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        /// Signed, 32 bits.
        #[prost(message, tag = "1")]
        I32(super::Int32Numbers),
        /// Signed, 64 bits.
        #[prost(message, tag = "2")]
        I64(super::Int64Numbers),
        /// Unsigned, 32 bits.
        #[prost(message, tag = "3")]
        U32(super::Uint32Numbers),
        /// Unsigned, 64 bits.
        #[prost(message, tag = "4")]
        U64(super::Uint64Numbers),
        /// Single precision.
        #[prost(message, tag = "5")]
        F32(super::FloatNumbers),
        /// Double precision.
        #[prost(message, tag = "6")]
        F64(super::DoubleNumbers),
    }
}
/// A payload of, or for, one member.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RankPayload {
    /// Required. The member's rank.
    #[prost(uint32, tag = "1")]
    pub pn: u32,
    /// Optional. The payload.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
}
/// An operation with one member's contribution.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GroupOperation {
    /// Required. Kind of the operation; all members say the same.
    #[prost(enumeration = "OperationKind", tag = "1")]
    pub kind: i32,
    /// Required where one sends or gets; all members say the same. The rank of that one.
    #[prost(uint32, tag = "2")]
    pub peer: u32,
    /// Required where numbers are combined: the way to combine; all members say the same.
    #[prost(enumeration = "Reduction", tag = "3")]
    pub reduction: i32,
    /// Optional; all members say the same. Outcome when a member fails.
    #[prost(enumeration = "FailurePolicy", tag = "4")]
    pub on_failure: i32,
    /// Required for reduce, all-reduce and scan. The numbers; as many and of the same type at all
    /// members.
    #[prost(message, optional, tag = "5")]
    pub numbers: ::core::option::Option<Numbers>,
    /// Optional. The payload of broadcast (looked at where its rank is the peer's only), gather and
    /// all-gather.
    #[prost(bytes = "vec", tag = "6")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
    /// Optional. The parts of scatter, looked at where its rank is the peer's only; who is not named
    /// gets nothing.
    #[prost(message, repeated, tag = "7")]
    pub parts: ::prost::alloc::vec::Vec<RankPayload>,
    /// Optional; all members say the same. Number of this segment of a long operation, from 0.
    #[prost(uint32, tag = "8")]
    pub segment: u32,
    /// Optional; all members say the same. Way in which a long operation is cut: count of the segments
    /// of numbers, or bytes of a full segment of payloads; 0 if it is not cut, or at 1 MiB.
    #[prost(uint32, tag = "9")]
    pub segment_cut: u32,
}
/// Outcome of an operation for one member.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OperationResult {
    /// Ranks of those who contributed, ascending; the same at all members.
    #[prost(uint32, repeated, tag = "1")]
    pub participants: ::prost::alloc::vec::Vec<u32>,
    /// Result of reduce (at its root), all-reduce and scan.
    #[prost(message, optional, tag = "2")]
    pub numbers: ::core::option::Option<Numbers>,
    /// Result of broadcast and scatter; left out if there was nothing for this member.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub payload: ::core::option::Option<::prost::alloc::vec::Vec<u8>>,
    /// Result of gather (at its root) and all-gather, by rank.
    #[prost(message, repeated, tag = "4")]
    pub parts: ::prost::alloc::vec::Vec<RankPayload>,
    /// True if switches combined it for this member, false if the tree of the members did.
    #[prost(bool, tag = "5")]
    pub by_switches: bool,
    /// Bytes of the longest contribution of one member, the same at all members.
    #[prost(uint64, tag = "6")]
    pub longest_contribution_bytes: u64,
}
/// The collective operations of a group's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum OperationKind {
    /// Never sent.
    Unspecified = 0,
    /// Nobody goes on before everybody has come.
    Barrier = 1,
    /// One process's payload to all.
    Broadcast = 2,
    /// All processes' numbers, combined, to one.
    Reduce = 3,
    /// All processes' numbers, combined, to all.
    AllReduce = 4,
    /// All processes' payloads, each apart, to one.
    Gather = 5,
    /// One process's parts, one to each.
    Scatter = 6,
    /// All processes' payloads, each apart, to all.
    AllGather = 7,
    /// To each the numbers of the processes up to itself, combined.
    Scan = 8,
}
impl OperationKind {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "OPERATION_KIND_UNSPECIFIED",
            Self::Barrier => "OPERATION_KIND_BARRIER",
            Self::Broadcast => "OPERATION_KIND_BROADCAST",
            Self::Reduce => "OPERATION_KIND_REDUCE",
            Self::AllReduce => "OPERATION_KIND_ALL_REDUCE",
            Self::Gather => "OPERATION_KIND_GATHER",
            Self::Scatter => "OPERATION_KIND_SCATTER",
            Self::AllGather => "OPERATION_KIND_ALL_GATHER",
            Self::Scan => "OPERATION_KIND_SCAN",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "OPERATION_KIND_UNSPECIFIED" => Some(Self::Unspecified),
            "OPERATION_KIND_BARRIER" => Some(Self::Barrier),
            "OPERATION_KIND_BROADCAST" => Some(Self::Broadcast),
            "OPERATION_KIND_REDUCE" => Some(Self::Reduce),
            "OPERATION_KIND_ALL_REDUCE" => Some(Self::AllReduce),
            "OPERATION_KIND_GATHER" => Some(Self::Gather),
            "OPERATION_KIND_SCATTER" => Some(Self::Scatter),
            "OPERATION_KIND_ALL_GATHER" => Some(Self::AllGather),
            "OPERATION_KIND_SCAN" => Some(Self::Scan),
            _ => None,
        }
    }
}
/// Outcome of an operation when a member is gone before it has contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FailurePolicy {
    /// The same as fail.
    Unspecified = 0,
    /// It fails everywhere and names who is gone.
    Fail = 1,
    /// It is completed among the others.
    Survivors = 2,
}
impl FailurePolicy {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unspecified => "FAILURE_POLICY_UNSPECIFIED",
            Self::Fail => "FAILURE_POLICY_FAIL",
            Self::Survivors => "FAILURE_POLICY_SURVIVORS",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "FAILURE_POLICY_UNSPECIFIED" => Some(Self::Unspecified),
            "FAILURE_POLICY_FAIL" => Some(Self::Fail),
            "FAILURE_POLICY_SURVIVORS" => Some(Self::Survivors),
            _ => None,
        }
    }
}
/// Request of ListLocalNodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListLocalNodesRequest {}
/// Response of ListLocalNodes.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListLocalNodesResponse {
    /// Names of the nodes.
    #[prost(string, repeated, tag = "1")]
    pub nodes: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Request of AttachProcess.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AttachProcessRequest {
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "1")]
    pub process: ::prost::alloc::string::String,
    /// Optional. The node it runs on; may be left out if the socket serves one node only.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Optional. Token of the job that the process belongs to, for the groups that it joins and
    /// reserves.
    #[prost(string, tag = "3")]
    pub job_token: ::prost::alloc::string::String,
}
/// Response of AttachProcess.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct AttachProcessResponse {
    /// The session, to be named in further calls.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// The node it runs on.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Address of this machine at which other nodes reach sockets of the process. Empty if the node
    /// offers no direct path.
    #[prost(string, tag = "3")]
    pub direct_host: ::prost::alloc::string::String,
}
/// Some bytes of the memory that a process and its agent share. Their sender has written them
/// and leaves them as they are until the other has read them: what a process names until its call
/// has ended, what the agent names until ShareMemoryRequest.read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct MemoryRange {
    /// Required. Their beginning, from the start of the memory; in the first half if a process names
    /// them, else in the second.
    #[prost(uint64, tag = "1")]
    pub offset_bytes: u64,
    /// Required. Number of bytes; they end in the same half.
    #[prost(uint64, tag = "2")]
    pub length_bytes: u64,
}
/// A file in memory, for the process and its agent only.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SharedMemory {
    /// The path, as the agent sees it. It is gone once the process has said that it has opened it.
    #[prost(string, tag = "1")]
    pub path: ::prost::alloc::string::String,
    /// Number of the file system of the file, to be compared with that of the opened one.
    #[prost(uint64, tag = "2")]
    pub device: u64,
    /// Number of the file there, to be compared, too.
    #[prost(uint64, tag = "3")]
    pub inode: u64,
    /// Length of each half: the process writes the first one only, the agent the second.
    #[prost(uint64, tag = "4")]
    pub half_bytes: u64,
}
/// Request of ShareMemory: the first one says who, the second how the opening has ended, all others
/// what is read.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ShareMemoryRequest {
    /// Required in the first, not looked at later. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Optional in the first, not looked at later. Shorter payloads do not come through the memory.
    #[prost(uint64, tag = "2")]
    pub least_bytes: u64,
    /// Required in the second, not looked at otherwise. The process has opened the file. If not, the
    /// call ends.
    #[prost(bool, tag = "3")]
    pub opened: bool,
    /// Optional in the second if it has not opened the file. The reason, for the agent's log.
    #[prost(string, tag = "4")]
    pub failure: ::prost::alloc::string::String,
    /// Optional. Beginnings of ranges that the process has read; the agent may use them again.
    #[prost(uint64, repeated, tag = "5")]
    pub read: ::prost::alloc::vec::Vec<u64>,
    /// Optional. Numbers of calls of TakePart that the process has given up: it reads nothing more
    /// that came with them.
    #[prost(uint64, repeated, tag = "6")]
    pub ended_parts: ::prost::alloc::vec::Vec<u64>,
}
/// Response of ShareMemory.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ShareMemoryResponse {
    /// The memory to open.
    #[prost(message, optional, tag = "1")]
    pub memory: ::core::option::Option<SharedMemory>,
}
/// Request of ReserveMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReserveMembersRequest {
    /// Required. Session of the launcher.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required. The processes, in the order of their ranks if the group is new.
    #[prost(message, repeated, tag = "3")]
    pub processes: ::prost::alloc::vec::Vec<LocalProcess>,
    /// Optional. Number of the user that the processes will run as, on the agent's machine; default:
    /// that of the caller. Only root (0) may name another.
    #[prost(uint32, optional, tag = "4")]
    pub user: ::core::option::Option<u32>,
}
/// A process of this machine.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct LocalProcess {
    /// Required. Name of the process, unique on its node.
    #[prost(string, tag = "1")]
    pub process: ::prost::alloc::string::String,
    /// Optional. The node it runs on; may be left out if the socket serves one node only.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
}
/// Response of ReserveMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReserveMembersResponse {
    /// The memberships, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub memberships: ::prost::alloc::vec::Vec<Membership>,
}
/// Request of JoinGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProcessServiceJoinGroupRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of JoinGroup.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ProcessServiceJoinGroupResponse {
    /// The membership.
    #[prost(message, optional, tag = "1")]
    pub membership: ::core::option::Option<Membership>,
}
/// Request of LeaveGroup.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProcessServiceLeaveGroupRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of LeaveGroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProcessServiceLeaveGroupResponse {}
/// Request of ListMembers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListMembersRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of ListMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListMembersResponse {
    /// The members, ordered by PN.
    #[prost(message, repeated, tag = "1")]
    pub members: ::prost::alloc::vec::Vec<Member>,
}
/// Request of WatchMembers.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct WatchMembersRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of WatchMembers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WatchMembersResponse {
    /// All members, ordered by PN.
    #[prost(message, repeated, tag = "1")]
    pub members: ::prost::alloc::vec::Vec<Member>,
}
/// Request of TakePart: the first one says who, all of them how much more.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TakePartRequest {
    /// Required in the first, not looked at later. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required in the first, not looked at later. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Optional. So many messages more may be delivered.
    #[prost(uint32, tag = "3")]
    pub more: u32,
    /// Optional in the first, not looked at later. A number that the process gives this call, for
    /// ShareMemoryRequest.ended_parts. Without one, nothing comes through shared memory.
    #[prost(uint64, tag = "4")]
    pub part: u64,
}
/// Response of TakePart; the first one has the participants.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TakePartResponse {
    /// The event.
    #[prost(oneof = "take_part_response::Event", tags = "1, 2")]
    pub event: ::core::option::Option<take_part_response::Event>,
}
/// Nested message and enum types in `TakePartResponse`.
pub mod take_part_response {
    /// The event.
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Event {
        /// The participants; comes after every change, and changes in quick succession may come as one.
        #[prost(message, tag = "1")]
        Participants(super::Participants),
        /// A message.
        #[prost(message, tag = "2")]
        Message(super::GroupMessage),
    }
}
/// Request of OpenDirectPath: the first one says who.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpenDirectPathRequest {
    /// Required in the first, not looked at later. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required in the first, not looked at later. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Optional. The member needs links to its neighbors from now on.
    #[prost(bool, tag = "3")]
    pub needs_links: bool,
    /// Optional. Frames for its neighbors, in order.
    #[prost(message, repeated, tag = "4")]
    pub frames: ::prost::alloc::vec::Vec<DirectFrame>,
    /// Optional. A number that the agent repeats once it has taken this request and all before it.
    #[prost(uint64, tag = "5")]
    pub mark: u64,
    /// Optional in the first, not looked at later. The process reads DirectPlace.tree; without it,
    /// groups with another tree than two below each are refused with FAILED_PRECONDITION /
    /// NO_DIRECT_PATH.
    #[prost(bool, tag = "6")]
    pub knows_trees: bool,
}
/// Frame of a member that its process serves.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DirectFrame {
    /// Required. Number of the link that it is for; dropped if that is not up any more.
    #[prost(uint64, tag = "1")]
    pub link: u64,
    /// Required. The frame.
    #[prost(message, optional, tag = "2")]
    pub frame: ::core::option::Option<LinkFrame>,
}
/// Response of OpenDirectPath.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct OpenDirectPathResponse {
    /// The member's place, once it is known and whenever it or a link changes; it holds for the frames
    /// that follow.
    #[prost(message, optional, tag = "1")]
    pub place: ::core::option::Option<DirectPlace>,
    /// Frames of its neighbors, in order.
    #[prost(message, repeated, tag = "2")]
    pub frames: ::prost::alloc::vec::Vec<LinkFrame>,
    /// Number of a request that was taken; 0 if this tells of none.
    #[prost(uint64, tag = "3")]
    pub mark: u64,
}
/// Place of a member in its group's tree.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DirectPlace {
    /// Number of the group.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Rank of the member.
    #[prost(uint32, tag = "2")]
    pub pn: u32,
    /// Revision at which it joined.
    #[prost(uint64, tag = "3")]
    pub joined_revision: u64,
    /// Neighbor towards the root; none at the root.
    #[prost(message, optional, tag = "4")]
    pub parent: ::core::option::Option<DirectNeighbor>,
    /// Neighbors away from the root.
    #[prost(message, repeated, tag = "5")]
    pub children: ::prost::alloc::vec::Vec<DirectNeighbor>,
    /// True if neighbors have greeted an earlier endpoint of the member: the process greets them, so
    /// that they begin anew.
    #[prost(bool, tag = "6")]
    pub wake: bool,
    /// The fabric's multicast connection of the group; none while no switch carries it.
    #[prost(message, optional, tag = "7")]
    pub multicast: ::core::option::Option<DirectMulticast>,
    /// Shape of the tree; absent for two below each.
    #[prost(message, optional, tag = "8")]
    pub tree: ::core::option::Option<TreeShape>,
}
/// Multicast connection of a group, for a process that serves its member itself.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DirectMulticast {
    /// Name of the interface of this machine that the member's endpoint is.
    #[prost(string, tag = "1")]
    pub interface: ::prost::alloc::string::String,
    /// IPv4 address that the group's packets are sent to; another one when its tree has moved.
    #[prost(string, tag = "2")]
    pub address: ::prost::alloc::string::String,
    /// UDP port of the packets.
    #[prost(uint32, tag = "3")]
    pub port: u32,
}
/// Neighbor of a member that its process serves.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DirectNeighbor {
    /// Rank of the neighbor.
    #[prost(uint32, tag = "1")]
    pub pn: u32,
    /// Node of the neighbor.
    #[prost(string, tag = "2")]
    pub node: ::prost::alloc::string::String,
    /// Number of the link to it; 0 while there is none. A link that was cut and is up again has
    /// another number.
    #[prost(uint64, tag = "3")]
    pub link: u64,
}
/// Participants of a group.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Participants {
    /// Ranks, ascending.
    #[prost(uint32, repeated, tag = "1")]
    pub pns: ::prost::alloc::vec::Vec<u32>,
}
/// A message of another member.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GroupMessage {
    /// Rank of who sent it.
    #[prost(uint32, tag = "1")]
    pub from_pn: u32,
    /// The message.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
    /// Place of the message in shared memory, if it is not in payload.
    #[prost(message, optional, tag = "3")]
    pub shared_payload: ::core::option::Option<MemoryRange>,
}
/// Request of ListParticipants.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListParticipantsRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of ListParticipants.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListParticipantsResponse {
    /// The participants.
    #[prost(message, optional, tag = "1")]
    pub participants: ::core::option::Option<Participants>,
}
/// Request of SendMessage.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SendMessageRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Optional. The message, at most 1 MiB.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: ::prost::alloc::vec::Vec<u8>,
    /// Optional. Send it once, over whatever is there, and let nobody ask who got it.
    #[prost(bool, tag = "4")]
    pub best_effort: bool,
    /// Optional. Range that holds the message, in place of payload.
    #[prost(message, optional, tag = "5")]
    pub shared_payload: ::core::option::Option<MemoryRange>,
}
/// Response of SendMessage.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SendMessageResponse {
    /// Ranks of those who took part when it was sent and ceased to before they acknowledged it,
    /// ascending: whether they have it is not known.
    #[prost(uint32, repeated, tag = "1")]
    pub unknown_pns: ::prost::alloc::vec::Vec<u32>,
}
/// Request of RunOperation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RunOperationRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
    /// Required, unless shared_operation is given. The operation.
    #[prost(message, optional, tag = "3")]
    pub operation: ::core::option::Option<GroupOperation>,
    /// Optional. Range of a GroupOperation in the encoding of protobuf, in place of operation.
    #[prost(message, optional, tag = "4")]
    pub shared_operation: ::core::option::Option<MemoryRange>,
}
/// Response of RunOperation.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RunOperationResponse {
    /// Outcome.
    #[prost(message, optional, tag = "1")]
    pub result: ::core::option::Option<OperationResult>,
    /// Place of an OperationResult in the encoding of protobuf, if result is left out.
    #[prost(message, optional, tag = "2")]
    pub shared_result: ::core::option::Option<MemoryRange>,
}
/// Request of RequestSwitchTree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProcessServiceRequestSwitchTreeRequest {
    /// Required. Session of the process.
    #[prost(uint64, tag = "1")]
    pub session: u64,
    /// Required. Name of the group.
    #[prost(string, tag = "2")]
    pub group: ::prost::alloc::string::String,
}
/// Response of RequestSwitchTree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ProcessServiceRequestSwitchTreeResponse {
    /// Name of the collective that has the tree.
    #[prost(string, tag = "1")]
    pub collective: ::prost::alloc::string::String,
    /// Bytes of the longest contribution that switches combine, at eight for each number.
    #[prost(uint32, tag = "2")]
    pub max_bytes: u32,
}
/// Generated client implementations.
pub mod process_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Service of an operating agent for the processes of its machine, at a Unix domain socket and at no
    /// network address. Every process that may open the socket may attach. If the agent has rules for
    /// processes (docs/security.md), any call of a process without a rule, and any that names a group
    /// which its tenant may not use, is refused with PERMISSION_DENIED / NOT_PERMITTED. A process
    /// attaches first and names its session in every further call. However the call that attached it
    /// ends, by the process's will or by its death, the agent takes the process out of every group it is
    /// in. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and one that names a session
    /// with NOT_FOUND / UNKNOWN_SESSION (none such, or it has ended) or PERMISSION_DENIED /
    /// SESSION_NOT_YOURS (another user's or tenant's). The promises of messages and operations are in
    /// docs/messages.md.
    #[derive(Debug, Clone)]
    pub struct ProcessServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl ProcessServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> ProcessServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> ProcessServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            ProcessServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Lists the nodes that processes can attach to here, ordered by name.
        /// Errors: none of its own.
        pub async fn list_local_nodes(
            &mut self,
            request: impl tonic::IntoRequest<super::ListLocalNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListLocalNodesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.ProcessService",
                "ListLocalNodes",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/ListLocalNodes",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Attaches a process for as long as the call lasts. The one answer comes at once.
        /// Waits until the memberships of a process of that name have ended that attached before and died,
        /// or that a launcher had reserved which has ended.
        /// A name that a launcher has reserved is refused to processes of another user, or without the
        /// token that the launcher has shown, and so is a name with memberships in groups that the caller
        /// may not use: PERMISSION_DENIED / NOT_PERMITTED. So ends the call when changed rules decide
        /// differently about the caller, too.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / FIELD_MISSING (no node, though the socket serves several), ALREADY_EXISTS /
        /// PROCESS_ATTACHED, UNAVAILABLE / PEER_UNAVAILABLE, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        pub async fn attach_process(
            &mut self,
            request: impl tonic::IntoRequest<super::AttachProcessRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::AttachProcessResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.ProcessService/AttachProcess",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.ProcessService", "AttachProcess"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// Shares memory with an attached process for as long as the call lasts: once the process has said
        /// that it has opened it, calls may name a range of it in place of long payloads. The one answer
        /// comes at once. A process that makes no such call is served all the same.
        /// Errors: FAILED_PRECONDITION / NO_SHARED_MEMORY (there is none here, or not for this user),
        /// ALREADY_EXISTS / MEMORY_SHARED, INVALID_ARGUMENT / FIELD_MISSING (no first request),
        /// INVALID_ARGUMENT / RANGE_INVALID (what was given back had not been lent).
        pub async fn share_memory(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::ShareMemoryRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ShareMemoryResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.ProcessService/ShareMemory",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.ProcessService", "ShareMemory"));
            self.inner.streaming(req, path, codec).await
        }
        /// Joins processes that are to attach later, in this order, as a launcher does. Those that have
        /// not attached when the caller's session ends are taken out again. As long as that lasts, only
        /// processes of the caller's user, or of the one that it names, attach under these names, and if
        /// the caller has shown the token of a job, only with that token. Waits for sessions that had
        /// these names and are ending.
        /// Errors: those of OperatingAgentService.JoinMany; INVALID_ARGUMENT / FIELD_MISSING (no node,
        /// though the socket serves several); PERMISSION_DENIED / NOT_PERMITTED (a name that is reserved
        /// for another user or job, or that a process of another has attached under; or a user that the
        /// caller may not name); UNAVAILABLE / PEER_UNAVAILABLE (a session that had one of the names has
        /// not ended in time). Then nobody is joined.
        pub async fn reserve_members(
            &mut self,
            request: impl tonic::IntoRequest<super::ReserveMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveMembersResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.ProcessService",
                "ReserveMembers",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/ReserveMembers",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Joins the process to a group; a member learns its membership.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, and those of OperatingAgentService.JoinGroup.
        pub async fn join_group(
            &mut self,
            request: impl tonic::IntoRequest<super::ProcessServiceJoinGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceJoinGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.ProcessService", "JoinGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/JoinGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Takes the process out of a group.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, and those of OperatingAgentService.LeaveGroup.
        pub async fn leave_group(
            &mut self,
            request: impl tonic::IntoRequest<super::ProcessServiceLeaveGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceLeaveGroupResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.ProcessService", "LeaveGroup");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/LeaveGroup",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the members of a group that the process is in, as the group's agent knows them.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE /
        /// PEER_UNAVAILABLE.
        pub async fn list_members(
            &mut self,
            request: impl tonic::IntoRequest<super::ListMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListMembersResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.ProcessService", "ListMembers");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/ListMembers",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Streams the members of a group that the process is in: the present ones at once, then all of
        /// them after every change. Changes in quick succession may come as one. Lasts over a change of
        /// the group's agent.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, at once or when the process's membership ends;
        /// INVALID_ARGUMENT / NAME_INVALID.
        pub async fn watch_members(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchMembersResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.ProcessService/WatchMembers",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.ProcessService", "WatchMembers"));
            self.inner.server_streaming(req, path, codec).await
        }
        /// Lets a member take part in its group's messages and operations for as long as the call lasts;
        /// streams what is delivered to it. The agent is never more messages ahead than the process has
        /// asked for: one that takes nothing makes the sources wait.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, at once or when the process's membership ends;
        /// INVALID_ARGUMENT / NAME_INVALID, ALREADY_EXISTS / SEAT_TAKEN, INVALID_ARGUMENT / FIELD_MISSING
        /// (no first request).
        pub async fn take_part(
            &mut self,
            request: impl tonic::IntoStreamingRequest<Message = super::TakePartRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::TakePartResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.ProcessService/TakePart",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("fabricast.v1.ProcessService", "TakePart"));
            self.inner.streaming(req, path, codec).await
        }
        /// Leaves a member's part in messages and operations to its process, which runs the message layer
        /// itself (docs/messages.md): the agent tells it the member's place, and carries frames between it
        /// and its neighbors. Made once, for as long as the membership lasts, in place of TakePart,
        /// SendMessage and RunOperation; when the call ends, the member takes no part any more.
        /// Errors: FAILED_PRECONDITION / NO_DIRECT_PATH (the node offers none, or `knows_trees` is missing
        /// in a group with another tree), NOT_FOUND / NOT_A_MEMBER, at once or when the process's
        /// membership ends; INVALID_ARGUMENT / NAME_INVALID,
        /// ALREADY_EXISTS / SEAT_TAKEN (it has taken part before), INVALID_ARGUMENT / FIELD_MISSING (no
        /// first request), INVALID_ARGUMENT / FRAME_INVALID (a frame that is not understood, or is not the
        /// member's own).
        pub async fn open_direct_path(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::OpenDirectPathRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::OpenDirectPathResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.ProcessService/OpenDirectPath",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.ProcessService", "OpenDirectPath"),
                );
            self.inner.streaming(req, path, codec).await
        }
        /// Lists who takes part, as far as the member knows, which takes part itself.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first), NOT_FOUND / NOT_A_MEMBER,
        /// INVALID_ARGUMENT / NAME_INVALID.
        pub async fn list_participants(
            &mut self,
            request: impl tonic::IntoRequest<super::ListParticipantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListParticipantsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.ProcessService",
                "ListParticipants",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/ListParticipants",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Sends a message to all others who take part. A reliable one is answered when all have it,
        /// however long the slowest of them takes; a process's messages arrive in the order in which their
        /// calls began, so the next one begins when the last has been answered, unless their order is of
        /// no matter.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first, or it has ended), NOT_FOUND /
        /// NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / PAYLOAD_TOO_LONG,
        /// INVALID_ARGUMENT / RANGE_INVALID, FAILED_PRECONDITION / NO_SHARED_MEMORY (a range without
        /// ShareMemory).
        pub async fn send_message(
            &mut self,
            request: impl tonic::IntoRequest<super::SendMessageRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendMessageResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.ProcessService", "SendMessage");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/SendMessage",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Runs a collective operation with the others who take part; their calls are matched in their
        /// order. A call that is given up still counts.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first, or it has ended), NOT_FOUND /
        /// NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING,
        /// INVALID_ARGUMENT / PAYLOAD_TOO_LONG, INVALID_ARGUMENT / RANGE_INVALID, FAILED_PRECONDITION /
        /// NO_SHARED_MEMORY (a range without ShareMemory), INVALID_ARGUMENT / CONTRIBUTION_INVALID,
        /// FAILED_PRECONDITION / OPERATION_RUNNING (the member's last one has not ended),
        /// FAILED_PRECONDITION / OPERATIONS_DIFFER, ABORTED / MEMBERS_FAILED (its metadata `failed` names
        /// their ranks).
        pub async fn run_operation(
            &mut self,
            request: impl tonic::IntoRequest<super::RunOperationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RunOperationResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.ProcessService", "RunOperation");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/RunOperation",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Asks that switches combine what the members of a group contribute: the group gets a collective
        /// with a switch tree, if switches have the entries for it. Operations use the tree once the
        /// switches hold it and the agents know, some seconds later, while exactly the members take part
        /// that the group had then. It ends when a member joins or leaves, so members ask once all have
        /// joined. All of them may: they get the same tree.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, FAILED_PRECONDITION /
        /// NO_AGGREGATION (the node is on no emulated fabric), UNAVAILABLE / PEER_UNAVAILABLE, and those
        /// of CollectiveService.RequestSwitchTree.
        pub async fn request_switch_tree(
            &mut self,
            request: impl tonic::IntoRequest<
                super::ProcessServiceRequestSwitchTreeRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceRequestSwitchTreeResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.ProcessService",
                "RequestSwitchTree",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.ProcessService/RequestSwitchTree",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod process_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with ProcessServiceServer.
    #[async_trait]
    pub trait ProcessService: std::marker::Send + std::marker::Sync + 'static {
        /// Lists the nodes that processes can attach to here, ordered by name.
        /// Errors: none of its own.
        async fn list_local_nodes(
            &self,
            request: tonic::Request<super::ListLocalNodesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListLocalNodesResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the AttachProcess method.
        type AttachProcessStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::AttachProcessResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Attaches a process for as long as the call lasts. The one answer comes at once.
        /// Waits until the memberships of a process of that name have ended that attached before and died,
        /// or that a launcher had reserved which has ended.
        /// A name that a launcher has reserved is refused to processes of another user, or without the
        /// token that the launcher has shown, and so is a name with memberships in groups that the caller
        /// may not use: PERMISSION_DENIED / NOT_PERMITTED. So ends the call when changed rules decide
        /// differently about the caller, too.
        /// Errors: NOT_FOUND / UNKNOWN_NODE, UNAVAILABLE / NODE_STOPPED, INVALID_ARGUMENT / NAME_INVALID,
        /// INVALID_ARGUMENT / FIELD_MISSING (no node, though the socket serves several), ALREADY_EXISTS /
        /// PROCESS_ATTACHED, UNAVAILABLE / PEER_UNAVAILABLE, RESOURCE_EXHAUSTED / LIMIT_REACHED.
        async fn attach_process(
            &self,
            request: tonic::Request<super::AttachProcessRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::AttachProcessStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the ShareMemory method.
        type ShareMemoryStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ShareMemoryResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Shares memory with an attached process for as long as the call lasts: once the process has said
        /// that it has opened it, calls may name a range of it in place of long payloads. The one answer
        /// comes at once. A process that makes no such call is served all the same.
        /// Errors: FAILED_PRECONDITION / NO_SHARED_MEMORY (there is none here, or not for this user),
        /// ALREADY_EXISTS / MEMORY_SHARED, INVALID_ARGUMENT / FIELD_MISSING (no first request),
        /// INVALID_ARGUMENT / RANGE_INVALID (what was given back had not been lent).
        async fn share_memory(
            &self,
            request: tonic::Request<tonic::Streaming<super::ShareMemoryRequest>>,
        ) -> std::result::Result<
            tonic::Response<Self::ShareMemoryStream>,
            tonic::Status,
        >;
        /// Joins processes that are to attach later, in this order, as a launcher does. Those that have
        /// not attached when the caller's session ends are taken out again. As long as that lasts, only
        /// processes of the caller's user, or of the one that it names, attach under these names, and if
        /// the caller has shown the token of a job, only with that token. Waits for sessions that had
        /// these names and are ending.
        /// Errors: those of OperatingAgentService.JoinMany; INVALID_ARGUMENT / FIELD_MISSING (no node,
        /// though the socket serves several); PERMISSION_DENIED / NOT_PERMITTED (a name that is reserved
        /// for another user or job, or that a process of another has attached under; or a user that the
        /// caller may not name); UNAVAILABLE / PEER_UNAVAILABLE (a session that had one of the names has
        /// not ended in time). Then nobody is joined.
        async fn reserve_members(
            &self,
            request: tonic::Request<super::ReserveMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ReserveMembersResponse>,
            tonic::Status,
        >;
        /// Joins the process to a group; a member learns its membership.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, and those of OperatingAgentService.JoinGroup.
        async fn join_group(
            &self,
            request: tonic::Request<super::ProcessServiceJoinGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceJoinGroupResponse>,
            tonic::Status,
        >;
        /// Takes the process out of a group.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, and those of OperatingAgentService.LeaveGroup.
        async fn leave_group(
            &self,
            request: tonic::Request<super::ProcessServiceLeaveGroupRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceLeaveGroupResponse>,
            tonic::Status,
        >;
        /// Lists the members of a group that the process is in, as the group's agent knows them.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, UNAVAILABLE /
        /// PEER_UNAVAILABLE.
        async fn list_members(
            &self,
            request: tonic::Request<super::ListMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListMembersResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchMembers method.
        type WatchMembersStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::WatchMembersResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Streams the members of a group that the process is in: the present ones at once, then all of
        /// them after every change. Changes in quick succession may come as one. Lasts over a change of
        /// the group's agent.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, at once or when the process's membership ends;
        /// INVALID_ARGUMENT / NAME_INVALID.
        async fn watch_members(
            &self,
            request: tonic::Request<super::WatchMembersRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchMembersStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the TakePart method.
        type TakePartStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::TakePartResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Lets a member take part in its group's messages and operations for as long as the call lasts;
        /// streams what is delivered to it. The agent is never more messages ahead than the process has
        /// asked for: one that takes nothing makes the sources wait.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, at once or when the process's membership ends;
        /// INVALID_ARGUMENT / NAME_INVALID, ALREADY_EXISTS / SEAT_TAKEN, INVALID_ARGUMENT / FIELD_MISSING
        /// (no first request).
        async fn take_part(
            &self,
            request: tonic::Request<tonic::Streaming<super::TakePartRequest>>,
        ) -> std::result::Result<tonic::Response<Self::TakePartStream>, tonic::Status>;
        /// Server streaming response type for the OpenDirectPath method.
        type OpenDirectPathStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::OpenDirectPathResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Leaves a member's part in messages and operations to its process, which runs the message layer
        /// itself (docs/messages.md): the agent tells it the member's place, and carries frames between it
        /// and its neighbors. Made once, for as long as the membership lasts, in place of TakePart,
        /// SendMessage and RunOperation; when the call ends, the member takes no part any more.
        /// Errors: FAILED_PRECONDITION / NO_DIRECT_PATH (the node offers none, or `knows_trees` is missing
        /// in a group with another tree), NOT_FOUND / NOT_A_MEMBER, at once or when the process's
        /// membership ends; INVALID_ARGUMENT / NAME_INVALID,
        /// ALREADY_EXISTS / SEAT_TAKEN (it has taken part before), INVALID_ARGUMENT / FIELD_MISSING (no
        /// first request), INVALID_ARGUMENT / FRAME_INVALID (a frame that is not understood, or is not the
        /// member's own).
        async fn open_direct_path(
            &self,
            request: tonic::Request<tonic::Streaming<super::OpenDirectPathRequest>>,
        ) -> std::result::Result<
            tonic::Response<Self::OpenDirectPathStream>,
            tonic::Status,
        >;
        /// Lists who takes part, as far as the member knows, which takes part itself.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first), NOT_FOUND / NOT_A_MEMBER,
        /// INVALID_ARGUMENT / NAME_INVALID.
        async fn list_participants(
            &self,
            request: tonic::Request<super::ListParticipantsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListParticipantsResponse>,
            tonic::Status,
        >;
        /// Sends a message to all others who take part. A reliable one is answered when all have it,
        /// however long the slowest of them takes; a process's messages arrive in the order in which their
        /// calls began, so the next one begins when the last has been answered, unless their order is of
        /// no matter.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first, or it has ended), NOT_FOUND /
        /// NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / PAYLOAD_TOO_LONG,
        /// INVALID_ARGUMENT / RANGE_INVALID, FAILED_PRECONDITION / NO_SHARED_MEMORY (a range without
        /// ShareMemory).
        async fn send_message(
            &self,
            request: tonic::Request<super::SendMessageRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendMessageResponse>,
            tonic::Status,
        >;
        /// Runs a collective operation with the others who take part; their calls are matched in their
        /// order. A call that is given up still counts.
        /// Errors: FAILED_PRECONDITION / TAKES_NO_PART (TakePart first, or it has ended), NOT_FOUND /
        /// NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / FIELD_MISSING,
        /// INVALID_ARGUMENT / PAYLOAD_TOO_LONG, INVALID_ARGUMENT / RANGE_INVALID, FAILED_PRECONDITION /
        /// NO_SHARED_MEMORY (a range without ShareMemory), INVALID_ARGUMENT / CONTRIBUTION_INVALID,
        /// FAILED_PRECONDITION / OPERATION_RUNNING (the member's last one has not ended),
        /// FAILED_PRECONDITION / OPERATIONS_DIFFER, ABORTED / MEMBERS_FAILED (its metadata `failed` names
        /// their ranks).
        async fn run_operation(
            &self,
            request: tonic::Request<super::RunOperationRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RunOperationResponse>,
            tonic::Status,
        >;
        /// Asks that switches combine what the members of a group contribute: the group gets a collective
        /// with a switch tree, if switches have the entries for it. Operations use the tree once the
        /// switches hold it and the agents know, some seconds later, while exactly the members take part
        /// that the group had then. It ends when a member joins or leaves, so members ask once all have
        /// joined. All of them may: they get the same tree.
        /// Errors: NOT_FOUND / NOT_A_MEMBER, INVALID_ARGUMENT / NAME_INVALID, FAILED_PRECONDITION /
        /// NO_AGGREGATION (the node is on no emulated fabric), UNAVAILABLE / PEER_UNAVAILABLE, and those
        /// of CollectiveService.RequestSwitchTree.
        async fn request_switch_tree(
            &self,
            request: tonic::Request<super::ProcessServiceRequestSwitchTreeRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ProcessServiceRequestSwitchTreeResponse>,
            tonic::Status,
        >;
    }
    /// Service of an operating agent for the processes of its machine, at a Unix domain socket and at no
    /// network address. Every process that may open the socket may attach. If the agent has rules for
    /// processes (docs/security.md), any call of a process without a rule, and any that names a group
    /// which its tenant may not use, is refused with PERMISSION_DENIED / NOT_PERMITTED. A process
    /// attaches first and names its session in every further call. However the call that attached it
    /// ends, by the process's will or by its death, the agent takes the process out of every group it is
    /// in. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and one that names a session
    /// with NOT_FOUND / UNKNOWN_SESSION (none such, or it has ended) or PERMISSION_DENIED /
    /// SESSION_NOT_YOURS (another user's or tenant's). The promises of messages and operations are in
    /// docs/messages.md.
    #[derive(Debug)]
    pub struct ProcessServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> ProcessServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for ProcessServiceServer<T>
    where
        T: ProcessService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.ProcessService/ListLocalNodes" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::list_local_nodes(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/AttachProcess" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::attach_process(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/ShareMemory" => {
                    #[allow(non_camel_case_types)]
                    struct ShareMemorySvc<T: ProcessService>(pub Arc<T>);
                    impl<
                        T: ProcessService,
                    > tonic::server::StreamingService<super::ShareMemoryRequest>
                    for ShareMemorySvc<T> {
                        type Response = super::ShareMemoryResponse;
                        type ResponseStream = T::ShareMemoryStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::ShareMemoryRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ProcessService>::share_memory(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ShareMemorySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.ProcessService/ReserveMembers" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::reserve_members(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/JoinGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::join_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/LeaveGroup" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::leave_group(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/ListMembers" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::list_members(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/WatchMembers" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::watch_members(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/TakePart" => {
                    #[allow(non_camel_case_types)]
                    struct TakePartSvc<T: ProcessService>(pub Arc<T>);
                    impl<
                        T: ProcessService,
                    > tonic::server::StreamingService<super::TakePartRequest>
                    for TakePartSvc<T> {
                        type Response = super::TakePartResponse;
                        type ResponseStream = T::TakePartStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::TakePartRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ProcessService>::take_part(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = TakePartSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.ProcessService/OpenDirectPath" => {
                    #[allow(non_camel_case_types)]
                    struct OpenDirectPathSvc<T: ProcessService>(pub Arc<T>);
                    impl<
                        T: ProcessService,
                    > tonic::server::StreamingService<super::OpenDirectPathRequest>
                    for OpenDirectPathSvc<T> {
                        type Response = super::OpenDirectPathResponse;
                        type ResponseStream = T::OpenDirectPathStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::OpenDirectPathRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ProcessService>::open_direct_path(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = OpenDirectPathSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.ProcessService/ListParticipants" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::list_participants(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/SendMessage" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::send_message(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/RunOperation" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::run_operation(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.ProcessService/RequestSwitchTree" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as ProcessService>::request_switch_tree(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for ProcessServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.ProcessService";
    impl<T> tonic::server::NamedService for ProcessServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Scheme of choices. Under another scheme the same numbers mean something else, or nothing.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RouteChoiceScheme {
    /// Required. Name of the engine, such as mr4lms.
    #[prost(string, tag = "1")]
    pub engine: ::prost::alloc::string::String,
    /// Required. Entries of a multicast table.
    #[prost(uint32, tag = "2")]
    pub color_count: u32,
    /// Required. Kind of the switches' tables: per port or per switch.
    #[prost(enumeration = "TableKind", tag = "3")]
    pub tables: i32,
    /// Required. Part of the fabric in which dynamic roots are looked for, tn or tn-group.
    #[prost(string, tag = "4")]
    pub root_scope: ::prost::alloc::string::String,
    /// Required. SHA-256 of the topology, as the TIC lets it be downloaded.
    #[prost(bytes = "vec", tag = "5")]
    pub topology_sha256: ::prost::alloc::vec::Vec<u8>,
    /// Optional. True if groups have two trees, and spanning trees are numbered in pairs.
    #[prost(bool, tag = "6")]
    pub fault_tolerant: bool,
}
/// Choices of the engine for one group that it could not make again from topology, faults and groups
/// alone.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RouteChoice {
    /// Required. Group number.
    #[prost(uint64, tag = "1")]
    pub gn: u64,
    /// Required. Choices, one for each tree of the group.
    #[prost(message, repeated, tag = "2")]
    pub trees: ::prost::alloc::vec::Vec<TreeChoice>,
}
/// One tree that was chosen. The meaning of the numbers is the engine's affair.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TreeChoice {
    /// Required. Number of the tree in the group, from 0; at most 255.
    #[prost(uint32, tag = "1")]
    pub tree: u32,
    /// Required. The part of the plan that it is in.
    #[prost(uint32, tag = "2")]
    pub part: u32,
    /// Required. The root, as the engine numbers roots.
    #[prost(uint32, tag = "3")]
    pub root: u32,
    /// Optional. The ports of the tree where they do not follow from the rest, each switch once.
    #[prost(message, repeated, tag = "4")]
    pub ports: ::prost::alloc::vec::Vec<SwitchPorts>,
    /// Optional. The group that shares the tree and has its ports in its own choice; 0 if there is
    /// none.
    #[prost(uint64, tag = "5")]
    pub ports_gn: u64,
}
/// Ports of one switch.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SwitchPorts {
    /// Required. Node id of the switch.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Physical port numbers, rising.
    #[prost(uint32, repeated, tag = "2")]
    pub ports: ::prost::alloc::vec::Vec<u32>,
}
/// Request of RecordRouteChoices: one message of several.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RecordRouteChoicesRequest {
    /// Required in the first message, not looked at in others. Term of the route service and number of
    /// the call, which grows within a term: a call that comes after a newer one is refused.
    #[prost(message, optional, tag = "1")]
    pub fence: ::core::option::Option<Fence>,
    /// Required in the first message, not looked at in others. Scheme of the choices. If it is not
    /// the scheme recorded, all choices recorded are dropped first.
    #[prost(message, optional, tag = "2")]
    pub scheme: ::core::option::Option<RouteChoiceScheme>,
    /// Required in the first message, not looked at in others. The failed parts that the choices go
    /// round: all of them.
    #[prost(message, repeated, tag = "3")]
    pub failed_elements: ::prost::alloc::vec::Vec<Element>,
    /// Optional, not looked at but in the first message. Revision of the records that the choices were
    /// made from. If it is the newest, choices of groups that are gone are dropped; until then they
    /// are kept, since other groups may share a tree with them.
    #[prost(uint64, tag = "4")]
    pub seen_revision: u64,
    /// Optional. Choices of groups that have none recorded, or others.
    #[prost(message, repeated, tag = "5")]
    pub changed: ::prost::alloc::vec::Vec<RouteChoice>,
    /// Optional. Groups of which there is nothing to record any more.
    #[prost(uint64, repeated, tag = "6")]
    pub removed_gns: ::prost::alloc::vec::Vec<u64>,
    /// Required in the last message, and only there.
    #[prost(bool, tag = "7")]
    pub last: bool,
}
/// Response of RecordRouteChoices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct RecordRouteChoicesResponse {
    /// Number of groups that have choices recorded.
    #[prost(uint32, tag = "1")]
    pub group_count: u32,
}
/// Request of ListRouteChoices.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListRouteChoicesRequest {
    /// Optional. Most groups in one answer; 0 means 1000, more than 10000 means 10000.
    #[prost(uint32, tag = "1")]
    pub page_size: u32,
    /// Optional. Token of the previous answer.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
}
/// Response of ListRouteChoices.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListRouteChoicesResponse {
    /// Scheme of the choices; left out if none were recorded.
    #[prost(message, optional, tag = "1")]
    pub scheme: ::core::option::Option<RouteChoiceScheme>,
    /// The failed parts that the choices go round.
    #[prost(message, repeated, tag = "2")]
    pub failed_elements: ::prost::alloc::vec::Vec<Element>,
    /// The choices.
    #[prost(message, repeated, tag = "3")]
    pub choices: ::prost::alloc::vec::Vec<RouteChoice>,
    /// Token of the next page; empty at the end.
    #[prost(string, tag = "4")]
    pub next_page_token: ::prost::alloc::string::String,
}
/// Generated client implementations.
pub mod route_choice_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Keeps what engines chose and cannot compute again, for the next route service; served by the TIC.
    /// Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes something
    /// with RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a queue; nothing was
    /// changed), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated).
    #[derive(Debug, Clone)]
    pub struct RouteChoiceServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl RouteChoiceServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> RouteChoiceServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> RouteChoiceServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            RouteChoiceServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// The route service says what it has chosen, before it programs it: what differs from the choices
        /// recorded, in as many messages as are needed. All of it is durable once answered, or none of it.
        /// Safe to repeat.
        /// Errors: ABORTED / STALE_TERM, ABORTED / STALE_FENCE, INVALID_ARGUMENT / FIELD_MISSING,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / COLOR_OUT_OF_RANGE, INVALID_ARGUMENT /
        /// CHOICE_INVALID, NOT_FOUND / UNKNOWN_ELEMENT, FAILED_PRECONDITION / TOPOLOGY_DIFFERS,
        /// DEADLINE_EXCEEDED / REQUEST_TOO_SLOW.
        pub async fn record_route_choices(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::RecordRouteChoicesRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::RecordRouteChoicesResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.RouteChoiceService/RecordRouteChoices",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new(
                        "fabricast.v1.RouteChoiceService",
                        "RecordRouteChoices",
                    ),
                );
            self.inner.client_streaming(req, path, codec).await
        }
        /// Lists the choices recorded, ordered by GN.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        pub async fn list_route_choices(
            &mut self,
            request: impl tonic::IntoRequest<super::ListRouteChoicesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListRouteChoicesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.RouteChoiceService",
                "ListRouteChoices",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteChoiceService/ListRouteChoices",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod route_choice_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with RouteChoiceServiceServer.
    #[async_trait]
    pub trait RouteChoiceService: std::marker::Send + std::marker::Sync + 'static {
        /// The route service says what it has chosen, before it programs it: what differs from the choices
        /// recorded, in as many messages as are needed. All of it is durable once answered, or none of it.
        /// Safe to repeat.
        /// Errors: ABORTED / STALE_TERM, ABORTED / STALE_FENCE, INVALID_ARGUMENT / FIELD_MISSING,
        /// INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / COLOR_OUT_OF_RANGE, INVALID_ARGUMENT /
        /// CHOICE_INVALID, NOT_FOUND / UNKNOWN_ELEMENT, FAILED_PRECONDITION / TOPOLOGY_DIFFERS,
        /// DEADLINE_EXCEEDED / REQUEST_TOO_SLOW.
        async fn record_route_choices(
            &self,
            request: tonic::Request<tonic::Streaming<super::RecordRouteChoicesRequest>>,
        ) -> std::result::Result<
            tonic::Response<super::RecordRouteChoicesResponse>,
            tonic::Status,
        >;
        /// Lists the choices recorded, ordered by GN.
        /// Errors: INVALID_ARGUMENT / PAGE_TOKEN_INVALID.
        async fn list_route_choices(
            &self,
            request: tonic::Request<super::ListRouteChoicesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListRouteChoicesResponse>,
            tonic::Status,
        >;
    }
    /// Keeps what engines chose and cannot compute again, for the next route service; served by the TIC.
    /// Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN, and any that changes something
    /// with RESOURCE_EXHAUSTED / LIMIT_REACHED (a bound of the records or of a queue; nothing was
    /// changed), RESOURCE_EXHAUSTED / STORE_FULL (the store has no space left) or INTERNAL /
    /// STORE_FAILED (whether it was changed is known when the call is repeated).
    #[derive(Debug)]
    pub struct RouteChoiceServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> RouteChoiceServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for RouteChoiceServiceServer<T>
    where
        T: RouteChoiceService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.RouteChoiceService/RecordRouteChoices" => {
                    #[allow(non_camel_case_types)]
                    struct RecordRouteChoicesSvc<T: RouteChoiceService>(pub Arc<T>);
                    impl<
                        T: RouteChoiceService,
                    > tonic::server::ClientStreamingService<
                        super::RecordRouteChoicesRequest,
                    > for RecordRouteChoicesSvc<T> {
                        type Response = super::RecordRouteChoicesResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::RecordRouteChoicesRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RouteChoiceService>::record_route_choices(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RecordRouteChoicesSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.client_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.RouteChoiceService/ListRouteChoices" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteChoiceService>::list_route_choices(
                                    &inner,
                                    request,
                                )
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for RouteChoiceServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.RouteChoiceService";
    impl<T> tonic::server::NamedService for RouteChoiceServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Request of GetRouteStatus.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct GetRouteStatusRequest {}
/// Response of GetRouteStatus.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetRouteStatusResponse {
    /// Engine that computes the trees.
    #[prost(string, tag = "1")]
    pub engine: ::prost::alloc::string::String,
    /// Term and generation of the plan.
    #[prost(message, optional, tag = "2")]
    pub fence: ::core::option::Option<Fence>,
    /// Newest revision of the TIC's records taken in.
    #[prost(uint64, tag = "3")]
    pub seen_revision: u64,
    /// Revision that the switches are programmed for.
    #[prost(uint64, tag = "4")]
    pub routed_revision: u64,
    /// Groups with a hardware route.
    #[prost(uint32, tag = "5")]
    pub routed_groups: u32,
    /// Groups without a hardware route; nothing can be sent in them.
    #[prost(uint32, tag = "6")]
    pub unicast_only_groups: u32,
    /// Virtual groups.
    #[prost(uint32, tag = "7")]
    pub virtual_groups: u32,
    /// Largest number of groups whose packets cross one link between switches (EFI).
    #[prost(uint32, tag = "8")]
    pub max_efi: u32,
    /// Mean EFI over the links between switches that carry a group.
    #[prost(double, tag = "9")]
    pub mean_efi: f64,
    /// Largest number of groups that share one tree (TFI).
    #[prost(uint32, tag = "10")]
    pub max_tfi: u32,
    /// Mean TFI over the groups.
    #[prost(double, tag = "11")]
    pub mean_tfi: f64,
    /// Largest number of entries used in one table.
    #[prost(uint32, tag = "12")]
    pub used_entries: u32,
    /// Entries a table has (C).
    #[prost(uint32, tag = "13")]
    pub colors: u32,
    /// Time of the last computation, in microseconds.
    #[prost(uint64, tag = "14")]
    pub last_compute_us: u64,
    /// Time of the last programming round, in microseconds.
    #[prost(uint64, tag = "15")]
    pub last_program_us: u64,
    /// Error of the last round; empty if none.
    #[prost(string, tag = "16")]
    pub last_error: ::prost::alloc::string::String,
    /// Table entries the switches hold.
    #[prost(uint64, tag = "17")]
    pub programmed_entries: u64,
    /// Irregularities of the fat tree.
    #[prost(string, repeated, tag = "18")]
    pub irregularities: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// The switches hold exactly the tables that the TIC's newest records ask for, nothing waits to be
    /// taken away, packets were walked through the plan of every group, and the TIC knows every route
    /// and has recorded every choice of the engine.
    #[prost(bool, tag = "19")]
    pub settled: bool,
    /// Groups have two trees, of which one may fail.
    #[prost(bool, tag = "20")]
    pub fault_tolerant: bool,
    /// Groups that have only one of their two trees left.
    #[prost(uint32, tag = "21")]
    pub unprotected_groups: u32,
    /// This route service is the one at work; where it is not, it waits for the term of the other, and
    /// says nothing here but where that one is.
    #[prost(bool, tag = "22")]
    pub active: bool,
    /// Address of the route service at work, host:port, if it is another one and known; ask
    /// there.
    #[prost(string, tag = "23")]
    pub active_address: ::prost::alloc::string::String,
    /// Policy of the choice among equally good roots; empty: the engine's own order.
    #[prost(string, tag = "24")]
    pub root_policy: ::prost::alloc::string::String,
    /// Reason why port loads are missing or old at a policy that looks at them; empty if they are not.
    #[prost(string, tag = "25")]
    pub load_problem: ::prost::alloc::string::String,
    /// Readings of port counters since this route service got its term; 0 where nobody looks at them.
    #[prost(uint64, tag = "26")]
    pub load_readings: u64,
    /// Groups without a route because their planned trees do not reach all members that they ought to
    /// reach.
    #[prost(uint32, tag = "27")]
    pub missing_groups: u32,
    /// Newest revision of the TIC's records; 0 while the TIC does not answer.
    #[prost(uint64, tag = "28")]
    pub newest_revision: u64,
}
/// Request of ExplainRoute.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ExplainRouteRequest {
    /// Required. Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
}
/// Response of ExplainRoute.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ExplainRouteResponse {
    /// The explanation.
    #[prost(message, optional, tag = "1")]
    pub explanation: ::core::option::Option<RouteExplanation>,
}
/// Explanation of a group's route.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RouteExplanation {
    /// Name of the group.
    #[prost(string, tag = "1")]
    pub group: ::prost::alloc::string::String,
    /// MGID whose spanning tree the group is planned on: its own, unless the TIC has moved it.
    #[prost(uint32, tag = "2")]
    pub mgid: u32,
    /// Color in use; absent without a hardware route.
    #[prost(uint32, optional, tag = "3")]
    pub color: ::core::option::Option<u32>,
    /// Spanning tree the MGID maps to; 0 where the engine's MGIDs stand for none.
    #[prost(uint32, tag = "4")]
    pub home_spanning_tree: u32,
    /// Spanning tree in use; absent without a hardware route, and where MGIDs stand for none.
    #[prost(uint32, optional, tag = "5")]
    pub spanning_tree: ::core::option::Option<u32>,
    /// Virtual group.
    #[prost(uint32, optional, tag = "6")]
    pub virtual_group: ::core::option::Option<u32>,
    /// Root switch of the tree; empty without one.
    #[prost(string, tag = "7")]
    pub root: ::prost::alloc::string::String,
    /// Groups that share the tree, by name, without this one.
    #[prost(string, repeated, tag = "8")]
    pub shares_with: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// The links, one line each: switch, port, peer, port.
    #[prost(message, repeated, tag = "9")]
    pub links: ::prost::alloc::vec::Vec<TreeLink>,
    /// Reason why the group is not at home or not routed; empty otherwise.
    #[prost(string, tag = "10")]
    pub reason: ::prost::alloc::string::String,
    /// Member endpoints that no live link reaches.
    #[prost(string, repeated, tag = "11")]
    pub cut_off_endpoints: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// One link of a tree.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TreeLink {
    /// Switch at one end.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Its port.
    #[prost(uint32, tag = "2")]
    pub port: u32,
    /// Switch or endpoint at the other end.
    #[prost(string, tag = "3")]
    pub peer: ::prost::alloc::string::String,
    /// Its port; 0 for an endpoint.
    #[prost(uint32, tag = "4")]
    pub peer_port: u32,
    /// Tree that it belongs to: 0, or 1 for the second one with fault tolerance. Links of endpoints
    /// belong to both.
    #[prost(uint32, tag = "5")]
    pub tree: u32,
}
/// Request of DownloadRecording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DownloadRecordingRequest {
    /// Optional. True to get the files of `recording_folder`; without that setting there are none.
    #[prost(bool, tag = "1")]
    pub files: bool,
}
/// Response of DownloadRecording.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DownloadRecordingResponse {
    /// The next bytes of the file.
    #[prost(bytes = "vec", tag = "1")]
    pub part: ::prost::alloc::vec::Vec<u8>,
    /// Name of the file, if files were asked for; they come one after the other.
    #[prost(string, tag = "2")]
    pub file: ::prost::alloc::string::String,
}
/// Request of ListTableDrifts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListTableDriftsRequest {}
/// Response of ListTableDrifts.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListTableDriftsResponse {
    /// The newest ones, at most 256, oldest first. They are forgotten when the route service ends.
    #[prost(message, repeated, tag = "1")]
    pub drifts: ::prost::alloc::vec::Vec<TableDrift>,
    /// Number of drifts since this route service got its term.
    #[prost(uint64, tag = "2")]
    pub drift_count: u64,
    /// Tables that were read back and compared since then, each as often as it was read.
    #[prost(uint64, tag = "3")]
    pub compared_tables: u64,
    /// Time since tables were compared last; left out if never.
    #[prost(message, optional, tag = "4")]
    pub compared_ago: ::core::option::Option<::prost_types::Duration>,
}
/// A switch that did not hold what it had confirmed.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableDrift {
    /// Node id of the switch.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Time since that was seen.
    #[prost(message, optional, tag = "2")]
    pub seen_ago: ::core::option::Option<::prost_types::Duration>,
    /// Time since the switch confirmed the right entries again; left out as long as it has not.
    #[prost(message, optional, tag = "3")]
    pub repaired_ago: ::core::option::Option<::prost_types::Duration>,
    /// Entries that were gone.
    #[prost(uint32, tag = "4")]
    pub missing_entries: u32,
    /// Entries that nobody had written.
    #[prost(uint32, tag = "5")]
    pub extra_entries: u32,
    /// Entries that led elsewhere.
    #[prost(uint32, tag = "6")]
    pub altered_entries: u32,
}
/// Request of PlanRebalance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PlanRebalanceRequest {
    /// Most moves, up to 1000; 0 is 100.
    #[prost(uint32, tag = "1")]
    pub most_moves: u32,
}
/// Response of PlanRebalance.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanRebalanceResponse {
    /// The moves, those of the most crowded trees first. None if no group would be better off
    /// elsewhere.
    #[prost(message, repeated, tag = "1")]
    pub moves: ::prost::alloc::vec::Vec<PlannedMove>,
    /// The plan without these moves.
    #[prost(message, optional, tag = "2")]
    pub before: ::core::option::Option<RebalanceFigures>,
    /// The plan with all of them.
    #[prost(message, optional, tag = "3")]
    pub after: ::core::option::Option<RebalanceFigures>,
    /// Not all groups were looked at; after these moves there may be more.
    #[prost(bool, tag = "4")]
    pub partial: bool,
}
/// A move, and what it gains after those before it.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct PlannedMove {
    /// The group and the homes.
    #[prost(message, optional, tag = "1")]
    pub r#move: ::core::option::Option<GroupMove>,
    /// Number of the spanning tree that the group gets.
    #[prost(uint32, tag = "2")]
    pub spanning_tree: u32,
    /// Groups that get a route by it.
    #[prost(uint32, tag = "3")]
    pub newly_routed_groups: u32,
    /// Links that packets cross less, if each group sends one; negative if newly routed groups take
    /// more.
    #[prost(int64, tag = "4")]
    pub saved_links: i64,
}
/// Figures of a plan.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct RebalanceFigures {
    /// Groups with a tree.
    #[prost(uint32, tag = "1")]
    pub routed_groups: u32,
    /// Sum of the EFI of all links: those that packets cross if each group sends one.
    #[prost(uint64, tag = "2")]
    pub crossed_links: u64,
    /// Largest number of groups whose packets cross one link between switches (EFI).
    #[prost(uint32, tag = "3")]
    pub max_efi: u32,
    /// Mean EFI over the links between switches that carry a group.
    #[prost(double, tag = "4")]
    pub mean_efi: f64,
    /// Largest number of groups that share one tree (TFI).
    #[prost(uint32, tag = "5")]
    pub max_tfi: u32,
    /// Mean TFI over the trees.
    #[prost(double, tag = "6")]
    pub mean_tfi: f64,
}
/// Request of PlanFaults.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanFaultsRequest {
    /// Optional. Parts that would fail.
    #[prost(message, repeated, tag = "1")]
    pub failed: ::prost::alloc::vec::Vec<Element>,
    /// Optional. Parts that would work again. Both lists have 1 to 1000 elements together.
    #[prost(message, repeated, tag = "2")]
    pub healed: ::prost::alloc::vec::Vec<Element>,
    /// Optional. Name of the group whose links are wanted; the other groups are told without them.
    /// Default: the first group of the answer that would have a tree.
    #[prost(string, tag = "3")]
    pub links_of: ::prost::alloc::string::String,
    /// Optional. Name of a group: only groups whose names come after it are listed. With the last name
    /// of an answer that lists not all changes, the next ones follow.
    #[prost(string, tag = "4")]
    pub after_group: ::prost::alloc::string::String,
}
/// Response of PlanFaults.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PlanFaultsResponse {
    /// Groups with another route or other members cut off, by name, at most 1000.
    #[prost(message, repeated, tag = "1")]
    pub changes: ::prost::alloc::vec::Vec<RouteChange>,
    /// Number of all such groups.
    #[prost(uint32, tag = "2")]
    pub changed_groups: u32,
    /// The plan as it is.
    #[prost(message, optional, tag = "3")]
    pub before: ::core::option::Option<PlanFigures>,
    /// The plan as it would be.
    #[prost(message, optional, tag = "4")]
    pub after: ::core::option::Option<PlanFigures>,
}
/// A route now, and as it would be.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct RouteChange {
    /// The route now.
    #[prost(message, optional, tag = "1")]
    pub before: ::core::option::Option<RouteExplanation>,
    /// The route as it would be.
    #[prost(message, optional, tag = "2")]
    pub after: ::core::option::Option<RouteExplanation>,
    /// Number of its members.
    #[prost(uint32, tag = "3")]
    pub member_count: u32,
}
/// Figures of a plan.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct PlanFigures {
    /// Groups with a tree.
    #[prost(uint32, tag = "1")]
    pub routed_groups: u32,
    /// Largest number of groups whose packets cross one link between switches (EFI).
    #[prost(uint32, tag = "2")]
    pub max_efi: u32,
    /// Mean EFI over the links between switches that carry a group.
    #[prost(double, tag = "3")]
    pub mean_efi: f64,
    /// Largest number of groups that share one tree (TFI).
    #[prost(uint32, tag = "4")]
    pub max_tfi: u32,
    /// Mean TFI over the trees.
    #[prost(double, tag = "5")]
    pub mean_tfi: f64,
    /// Largest number of entries used in one table.
    #[prost(uint32, tag = "6")]
    pub used_entries: u32,
}
/// Request of ListLinkLoads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListLinkLoadsRequest {}
/// Response of ListLinkLoads.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListLinkLoadsResponse {
    /// Switches with a link that carries a group, by node id.
    #[prost(message, repeated, tag = "1")]
    pub switches: ::prost::alloc::vec::Vec<SwitchLinkLoads>,
}
/// The links of a switch that carry groups. A link between two switches is listed at one of them.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SwitchLinkLoads {
    /// Node id.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Ports of the links, rising.
    #[prost(uint32, repeated, tag = "2")]
    pub ports: ::prost::alloc::vec::Vec<u32>,
    /// Groups whose packets cross the link at the port in the same place.
    #[prost(uint32, repeated, tag = "3")]
    pub groups: ::prost::alloc::vec::Vec<u32>,
}
/// Generated client implementations.
pub mod route_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Route service: computes trees, programs switches. Any call may also be refused with UNAVAILABLE /
    /// SHUTTING_DOWN. Where there are several route services, one is at work; the others answer
    /// GetRouteStatus with its address alone, and refuse the other calls with UNAVAILABLE / NOT_LEADER,
    /// whose facts name it, too.
    #[derive(Debug, Clone)]
    pub struct RouteServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl RouteServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> RouteServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> RouteServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            RouteServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Says how far the route service has come and what the plan looks like as a whole.
        /// Errors: none of its own.
        pub async fn get_route_status(
            &mut self,
            request: impl tonic::IntoRequest<super::GetRouteStatusRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetRouteStatusResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "GetRouteStatus");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/GetRouteStatus",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Explains the route of one group: color, tree, links, whom it shares the tree with.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, UNAVAILABLE / NOT_LEADER.
        pub async fn explain_route(
            &mut self,
            request: impl tonic::IntoRequest<super::ExplainRouteRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExplainRouteResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "ExplainRoute");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/ExplainRoute",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists where switches were found to hold something else than they had confirmed, now and before.
        /// Errors: UNAVAILABLE / NOT_LEADER.
        pub async fn list_table_drifts(
            &mut self,
            request: impl tonic::IntoRequest<super::ListTableDriftsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTableDriftsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "ListTableDrifts");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/ListTableDrifts",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Looks for groups that would be better off on other spanning trees, as groups get theirs one
        /// after the other; changes nothing. TicService.MoveGroups makes such moves. Takes up to some
        /// seconds.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED (also if too many such calls wait already),
        /// FAILED_PRECONDITION / NO_HOMES where the engine chooses trees itself, UNAVAILABLE / NOT_LEADER.
        pub async fn plan_rebalance(
            &mut self,
            request: impl tonic::IntoRequest<super::PlanRebalanceRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanRebalanceResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "PlanRebalance");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/PlanRebalance",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Plans the routes that groups would have if some parts of the fabric failed or worked again;
        /// changes nothing. Takes up to some seconds.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, NOT_FOUND / UNKNOWN_ELEMENT, FAILED_PRECONDITION /
        /// NOT_PREDICTABLE where the plan cannot be made again, RESOURCE_EXHAUSTED / LIMIT_REACHED (also
        /// if too many such calls wait already), UNAVAILABLE / NOT_LEADER.
        pub async fn plan_faults(
            &mut self,
            request: impl tonic::IntoRequest<super::PlanFaultsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanFaultsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "PlanFaults");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/PlanFaults",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the links that carry groups, with the number of groups whose packets cross each (EFI).
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED (too many such calls wait already), UNAVAILABLE /
        /// NOT_LEADER.
        pub async fn list_link_loads(
            &mut self,
            request: impl tonic::IntoRequest<super::ListLinkLoadsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListLinkLoadsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.RouteService", "ListLinkLoads");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.RouteService/ListLinkLoads",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Returns the recording of the latest inputs, a file for `fabricast debug replay`, in parts of
        /// 1 MiB at most; or the files of `recording_folder`, which a route service that stands by has,
        /// too.
        /// Errors: UNAVAILABLE / NOT_LEADER, FAILED_PRECONDITION / NOTHING_RECORDED; none for files.
        pub async fn download_recording(
            &mut self,
            request: impl tonic::IntoRequest<super::DownloadRecordingRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::DownloadRecordingResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.RouteService/DownloadRecording",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.RouteService", "DownloadRecording"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod route_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with RouteServiceServer.
    #[async_trait]
    pub trait RouteService: std::marker::Send + std::marker::Sync + 'static {
        /// Says how far the route service has come and what the plan looks like as a whole.
        /// Errors: none of its own.
        async fn get_route_status(
            &self,
            request: tonic::Request<super::GetRouteStatusRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetRouteStatusResponse>,
            tonic::Status,
        >;
        /// Explains the route of one group: color, tree, links, whom it shares the tree with.
        /// Errors: NOT_FOUND / UNKNOWN_GROUP, UNAVAILABLE / NOT_LEADER.
        async fn explain_route(
            &self,
            request: tonic::Request<super::ExplainRouteRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ExplainRouteResponse>,
            tonic::Status,
        >;
        /// Lists where switches were found to hold something else than they had confirmed, now and before.
        /// Errors: UNAVAILABLE / NOT_LEADER.
        async fn list_table_drifts(
            &self,
            request: tonic::Request<super::ListTableDriftsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTableDriftsResponse>,
            tonic::Status,
        >;
        /// Looks for groups that would be better off on other spanning trees, as groups get theirs one
        /// after the other; changes nothing. TicService.MoveGroups makes such moves. Takes up to some
        /// seconds.
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED (also if too many such calls wait already),
        /// FAILED_PRECONDITION / NO_HOMES where the engine chooses trees itself, UNAVAILABLE / NOT_LEADER.
        async fn plan_rebalance(
            &self,
            request: tonic::Request<super::PlanRebalanceRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanRebalanceResponse>,
            tonic::Status,
        >;
        /// Plans the routes that groups would have if some parts of the fabric failed or worked again;
        /// changes nothing. Takes up to some seconds.
        /// Errors: INVALID_ARGUMENT / FIELD_MISSING, NOT_FOUND / UNKNOWN_ELEMENT, FAILED_PRECONDITION /
        /// NOT_PREDICTABLE where the plan cannot be made again, RESOURCE_EXHAUSTED / LIMIT_REACHED (also
        /// if too many such calls wait already), UNAVAILABLE / NOT_LEADER.
        async fn plan_faults(
            &self,
            request: tonic::Request<super::PlanFaultsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PlanFaultsResponse>,
            tonic::Status,
        >;
        /// Lists the links that carry groups, with the number of groups whose packets cross each (EFI).
        /// Errors: RESOURCE_EXHAUSTED / LIMIT_REACHED (too many such calls wait already), UNAVAILABLE /
        /// NOT_LEADER.
        async fn list_link_loads(
            &self,
            request: tonic::Request<super::ListLinkLoadsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListLinkLoadsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the DownloadRecording method.
        type DownloadRecordingStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::DownloadRecordingResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /// Returns the recording of the latest inputs, a file for `fabricast debug replay`, in parts of
        /// 1 MiB at most; or the files of `recording_folder`, which a route service that stands by has,
        /// too.
        /// Errors: UNAVAILABLE / NOT_LEADER, FAILED_PRECONDITION / NOTHING_RECORDED; none for files.
        async fn download_recording(
            &self,
            request: tonic::Request<super::DownloadRecordingRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::DownloadRecordingStream>,
            tonic::Status,
        >;
    }
    /// Route service: computes trees, programs switches. Any call may also be refused with UNAVAILABLE /
    /// SHUTTING_DOWN. Where there are several route services, one is at work; the others answer
    /// GetRouteStatus with its address alone, and refuse the other calls with UNAVAILABLE / NOT_LEADER,
    /// whose facts name it, too.
    #[derive(Debug)]
    pub struct RouteServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> RouteServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for RouteServiceServer<T>
    where
        T: RouteService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.RouteService/GetRouteStatus" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::get_route_status(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/ExplainRoute" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::explain_route(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/ListTableDrifts" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::list_table_drifts(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/PlanRebalance" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::plan_rebalance(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/PlanFaults" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::plan_faults(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/ListLinkLoads" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::list_link_loads(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.RouteService/DownloadRecording" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as RouteService>::download_recording(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for RouteServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.RouteService";
    impl<T> tonic::server::NamedService for RouteServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Request of ListSwitches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListSwitchesRequest {}
/// Response of ListSwitches.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListSwitchesResponse {
    /// The switches, ordered by node id.
    #[prost(message, repeated, tag = "1")]
    pub switches: ::prost::alloc::vec::Vec<Switch>,
}
/// Request of ReadTables.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadTablesRequest {
    /// Optional. Node ids; empty means all.
    #[prost(string, repeated, tag = "1")]
    pub switch_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Response of ReadTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadTablesResponse {
    /// The table of one switch.
    #[prost(message, optional, tag = "1")]
    pub table: ::core::option::Option<SwitchTable>,
}
/// Request of WriteTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteTablesRequest {
    /// Required. Term and generation of the writer.
    #[prost(message, optional, tag = "1")]
    pub fence: ::core::option::Option<Fence>,
    /// Required. Entries to write, at most one part per switch.
    #[prost(message, repeated, tag = "2")]
    pub writes: ::prost::alloc::vec::Vec<SwitchWrite>,
}
/// Response of WriteTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct WriteTablesResponse {
    /// Number of entries written.
    #[prost(uint64, tag = "1")]
    pub written_entries: u64,
    /// Switches whose part was refused; theirs changed nothing.
    #[prost(message, repeated, tag = "2")]
    pub refusals: ::prost::alloc::vec::Vec<SwitchRefusal>,
}
/// Request of ListPorts.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListPortsRequest {
    /// Required. Node id.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
}
/// Response of ListPorts.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListPortsResponse {
    /// The ports, ordered by number.
    #[prost(message, repeated, tag = "1")]
    pub ports: ::prost::alloc::vec::Vec<PortStatus>,
}
/// Request of ReadCounters.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadCountersRequest {
    /// Optional. Node ids; empty means all.
    #[prost(string, repeated, tag = "1")]
    pub switch_names: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
/// Response of ReadCounters.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ReadCountersResponse {
    /// The counters of one switch.
    #[prost(message, optional, tag = "1")]
    pub counters: ::core::option::Option<SwitchCounters>,
}
/// Generated client implementations.
pub mod switch_agent_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Switch agents: program one or many switches through a driver.
    #[derive(Debug, Clone)]
    pub struct SwitchAgentServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl SwitchAgentServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> SwitchAgentServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> SwitchAgentServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            SwitchAgentServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// Lists the switches of this agent.
        /// Errors: UNAVAILABLE / FABRIC_UNAVAILABLE.
        pub async fn list_switches(
            &mut self,
            request: impl tonic::IntoRequest<super::ListSwitchesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSwitchesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.SwitchAgentService",
                "ListSwitches",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.SwitchAgentService/ListSwitches",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reads the tables of some or all switches back from the hardware, a switch per message.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, UNAVAILABLE / FABRIC_UNAVAILABLE.
        pub async fn read_tables(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReadTablesResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.SwitchAgentService/ReadTables",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.SwitchAgentService", "ReadTables"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
        /// Writes entries to switches, a switch's part all or nothing. Safe to repeat.
        /// Errors: ABORTED / STALE_FENCE, FAILED_PRECONDITION / TERM_NOT_GRANTED, INVALID_ARGUMENT /
        /// FIELD_MISSING, UNAVAILABLE / FABRIC_UNAVAILABLE; a part that one switch refuses is named in the
        /// answer: UNKNOWN_SWITCH, SWITCH_DOWN, BAD_ENTRY or STALE_FENCE.
        pub async fn write_tables(
            &mut self,
            request: impl tonic::IntoRequest<super::WriteTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteTablesResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.SwitchAgentService",
                "WriteTables",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.SwitchAgentService/WriteTables",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the ports of one switch with state and counters.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT / FIELD_MISSING, UNAVAILABLE /
        /// FABRIC_UNAVAILABLE.
        pub async fn list_ports(
            &mut self,
            request: impl tonic::IntoRequest<super::ListPortsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListPortsResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.SwitchAgentService", "ListPorts");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.SwitchAgentService/ListPorts",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Reads the port counters of some or all switches, a switch per message; those that do not answer
        /// are left out.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, UNAVAILABLE / FABRIC_UNAVAILABLE, FAILED_PRECONDITION /
        /// NO_COUNTERS (the hardware has none that can be read; those of InfiniBand switches can be once a
        /// subnet manager has given LIDs).
        pub async fn read_counters(
            &mut self,
            request: impl tonic::IntoRequest<super::ReadCountersRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ReadCountersResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.SwitchAgentService/ReadCounters",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.SwitchAgentService", "ReadCounters"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod switch_agent_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with SwitchAgentServiceServer.
    #[async_trait]
    pub trait SwitchAgentService: std::marker::Send + std::marker::Sync + 'static {
        /// Lists the switches of this agent.
        /// Errors: UNAVAILABLE / FABRIC_UNAVAILABLE.
        async fn list_switches(
            &self,
            request: tonic::Request<super::ListSwitchesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSwitchesResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ReadTables method.
        type ReadTablesStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ReadTablesResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Reads the tables of some or all switches back from the hardware, a switch per message.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, UNAVAILABLE / FABRIC_UNAVAILABLE.
        async fn read_tables(
            &self,
            request: tonic::Request<super::ReadTablesRequest>,
        ) -> std::result::Result<tonic::Response<Self::ReadTablesStream>, tonic::Status>;
        /// Writes entries to switches, a switch's part all or nothing. Safe to repeat.
        /// Errors: ABORTED / STALE_FENCE, FAILED_PRECONDITION / TERM_NOT_GRANTED, INVALID_ARGUMENT /
        /// FIELD_MISSING, UNAVAILABLE / FABRIC_UNAVAILABLE; a part that one switch refuses is named in the
        /// answer: UNKNOWN_SWITCH, SWITCH_DOWN, BAD_ENTRY or STALE_FENCE.
        async fn write_tables(
            &self,
            request: tonic::Request<super::WriteTablesRequest>,
        ) -> std::result::Result<
            tonic::Response<super::WriteTablesResponse>,
            tonic::Status,
        >;
        /// Lists the ports of one switch with state and counters.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, INVALID_ARGUMENT / FIELD_MISSING, UNAVAILABLE /
        /// FABRIC_UNAVAILABLE.
        async fn list_ports(
            &self,
            request: tonic::Request<super::ListPortsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListPortsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the ReadCounters method.
        type ReadCountersStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ReadCountersResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /// Reads the port counters of some or all switches, a switch per message; those that do not answer
        /// are left out.
        /// Errors: NOT_FOUND / UNKNOWN_SWITCH, UNAVAILABLE / FABRIC_UNAVAILABLE, FAILED_PRECONDITION /
        /// NO_COUNTERS (the hardware has none that can be read; those of InfiniBand switches can be once a
        /// subnet manager has given LIDs).
        async fn read_counters(
            &self,
            request: tonic::Request<super::ReadCountersRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::ReadCountersStream>,
            tonic::Status,
        >;
    }
    /// Switch agents: program one or many switches through a driver.
    #[derive(Debug)]
    pub struct SwitchAgentServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> SwitchAgentServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for SwitchAgentServiceServer<T>
    where
        T: SwitchAgentService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.SwitchAgentService/ListSwitches" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAgentService>::list_switches(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.SwitchAgentService/ReadTables" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAgentService>::read_tables(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.SwitchAgentService/WriteTables" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAgentService>::write_tables(&inner, request)
                                .await
                        },
                    )
                }
                "/fabricast.v1.SwitchAgentService/ListPorts" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAgentService>::list_ports(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.SwitchAgentService/ReadCounters" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_stream(
                        limits,
                        req,
                        |request| async move {
                            <T as SwitchAgentService>::read_counters(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for SwitchAgentServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.SwitchAgentService";
    impl<T> tonic::server::NamedService for SwitchAgentServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Request of DrainLink.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DrainLinkRequest {
    /// Required. Node id of the switch at one end.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Node id of the switch at the other end.
    #[prost(string, tag = "2")]
    pub peer_switch_name: ::prost::alloc::string::String,
    /// Optional. Port of the first switch; left out, all links between the two are meant.
    #[prost(uint32, tag = "3")]
    pub port: u32,
    /// Optional. Only check, and answer with the links; nothing changes.
    #[prost(bool, tag = "4")]
    pub validate_only: bool,
}
/// Response of DrainLink.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct DrainLinkResponse {
    /// The links that are meant.
    #[prost(message, repeated, tag = "1")]
    pub links: ::prost::alloc::vec::Vec<DrainedLink>,
}
/// A drained link, or one that would be drained.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DrainedLink {
    /// One end.
    #[prost(message, optional, tag = "1")]
    pub end: ::core::option::Option<PortName>,
    /// The other end.
    #[prost(message, optional, tag = "2")]
    pub peer: ::core::option::Option<PortName>,
    /// Output only. Trees use it, as failures have left no other way. Set in answers of
    /// ListDrainedLinks only.
    #[prost(bool, tag = "3")]
    pub needed: bool,
}
/// Request of ResumeLink.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ResumeLinkRequest {
    /// Required. Node id of the switch at one end.
    #[prost(string, tag = "1")]
    pub switch_name: ::prost::alloc::string::String,
    /// Required. Node id of the switch at the other end.
    #[prost(string, tag = "2")]
    pub peer_switch_name: ::prost::alloc::string::String,
    /// Optional. Port of the first switch; left out, all links between the two are meant.
    #[prost(uint32, tag = "3")]
    pub port: u32,
}
/// Response of ResumeLink.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ResumeLinkResponse {
    /// The links that are meant.
    #[prost(message, repeated, tag = "1")]
    pub links: ::prost::alloc::vec::Vec<DrainedLink>,
}
/// Request of ListDrainedLinks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListDrainedLinksRequest {}
/// Response of ListDrainedLinks.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListDrainedLinksResponse {
    /// The drained links, in the order of the topology.
    #[prost(message, repeated, tag = "1")]
    pub links: ::prost::alloc::vec::Vec<DrainedLink>,
}
/// Request of ReportTopology: one message of several.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportTopologyRequest {
    /// The next piece of the text as ibnetdiscover prints it, cut at any byte; UTF-8 as a whole, at
    /// most 256 MiB.
    #[prost(bytes = "vec", tag = "1")]
    pub chunk: ::prost::alloc::vec::Vec<u8>,
    /// Required in the first message. Name of the reporting switch agent.
    #[prost(string, tag = "2")]
    pub reporter: ::prost::alloc::string::String,
}
/// Response of ReportTopology.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReportTopologyResponse {
    /// The topology from now on.
    #[prost(message, optional, tag = "1")]
    pub topology: ::core::option::Option<TopologySummary>,
    /// True if it is another one than before.
    #[prost(bool, tag = "2")]
    pub changed: bool,
}
/// Request of ReplaceTopology: one message of several.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReplaceTopologyRequest {
    /// As in ReportTopologyRequest.
    #[prost(bytes = "vec", tag = "1")]
    pub chunk: ::prost::alloc::vec::Vec<u8>,
}
/// Response of ReplaceTopology.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReplaceTopologyResponse {
    /// The topology from now on.
    #[prost(message, optional, tag = "1")]
    pub topology: ::core::option::Option<TopologySummary>,
    /// True if it is another one than before.
    #[prost(bool, tag = "2")]
    pub changed: bool,
}
/// A topology in short.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TopologySummary {
    /// SHA-256 of the text that DownloadTopology gives.
    #[prost(bytes = "vec", tag = "1")]
    pub sha256: ::prost::alloc::vec::Vec<u8>,
    /// Number of switches.
    #[prost(uint32, tag = "2")]
    pub switch_count: u32,
    /// Number of endpoints.
    #[prost(uint32, tag = "3")]
    pub endpoint_count: u32,
}
/// Generated client implementations.
pub mod topology_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /// Changes the topology that the TIC works with; served by the TIC. DownloadTopology of TicService
    /// reads it. A change ends all watches and whatever waits for the TIC, as a restart would: callers
    /// are refused with UNAVAILABLE / SHUTTING_DOWN or UNAVAILABLE / NOT_LEADER and call again. Groups,
    /// members and nodes stay. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN,
    /// RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing was changed), RESOURCE_EXHAUSTED / STORE_FULL (the
    /// store has no space left) or INTERNAL / STORE_FAILED (whether it was changed is known when the
    /// call is repeated).
    #[derive(Debug, Clone)]
    pub struct TopologyServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl TopologyServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> TopologyServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> TopologyServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            TopologyServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /// A switch agent says what it has found: what is new is added, and a cable that was found
        /// elsewhere is moved there. A part that was not found stays: it may have failed. Durable once
        /// answered. Safe to repeat. With certificates the reporter is the agent that the caller's
        /// certificate names.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / TOPOLOGY_INVALID,
        /// FAILED_PRECONDITION / TOPOLOGY_FIXED (the TIC has its topology from a file),
        /// FAILED_PRECONDITION / ENDPOINT_IN_USE (an endpoint of a node would be called otherwise),
        /// DEADLINE_EXCEEDED / REQUEST_TOO_SLOW (messages come too slowly).
        pub async fn report_topology(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::ReportTopologyRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::ReportTopologyResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.TopologyService/ReportTopology",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.TopologyService", "ReportTopology"),
                );
            self.inner.client_streaming(req, path, codec).await
        }
        /// Puts another topology in place of the known one, so that what is gone for good can be
        /// forgotten. Durable once answered. Safe to repeat.
        /// Errors: as for ReportTopology; FAILED_PRECONDITION / ENDPOINT_IN_USE if an endpoint of a node
        /// would be missing.
        pub async fn replace_topology(
            &mut self,
            request: impl tonic::IntoStreamingRequest<
                Message = super::ReplaceTopologyRequest,
            >,
        ) -> std::result::Result<
            tonic::Response<super::ReplaceTopologyResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/fabricast.v1.TopologyService/ReplaceTopology",
            );
            let mut req = request.into_streaming_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("fabricast.v1.TopologyService", "ReplaceTopology"),
                );
            self.inner.client_streaming(req, path, codec).await
        }
        /// An administrator wants to take links out of service: trees avoid them from now on, and those
        /// that use them move, make before break. Durable once answered, until the links are resumed. The
        /// links stay up, and carry what still comes. After a failure that leaves no other way they are
        /// used again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT (no such switch, or no link between them),
        /// FAILED_PRECONDITION / LINK_NEEDED (endpoints would be cut off).
        pub async fn drain_link(
            &mut self,
            request: impl tonic::IntoRequest<super::DrainLinkRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DrainLinkResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TopologyService", "DrainLink");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TopologyService/DrainLink",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Trees may use the links again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT.
        pub async fn resume_link(
            &mut self,
            request: impl tonic::IntoRequest<super::ResumeLinkRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeLinkResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new("fabricast.v1.TopologyService", "ResumeLink");
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TopologyService/ResumeLink",
                    method,
                    request.into_request(),
                )
                .await
        }
        /// Lists the drained links.
        /// Errors: none of its own.
        pub async fn list_drained_links(
            &mut self,
            request: impl tonic::IntoRequest<super::ListDrainedLinksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListDrainedLinksResponse>,
            tonic::Status,
        > {
            let method = GrpcMethod::new(
                "fabricast.v1.TopologyService",
                "ListDrainedLinks",
            );
            crate::calls::unary(
                    &mut self.inner,
                    "/fabricast.v1.TopologyService/ListDrainedLinks",
                    method,
                    request.into_request(),
                )
                .await
        }
    }
}
/// Generated server implementations.
pub mod topology_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with TopologyServiceServer.
    #[async_trait]
    pub trait TopologyService: std::marker::Send + std::marker::Sync + 'static {
        /// A switch agent says what it has found: what is new is added, and a cable that was found
        /// elsewhere is moved there. A part that was not found stays: it may have failed. Durable once
        /// answered. Safe to repeat. With certificates the reporter is the agent that the caller's
        /// certificate names.
        /// Errors: INVALID_ARGUMENT / NAME_INVALID, INVALID_ARGUMENT / TOPOLOGY_INVALID,
        /// FAILED_PRECONDITION / TOPOLOGY_FIXED (the TIC has its topology from a file),
        /// FAILED_PRECONDITION / ENDPOINT_IN_USE (an endpoint of a node would be called otherwise),
        /// DEADLINE_EXCEEDED / REQUEST_TOO_SLOW (messages come too slowly).
        async fn report_topology(
            &self,
            request: tonic::Request<tonic::Streaming<super::ReportTopologyRequest>>,
        ) -> std::result::Result<
            tonic::Response<super::ReportTopologyResponse>,
            tonic::Status,
        >;
        /// Puts another topology in place of the known one, so that what is gone for good can be
        /// forgotten. Durable once answered. Safe to repeat.
        /// Errors: as for ReportTopology; FAILED_PRECONDITION / ENDPOINT_IN_USE if an endpoint of a node
        /// would be missing.
        async fn replace_topology(
            &self,
            request: tonic::Request<tonic::Streaming<super::ReplaceTopologyRequest>>,
        ) -> std::result::Result<
            tonic::Response<super::ReplaceTopologyResponse>,
            tonic::Status,
        >;
        /// An administrator wants to take links out of service: trees avoid them from now on, and those
        /// that use them move, make before break. Durable once answered, until the links are resumed. The
        /// links stay up, and carry what still comes. After a failure that leaves no other way they are
        /// used again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT (no such switch, or no link between them),
        /// FAILED_PRECONDITION / LINK_NEEDED (endpoints would be cut off).
        async fn drain_link(
            &self,
            request: tonic::Request<super::DrainLinkRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DrainLinkResponse>,
            tonic::Status,
        >;
        /// Trees may use the links again. Repeated, it changes nothing.
        /// Errors: NOT_FOUND / UNKNOWN_ELEMENT.
        async fn resume_link(
            &self,
            request: tonic::Request<super::ResumeLinkRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeLinkResponse>,
            tonic::Status,
        >;
        /// Lists the drained links.
        /// Errors: none of its own.
        async fn list_drained_links(
            &self,
            request: tonic::Request<super::ListDrainedLinksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListDrainedLinksResponse>,
            tonic::Status,
        >;
    }
    /// Changes the topology that the TIC works with; served by the TIC. DownloadTopology of TicService
    /// reads it. A change ends all watches and whatever waits for the TIC, as a restart would: callers
    /// are refused with UNAVAILABLE / SHUTTING_DOWN or UNAVAILABLE / NOT_LEADER and call again. Groups,
    /// members and nodes stay. Any call may also be refused with UNAVAILABLE / SHUTTING_DOWN,
    /// RESOURCE_EXHAUSTED / LIMIT_REACHED (nothing was changed), RESOURCE_EXHAUSTED / STORE_FULL (the
    /// store has no space left) or INTERNAL / STORE_FAILED (whether it was changed is known when the
    /// call is repeated).
    #[derive(Debug)]
    pub struct TopologyServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> TopologyServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for TopologyServiceServer<T>
    where
        T: TopologyService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/fabricast.v1.TopologyService/ReportTopology" => {
                    #[allow(non_camel_case_types)]
                    struct ReportTopologySvc<T: TopologyService>(pub Arc<T>);
                    impl<
                        T: TopologyService,
                    > tonic::server::ClientStreamingService<super::ReportTopologyRequest>
                    for ReportTopologySvc<T> {
                        type Response = super::ReportTopologyResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::ReportTopologyRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TopologyService>::report_topology(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ReportTopologySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.client_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.TopologyService/ReplaceTopology" => {
                    #[allow(non_camel_case_types)]
                    struct ReplaceTopologySvc<T: TopologyService>(pub Arc<T>);
                    impl<
                        T: TopologyService,
                    > tonic::server::ClientStreamingService<
                        super::ReplaceTopologyRequest,
                    > for ReplaceTopologySvc<T> {
                        type Response = super::ReplaceTopologyResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<
                                tonic::Streaming<super::ReplaceTopologyRequest>,
                            >,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TopologyService>::replace_topology(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ReplaceTopologySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.client_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/fabricast.v1.TopologyService/DrainLink" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TopologyService>::drain_link(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TopologyService/ResumeLink" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TopologyService>::resume_link(&inner, request).await
                        },
                    )
                }
                "/fabricast.v1.TopologyService/ListDrainedLinks" => {
                    let limits = crate::calls::ServerLimits {
                        accept_compression: self.accept_compression_encodings,
                        send_compression: self.send_compression_encodings,
                        max_decoding: self.max_decoding_message_size,
                        max_encoding: self.max_encoding_message_size,
                    };
                    let inner = Arc::clone(&self.inner);
                    crate::calls::serve_unary(
                        limits,
                        req,
                        |request| async move {
                            <T as TopologyService>::list_drained_links(&inner, request)
                                .await
                        },
                    )
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for TopologyServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "fabricast.v1.TopologyService";
    impl<T> tonic::server::NamedService for TopologyServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}

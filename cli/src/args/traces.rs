//! Arguments of traces, which every verb and every part takes.

use clap::Args;

/// Where it is written down what comes of a command.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceArgs {
    /// Send traces to this collector, which speaks OTLP over gRPC, as http://host:port; also by
    /// FABRICAST_TELEMETRY__TRACES. A verb begins a trace of what comes of it in all parts that write traces.
    #[arg(long, global = true, value_name = "URL", help_heading = "Traces")]
    pub traces: Option<String>,
    /// Say the number of the verb's trace on standard error.
    #[arg(long, global = true, help_heading = "Traces")]
    pub trace_id: bool,
}

//! Choice of the traces that are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

/// The share of traces that are kept, which may change. A trace that another process has begun is
/// kept if that said so.
#[derive(Clone, Debug)]
pub(crate) struct Share(Arc<AtomicU64>);

impl Share {
    pub(crate) fn new(share: f64) -> Self {
        Self(Arc::new(AtomicU64::new(share.to_bits())))
    }

    pub(crate) fn set(&self, share: f64) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::ParentBased(Box::new(self.clone()))
    }

    /// Decides by the number of the trace, so that parts with the same share decide the same.
    fn keeps(&self, trace: TraceId) -> bool {
        Sampler::TraceIdRatioBased(f64::from_bits(self.0.load(Ordering::Relaxed)))
            .should_sample(None, trace, "", &SpanKind::Internal, &[], &[])
            .decision
            == SamplingDecision::RecordAndSample
    }
}

impl ShouldSample for Share {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        _name: &str,
        _kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let decision = match self.keeps(trace_id) {
            true => SamplingDecision::RecordAndSample,
            false => SamplingDecision::Drop,
        };
        let parent = parent.filter(|context| context.has_active_span());
        let trace_state = parent.map(|context| context.span().span_context().trace_state().clone());
        let trace_state: TraceState = trace_state.unwrap_or_default();
        SamplingResult { decision, attributes: Vec::new(), trace_state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_whole_or_not_at_all_and_may_change() {
        let traces = || {
            (1..=1_000_u64)
                .map(|n| TraceId::from(u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
        };
        let kept = |share: &Share| traces().filter(|trace| share.keeps(*trace)).count();
        let share = Share::new(1.0);
        assert_eq!(kept(&share), 1_000);
        let same = share.clone();
        same.set(0.0);
        assert_eq!(kept(&share), 0);
        share.set(0.25);
        assert!((150..350).contains(&kept(&same)), "{}", kept(&same));
    }
}

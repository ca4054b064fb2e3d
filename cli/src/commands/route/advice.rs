//! Advice on a plan, as `route plan` and `capacity advise` print it.

use fabricast_routing::{Advice, Comparison, Preference, RoutingCost};
use serde::Serialize;

/// One piece of advice; what has no meaning for it is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Advised {
    /// `per-switch`, `measured`, `estimated`, `not-tried`, `impossible` or `best`.
    kind: &'static str,
    /// The other engine, or the best one.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    /// Comparison with the requested engine: `better`, `worse`, `same` or `mixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    /// Cost of that engine's plan.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    figures: Option<Figures>,
    /// All of it in words.
    text: String,
}

/// The figures of the other engine.
#[derive(Debug, Serialize)]
struct Figures {
    unrouted: u32,
    cut_off: u32,
    virtual_groups: u32,
    max_tfi: u32,
    mean_tfi: f64,
    max_efi: u32,
    mean_efi: f64,
}

impl Advised {
    pub(crate) fn of(advice: &Advice) -> Self {
        let text = advice.to_string();
        match advice {
            Advice::PerSwitch(_) => Self { kind: "per-switch", text, ..Self::default() },
            Advice::Measured(Comparison { other, other_cost, verdict, .. }) => Self {
                kind: "measured",
                engine: Some(other.name()),
                verdict: Some(name(*verdict)),
                figures: Some(Figures::of(other_cost)),
                text,
            },
            Advice::Estimated(estimate) => Self {
                kind: "estimated",
                engine: Some(estimate.other.name()),
                verdict: Some(name(estimate.guess)),
                figures: None,
                text,
            },
            Advice::NotTried { engine } => {
                Self { kind: "not-tried", engine: Some(engine.name()), text, ..Self::default() }
            }
            Advice::Best(best) => Self {
                kind: "best",
                engine: Some(best.engine.name()),
                figures: Some(Figures::of(&best.cost)),
                text,
                ..Self::default()
            },
            Advice::Impossible { engine, .. } => {
                Self { kind: "impossible", engine: Some(engine.name()), text, ..Self::default() }
            }
        }
    }

    /// The advice as a line for people.
    pub(crate) fn line(&self) -> String {
        format!("advice: {}", self.text)
    }
}

impl Figures {
    fn of(cost: &RoutingCost) -> Self {
        let metrics = &cost.metrics;
        Self {
            unrouted: cost.unrouted,
            cut_off: cost.cut_off,
            virtual_groups: metrics.trees,
            max_tfi: metrics.max_tfi,
            mean_tfi: metrics.mean_tfi,
            max_efi: metrics.switch_links.max_efi,
            mean_efi: metrics.switch_links.mean_efi,
        }
    }
}

const fn name(preference: Preference) -> &'static str {
    match preference {
        Preference::Better => "better",
        Preference::Worse => "worse",
        Preference::Same => "same",
        Preference::Mixed => "mixed",
    }
}

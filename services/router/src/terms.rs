//! Term after term: waits for one, routes while it lasts, and stands back when another one has the next.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use fabricast_routing::{EngineKind, EngineOptions};
use tokio::sync::{mpsc, watch as live};

use crate::app::RunError;
use crate::control::{Control, Ended, Question};
use crate::counters::LoadReader;
use crate::outside::Outside;
use crate::standby::{Held, Standby};
use crate::watch::{self, Map};

/// Messages of the watch, and questions, that may wait for the control loop.
pub(crate) const QUEUE: usize = 1024;

/// How a route service is to go about its work.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What computes the trees.
    pub engine: EngineKind,
    /// Tables, and how the engine is to use them.
    pub engine_options: EngineOptions,
    /// How fast it is to go, and what else may change meanwhile.
    pub live: LiveSettings,
}

/// How fast a route service goes about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// How long old entries stay after senders were told a new color.
    pub drain: Duration,
    /// Time in which every table is read back and compared once.
    pub read_back: Duration,
    /// Tables that are read back in a second at most; where there are more, it takes longer.
    pub read_back_rate: u32,
    /// Time between two readings of all port counters, for engines whose root policy looks at loads.
    pub counter_interval: Duration,
}

/// What may change while a route service runs; a clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<live::Sender<Pacing>>);

impl LiveSettings {
    /// Begins with these.
    #[must_use]
    pub fn new(pacing: Pacing) -> Self {
        Self(Arc::new(live::Sender::new(pacing)))
    }

    /// Goes so fast from now on; what waits for a moment already waits for it.
    pub fn set_pacing(&self, pacing: Pacing) {
        self.0.send_replace(pacing);
    }

    pub(crate) fn pacing(&self) -> Pacing {
        *self.0.borrow()
    }
}

/// Routes, and nobody asks it anything, until it must not or cannot go on.
///
/// Its outside may be anything: this is how the simulation runs it.
///
/// - `name`: for those that wait for its term.
///
/// # Errors
///
/// [`RunError`]: the topology has changed or does not fit the policy.
pub async fn route_unasked<O: Outside>(
    outside: O,
    name: String,
    map: Map,
    policy: Policy,
) -> Result<(), RunError> {
    let (address, held) = (String::new(), Held::default()); // nobody asks
    let standby = Standby { outside, name, address, held };
    let (_asking, mut questions) = mpsc::channel(1);
    route(&standby, (&map, &policy), &mut questions, |_term| pending()).await
}

/// Waits for a term and routes while it lasts, one after the other.
///
/// - `beside`: what else is to be done in a term; when it ends, the term is over.
pub(crate) async fn route<O: Outside, F: Future<Output = ()>>(
    standby: &Standby<O>,
    (map, policy): (&Map, &Policy),
    questions: &mut mpsc::Receiver<Question>,
    beside: impl Fn(u64) -> F,
) -> Result<(), RunError> {
    loop {
        let (term, lease) = tokio::select! {
            biased;
            term = standby.acquire() => term,
            // Whoever asked when the last term ended.
            () = refuse(questions) => return Ok(()),
        };
        let (telling, mut news) = mpsc::channel(QUEUE);
        let work = async {
            let outside = standby.outside.clone();
            let (reader, loads) = LoadReader::new(outside.clone(), &map.graph, policy);
            let control = Control::start(outside, policy.clone(), (map, term), loads).await?;
            tokio::select! {
                biased;
                () = beside(term) => Err(Ended::Deposed),
                ended = control.run(&mut news, questions) => ended,
                () = watch::follow(&standby.outside, telling) => Ok(()),
                () = reader.run() => Ok(()),
            }
        };
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            () = standby.hold(term, lease) => Err(Ended::Deposed),
        };
        standby.step_back();
        match ended {
            Ok(()) => return Ok(()),
            Err(Ended::Failed(error)) => return Err(error),
            Err(Ended::Deposed) => {
                tracing::warn!(epoch = term, "another route service has taken over");
            }
        }
    }
}

/// Drops questions, so that whoever waits is told.
async fn refuse(questions: &mut mpsc::Receiver<Question>) {
    while let Some(question) = questions.recv().await {
        drop(question);
    }
    pending().await
}

//! How the route service and operating agents of a cluster are started.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_operating::{LocalSocket, Messages, NodeSpec};
use fabricast_rpc::Security;

use crate::cluster::text;
use crate::layout::Layout;
use crate::part::{Bound, Part};

pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than a busy machine makes a process wait, as a wrong verdict would spoil a test.
pub(crate) const DETECTOR: DetectorConfig = DetectorConfig::new(
    Duration::from_millis(1_500),
    Probing { timeout: Duration::from_millis(1_000), attempts: 1 },
);
/// Long enough for a new color to reach every sender: some reports and the calls they lead to.
pub(crate) const DRAIN: Duration = Duration::from_millis(400);

/// Short, so that tests need not wait long for loads.
pub(crate) const COUNTER_INTERVAL: Duration = Duration::from_millis(100);
/// The seats of the present life of a process of operating agents.
pub(crate) type Seats = Arc<Mutex<Option<Messages>>>;

pub(crate) async fn router(
    layout: &Layout,
    number: usize,
    tics: &[SocketAddr],
    switch_agents: Vec<String>,
) -> Part {
    let (layout, tics) = (layout.clone(), texts(tics));
    Part::start("router", move |listen| {
        let options = fabricast_router::Options {
            listen,
            security: Security::plaintext(),
            name: format!("router-{number}"),
            advertise: None,
            tic: tics.clone(),
            switch_agents: switch_agents.clone(),
            engine: layout.engine_is_named.then_some(layout.engine),
            engine_options: layout.engine_options(),
            pacing: fabricast_router::Pacing {
                drain: DRAIN,
                read_back: layout.read_back,
                read_back_rate: 1_000,
                counter_interval: COUNTER_INTERVAL,
            },
        };
        async {
            let app = fabricast_router::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

pub(crate) async fn operating_agent(
    name: String,
    nodes: Vec<NodeSpec>,
    (tics, fabric): (&[SocketAddr], SocketAddr),
    socket: LocalSocket,
) -> (Part, Seats) {
    let (tics, seats) = (texts(tics), Seats::default());
    let slot = seats.clone();
    let part = Part::start(&name, move |listen| {
        let options = fabricast_operating::Options {
            listen,
            advertise: None,
            security: Security::plaintext(),
            tic: tics.clone(),
            fabric: fabric.to_string(),
            nodes: nodes.clone(),
            socket: Some(socket.clone()),
            report_interval: REPORT_INTERVAL,
            detector: DETECTOR,
        };
        let slot = slot.clone();
        async move {
            let app = fabricast_operating::App::bind(options).map_err(text)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(app.messages());
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    });
    (part.await, seats)
}

fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

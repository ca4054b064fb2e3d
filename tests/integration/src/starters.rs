//! How the route service and operating agents of a cluster are started.

use std::net::SocketAddr;
use std::time::Duration;

use fabricast_operating::NodeSpec;

use crate::cluster::text;
use crate::layout::Layout;
use crate::part::{Bound, Part};

pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than a busy machine makes a process wait, as a wrong verdict would spoil a test.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_millis(1_500);
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Long enough for a new color to reach every sender: some reports and the calls they lead to.
pub(crate) const DRAIN: Duration = Duration::from_millis(400);

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
            name: format!("router-{number}"),
            tic: tics.clone(),
            switch_agents: switch_agents.clone(),
            engine: layout.engine,
            engine_options: layout.engine_options(),
            drain: DRAIN,
            read_back: layout.read_back,
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
    tics: &[SocketAddr],
    fabric: SocketAddr,
) -> Part {
    let tics = texts(tics);
    Part::start(&name, move |listen| {
        let options = fabricast_operating::Options {
            listen,
            tic: tics.clone(),
            fabric: fabric.to_string(),
            nodes: nodes.clone(),
            report_interval: REPORT_INTERVAL,
            report_timeout: REPORT_TIMEOUT,
            probe_timeout: PROBE_TIMEOUT,
        };
        async {
            let app = fabricast_operating::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

//! Every kind of container is killed, frozen or cut off while processes join and leave. After each
//! blow the work goes on by itself, nothing acknowledged is lost, and packets through the tables of
//! the switches reach exactly the members. How long it took to go on is printed.

#![expect(clippy::print_stdout, reason = "recovery times are for people")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_e2e::{Cluster, Load, Talk};
use fabricast_proto::v1::NodeState;

/// A cluster under load, and what was measured.
struct World {
    cluster: Cluster,
    load: Arc<Load>,
    talk: Arc<Talk>,
    /// Only the first blow to parts of each kind.
    short: bool,
}

/// Set to 1, only the first blow to parts of each kind is dealt.
const SHORT: &str = "FABRICAST_E2E_SHORT";

impl World {
    /// Reports how long it took to go on, and checks in peace that packets arrive.
    async fn after(&self, blow: &str, elapsed: Duration) {
        println!("e2e: {blow}: went on after {:.1} s", elapsed.as_secs_f64());
        self.talk.goes_on().await;
        let _peace = self.load.rests().await;
        self.cluster.delivers().await;
    }

    async fn tics(&mut self) {
        let cluster = &mut self.cluster;
        let leader = cluster.leading_tic().await;
        cluster.kill(&leader).await;
        let elapsed = self.load.goes_on().await;
        cluster.restart(&leader).await;
        self.after("the TIC that led was killed", elapsed).await;
        if self.short {
            return;
        }

        let leader = self.cluster.leading_tic().await;
        self.cluster.pause(&leader).await;
        let elapsed = self.load.goes_on().await;
        self.cluster.unpause(&leader).await;
        self.after("the TIC that led was frozen", elapsed).await;

        let leader = self.cluster.leading_tic().await;
        self.cluster.cut(&leader, "store").await;
        let elapsed = self.load.goes_on().await;
        self.cluster.mend(&leader, "store").await;
        self.after("the TIC that led was cut off from the etcds", elapsed).await;
    }

    async fn etcds(&mut self) {
        for member in &["etcd-0", "etcd-1", "etcd-2"][..if self.short { 1 } else { 3 }] {
            self.cluster.restart(member).await;
            let elapsed = self.load.goes_on().await;
            self.after(&format!("{member} was started again"), elapsed).await;
        }
        if self.short {
            return;
        }
        self.cluster.pause("etcd-1").await;
        let elapsed = self.load.goes_on().await;
        self.cluster.unpause("etcd-1").await;
        self.after("etcd-1 was frozen", elapsed).await;

        self.cluster.cut("etcd-0", "store").await;
        let elapsed = self.load.goes_on().await;
        self.cluster.mend("etcd-0", "store").await;
        self.after("etcd-0 was cut off from the others", elapsed).await;
    }

    /// An etcd that finds no room, whether it ends because of that at once or later, holds nobody
    /// up.
    async fn disk(&mut self) {
        self.cluster.fill().await;
        self.cluster.restart("etcd-2").await;
        let elapsed = self.load.goes_on().await;
        self.after("the disk of etcd-2 was full", elapsed).await;
        self.cluster.empty().await;
        self.cluster.restart("etcd-2").await;
        let elapsed = self.cluster.is_well("etcd-2").await;
        self.after("etcd-2 had room again", elapsed).await;
    }

    /// A TIC leads as well with a wrong clock as with a right one.
    async fn clock(&mut self) {
        // Backwards by less than certificates are issued back.
        for skew in &[3600, -240][..if self.short { 1 } else { 2 }] {
            self.cluster.skew("tic-1", *skew).await;
            self.cluster.is_well("tic-1").await;
            for other in ["tic-0", "tic-2"] {
                self.cluster.pause(other).await;
            }
            let elapsed = self.load.goes_on().await;
            assert_eq!(self.cluster.leading_tic().await, "tic-1");
            for other in ["tic-0", "tic-2"] {
                self.cluster.unpause(other).await;
            }
            self.after(&format!("a TIC led whose clock is {skew:+} s off"), elapsed).await;
        }
        self.cluster.skew("tic-1", 0).await;
    }

    async fn routers(&mut self) {
        let active = self.cluster.leading_router().await;
        self.cluster.kill(&active).await;
        let elapsed = self.cluster.routes("router killed").await;
        self.cluster.restart(&active).await;
        self.after("the route service at work was killed", elapsed).await;
        if self.short {
            return;
        }

        let active = self.cluster.leading_router().await;
        self.cluster.pause(&active).await;
        let elapsed = self.cluster.routes("router frozen").await;
        self.cluster.unpause(&active).await;
        self.after("the route service at work was frozen", elapsed).await;
    }

    async fn switches(&mut self) {
        for agent in &["switch-agent-0", "switch-agent-2"][..if self.short { 1 } else { 2 }] {
            self.cluster.restart(agent).await;
            let elapsed = self.cluster.routes(&format!("{agent} restarted")).await;
            self.after(&format!("{agent} was killed and started again"), elapsed).await;
        }
        if !self.short {
            self.cluster.cut("switch-agent-1", "management").await;
            self.load.goes_on().await;
            self.cluster.mend("switch-agent-1", "management").await;
            let elapsed = self.cluster.routes("switch agent back").await;
            self.after("switch-agent-1 was cut off and is back", elapsed).await;
        }

        // All tables are gone then.
        self.cluster.restart("fabric").await;
        let elapsed = self.cluster.routes("fabric restarted").await;
        self.after("the fabric was killed and started again", elapsed).await;
    }

    /// - `node-7` hosts the agent of the group that is loaded.
    async fn nodes(&mut self) {
        let started = Instant::now();
        self.cluster.kill("node-7").await;
        self.cluster.node_is("node-7", NodeState::Failed).await;
        println!(
            "e2e: node-7 is expelled {:.1} s after its death",
            started.elapsed().as_secs_f64()
        );
        let elapsed = self.load.goes_on().await;
        self.cluster.restart("node-7").await;
        self.cluster.node_is("node-7", NodeState::Up).await;
        self.after("the host of the group's agent was killed", elapsed).await;
        if self.short {
            return;
        }

        let started = Instant::now();
        self.cluster.pause("node-6").await;
        self.cluster.node_is("node-6", NodeState::Failed).await;
        self.cluster.unpause("node-6").await;
        self.cluster.node_is("node-6", NodeState::Up).await;
        self.after("node-6 was frozen until it was expelled", started.elapsed()).await;

        let started = Instant::now();
        // Off one of them only, it would still be heard by the agents of its groups.
        for network in ["management", "fabric"] {
            self.cluster.cut("node-5", network).await;
        }
        self.cluster.node_is("node-5", NodeState::Failed).await;
        for network in ["fabric", "management"] {
            self.cluster.mend("node-5", network).await;
        }
        self.cluster.node_is("node-5", NodeState::Up).await;
        self.after("node-5 was cut off until it was expelled", started.elapsed()).await;
    }

    async fn roll(&mut self) {
        let services = match self.short {
            true => &["tic-0", "router-0"][..],
            false => &["tic-0", "tic-1", "tic-2", "router-0", "router-1"],
        };
        for service in services {
            self.cluster.roll(service).await;
            let elapsed = self.load.goes_on().await;
            self.after(&format!("{service} was replaced"), elapsed).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a docker engine: cargo xtask e2e"]
async fn the_work_goes_on_whichever_container_dies_freezes_or_is_cut_off() {
    let cluster = Cluster::start().await;
    let load = Load::start(&cluster).await;
    load.goes_on().await;
    let talk = Talk::start(&cluster).await;
    talk.goes_on().await;
    let short = std::env::var_os(SHORT).is_some_and(|value| value == "1");
    let mut world = World { cluster, load, talk, short };
    world.tics().await;
    world.clock().await;
    world.etcds().await;
    world.disk().await;
    world.routers().await;
    world.switches().await;
    world.nodes().await;
    world.roll().await;
    println!("e2e: {} joins and leaves acknowledged", world.load.acknowledged());
    world.load.ends_as_acknowledged().await;
    let (sent, heard) = world.talk.ends(&world.cluster).await;
    println!("e2e: {heard} of {sent} packets arrived through the switches, none twice");
    let told = world.cluster.demo().await;
    println!("e2e: the demo after all that: {}", told.lines().last().unwrap_or_default());
    Cluster::end().await;
}

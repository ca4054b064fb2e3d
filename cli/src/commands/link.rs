//! `fabricast link`: links between switches, taken out of service and put back.

use clap::{Args, Subcommand, value_parser};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;

use crate::args::{Format, ServerArgs, WatchArgs};
use crate::command::{Globals, Run};
use crate::dry_run;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Take links between switches out of service for maintenance, and put them back.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Move all trees off the links between two switches, without losing packets. The links stay
    /// drained over restarts until they are resumed. Refused if that would cut endpoints off.
    Drain {
        #[command(flatten)]
        link: LinkArgs,
        /// Only print which groups would move; change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Let trees use drained links again.
    Resume(LinkArgs),
    /// List the drained links.
    List {
        #[command(flatten)]
        watch: WatchArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Links between two switches.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Node id of the switch at one end, such as S-ec0d9a0300ec8240.
    #[arg(value_name = "A")]
    from: String,
    /// Node id of the switch at the other end.
    #[arg(value_name = "B")]
    to: String,
    /// Port of A, where only one of several links is meant.
    #[arg(long, value_parser = value_parser!(u32).range(1..=254))]
    port: Option<u32>,
    #[command(flatten)]
    server: ServerArgs,
}

impl Run for LinkCommand {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let format = globals.format;
        block_on(async {
            match self {
                Self::Drain { link, dry_run } => drain(link, dry_run, format).await,
                Self::Resume(link) => {
                    let remote = Remote::new(&link.server)?;
                    let request = v1::ResumeLinkRequest {
                        switch_name: link.from,
                        peer_switch_name: link.to,
                        port: link.port.unwrap_or(0),
                    };
                    let answer = remote.answer(remote.topologies().resume_link(request)).await?;
                    output::message(format, &answer, |answer| {
                        format!("not drained: {}", names(&answer.links))
                    })
                }
                Self::List { watch, server } => {
                    let remote = Remote::new(&server)?;
                    output::watched(watch, format, async || {
                        let request = v1::ListDrainedLinksRequest {};
                        let mut tic = remote.topologies();
                        let answer = remote.answer(tic.list_drained_links(request)).await?;
                        output::message(format, &answer, |answer| list_text(&answer.links))
                    })
                    .await
                }
            }
        })
    }

    fn calls_running_parts(&self) -> bool {
        true
    }
}

async fn drain(link: LinkArgs, dry_run: bool, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&link.server)?;
    let request = v1::DrainLinkRequest {
        switch_name: link.from,
        peer_switch_name: link.to,
        port: link.port.unwrap_or(0),
        validate_only: dry_run,
    };
    let answer = remote.answer(remote.topologies().drain_link(request)).await?;
    if dry_run {
        let what = format!("drain {}", names(&answer.links));
        let ends = answer.links.into_iter().filter_map(|link| link.end);
        let failed = ends.map(|end| v1::Element { kind: Some(Kind::Link(end)) }).collect();
        let faults = v1::PlanFaultsRequest { failed, ..Default::default() };
        return dry_run::faults(&remote, faults, what, format).await;
    }
    output::message(format, &answer, |answer| {
        let links = names(&answer.links);
        format!("drained: {links}; `fabricast route status` says when all trees have moved")
    })
}

fn port(name: Option<&v1::PortName>) -> String {
    name.map_or_else(String::new, |name| format!("{}:{}", name.switch_name, name.port))
}

fn names(links: &[v1::DrainedLink]) -> String {
    links.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Both ends of a link, such as `S-1:3 - S-2:4`.
pub(super) fn name(link: &v1::DrainedLink) -> String {
    format!("{} - {}", port(link.end.as_ref()), port(link.peer.as_ref()))
}

fn list_text(links: &[v1::DrainedLink]) -> String {
    let mut rows = Rows::new(&["LINK", "PEER", "STATE"]);
    for link in links {
        let state = if link.needed { "in use, there is no other way" } else { "drained" };
        rows.push(vec![port(link.end.as_ref()), port(link.peer.as_ref()), state.to_owned()]);
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drained_link_that_is_needed_is_listed_so() {
        let end = |switch: &str, port| Some(v1::PortName { switch_name: switch.to_owned(), port });
        let link = v1::DrainedLink { end: end("S-1", 3), peer: end("S-2", 4), needed: true };
        assert_eq!(names(&[link.clone(), link.clone()]), "S-1:3 - S-2:4, S-1:3 - S-2:4");
        assert!(list_text(&[link]).ends_with("S-1:3  S-2:4  in use, there is no other way"));
    }
}

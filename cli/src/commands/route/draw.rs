//! `fabricast route draw`: the trees of a group on the fabric, as SVG.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fabricast_drawing::{Fabric, Overlay, draw};
use fabricast_proto::v1;

use super::GroupNameArgs;
use crate::args::{Format, ServerArgs};
use crate::commands::topology::{print_drawing, scope};
use crate::failure::Failure;
use crate::remote::Remote;

/// Options of `route draw`.
#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    group: GroupNameArgs,
    /// Draw the switches of one midplane, such as `cn-3` or `tn-0`; default: the whole fabric, by
    /// midplane if it is large.
    #[arg(long, value_name = "UNIT")]
    inside: Option<String>,
    /// Output file; default: standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Draws the trees of a group of a running control plane.
///
/// # Errors
///
/// An unknown group, or a server that does not answer.
pub(super) async fn run(args: &DrawArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let name = args.group.get().to_owned();
    let request = v1::GetGroupRequest { group: name.clone(), ..Default::default() };
    let group = remote.answer(remote.tic().get_group(request)).await?.group.unwrap_or_default();
    let request = v1::ExplainRouteRequest { group: name.clone() };
    let answer = remote.answer(remote.router().await?.explain_route(request)).await?;
    let route = answer.explanation.unwrap_or_default();
    let fabric = Fabric::new(Arc::new(remote.graph().await?));
    let mut overlay = Overlay::default();
    fabricast_console::tree_overlay(fabric.graph(), &route, &group.members, &mut overlay);
    let mut drawing = draw(&fabric, scope(&fabric, args.inside.as_deref())?, &overlay);
    drawing.title = format!("Group {name} on: {}", drawing.title);
    print_drawing(&drawing, args.out.as_deref(), format)
}

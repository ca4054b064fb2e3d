//! `fabricast collective constants`: the measured constants by which new groups get their trees.

use clap::Args;
use fabricast_collectives::Term;
use fabricast_proto::v1;
use fabricast_tic::decode_constants;

use crate::args::{Format, ServerArgs, WatchArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{self, Remote};

/// Options of `collective constants`.
#[derive(Debug, Args)]
pub(crate) struct ConstantsArgs {
    /// Forget them: groups that are created from now on have two below each member.
    #[arg(long, conflicts_with = "watch")]
    forget: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs `collective constants`.
///
/// # Errors
///
/// That of a failed call.
pub(super) async fn run(args: ConstantsArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    if args.forget {
        set(&remote, None).await?;
    }
    output::watched(args.watch, format, async || {
        let request = v1::GetTreeConstantsRequest {};
        let answer = remote.answer(remote.collectives().get_tree_constants(request)).await?;
        output::message(format, &answer, table)
    })
    .await
}

/// Gives the TIC constants, or lets it forget those that it has.
///
/// # Errors
///
/// That of a failed call.
pub(super) async fn set(
    remote: &Remote,
    constants: Option<v1::TreeConstants>,
) -> Result<(), Failure> {
    let request = v1::SetTreeConstantsRequest { constants };
    let set = remote::answer(remote.collectives().set_tree_constants(request)).await;
    set.map(drop).map_err(|error| remote.failed(error))
}

fn table(answer: &v1::GetTreeConstantsResponse) -> String {
    let Some(constants) = &answer.constants else {
        return "no constants were measured: new groups have two below each member, and adapter \
                trees are chosen by the constants of the settings, or by defaults"
            .to_owned();
    };
    let v1::TreeConstants { default_fields, measurement_count, r_squared, .. } = constants;
    let mut rows = Rows::new(&["CONSTANT", "VALUE", "NOTE"]);
    let parameters = decode_constants(constants);
    let terms = Term::ALL.map(|term| (term.field(), parameters.get(term)));
    for (name, value) in [("path_links", parameters.path_links)].into_iter().chain(terms) {
        let is_default = default_fields.iter().any(|field| field == name);
        let note = if is_default { "default, measured as 0" } else { "" };
        rows.push(vec![name.to_owned(), format!("{value:.6}"), note.to_owned()]);
    }
    format!("{rows}\n{measurement_count} measurements, R2 {r_squared:.4}")
}

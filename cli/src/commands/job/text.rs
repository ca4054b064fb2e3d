//! Output about jobs, with or without a control plane.

use serde::Serialize;

use crate::output::Rows;

/// One placed job.
#[derive(Debug, Serialize)]
pub(super) struct Placed {
    pub(super) job: String,
    pub(super) size: usize,
    pub(super) class: String,
    /// Unit of the fabric that holds the job.
    pub(super) place: String,
    /// Nodes of the job as a hostlist.
    pub(super) nodes: String,
}

/// Largest possible job of one class.
#[derive(Debug, Serialize)]
pub(super) struct Room {
    pub(super) class: String,
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) fits: u32,
    pub(super) after_moves: u32,
    pub(super) moves: Vec<Moving>,
}

/// A job that would have to move, from and to hostlists.
#[derive(Debug, Serialize)]
pub(super) struct Moving {
    pub(super) job: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// Fragmentation of the free nodes.
#[derive(Debug, Serialize)]
pub(super) struct Fragments {
    pub(super) live: u32,
    pub(super) free: u32,
    pub(super) classes: Vec<Room>,
}

/// Jobs as a table.
pub(super) fn jobs(placed: &[Placed]) -> String {
    let mut rows = Rows::new(&["JOB", "SIZE", "CLASS", "PLACE", "NODES"]);
    for job in placed {
        rows.push(vec![
            job.job.clone(),
            job.size.to_string(),
            job.class.clone(),
            job.place.clone(),
            job.nodes.clone(),
        ]);
    }
    rows.to_string()
}

/// The report as a table and the moves below it.
pub(super) fn report(report: &Fragments) -> String {
    let mut rows = Rows::new(&["CLASS", "SIZES", "FITS NOW", "AFTER MOVES", "MOVES"]);
    for room in &report.classes {
        rows.push(vec![
            room.class.clone(),
            format!("{}-{}", room.least, room.most),
            room.fits.to_string(),
            room.after_moves.to_string(),
            room.moves.len().to_string(),
        ]);
    }
    let mut text = format!("{} of {} nodes are free\n{rows}", report.free, report.live);
    for room in &report.classes {
        for one in &room.moves {
            let Moving { job, from, to } = one;
            text.push_str(&format!("\n{}: move job {job} from {from} to {to}", room.class));
        }
    }
    text
}

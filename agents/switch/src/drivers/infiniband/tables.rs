//! Reads and writes multicast tables, block by block, and checks every write.
//!
//! The hardware does not write several blocks atomically. So the old blocks are read first, and if
//! a block is not taken, those written before are restored: a switch holds all of its part or
//! nothing of it.

use fabricast_infiniband::{Attribute, Block, BlockPlace, Method, MulticastTable, Node};
use fabricast_proto::v1;
use thiserror::Error;

use super::packets::RequestError;
use super::reach::{Reach, Request};

/// The part of a table that Fabricast uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Table entry of color 0.
    pub(super) first: u16,
    /// Number of entries from there on.
    pub(super) colors: u16,
}

/// Reason why a table was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum TableError {
    #[error("the switch does not answer")]
    Unreachable,
    #[error("the switch refuses: {0}")]
    Refused(RequestError),
    #[error("the switch did not keep entries {first} to {last}; they hold what they held before")]
    NotKept { first: u16, last: u16 },
    #[error("the switch took a part of the write and could not be set back; its table is unknown")]
    Torn,
    #[error("color {color} is beyond the {colors} entries that may be used")]
    Color { color: u32, colors: u16 },
}

impl From<RequestError> for TableError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NoAnswer | RequestError::Gone => Self::Unreachable,
            RequestError::Refused(_) => Self::Refused(error),
        }
    }
}

/// Reads all entries in the window.
pub(super) async fn read(
    reach: &mut Reach<'_>,
    window: Window,
) -> Result<Vec<v1::TableEntry>, TableError> {
    let mut table = empty(reach.node(), window);
    let all = window.first..window.first + window.colors;
    let places = table.places_of(all.clone());
    for block in read_blocks(reach, &places).await? {
        table.put(&block);
    }
    let ours = table.used().filter(|(entry, _)| all.contains(entry));
    let entries = ours.map(|(entry, out)| v1::TableEntry {
        in_port: 0,
        color: u32::from(entry - window.first),
        out_ports: out.iter().filter(|port| *port != 0).map(u32::from).collect(),
    });
    Ok(entries.collect())
}

/// Writes entries, all or none.
pub(super) async fn write(
    reach: &mut Reach<'_>,
    window: Window,
    entries: &[v1::TableEntry],
) -> Result<(), TableError> {
    let mut table = empty(reach.node(), window);
    let numbers: Vec<u16> =
        entries.iter().map(|one| entry(window, one)).collect::<Result<_, _>>()?;
    let places = table.places_of(numbers.iter().copied());
    let before = read_blocks(reach, &places).await?;
    before.iter().for_each(|block| table.put(block));
    for (number, entry) in numbers.iter().zip(entries) {
        // The agent has checked the ports; one beyond the switch has no bit in the table.
        let ports = entry.out_ports.iter().filter_map(|port| u8::try_from(*port).ok());
        table.set(*number, ports.collect());
    }
    let after: Vec<Block> = places.iter().map(|place| table.block(*place)).collect();
    let changed = before.iter().zip(after).filter(|(before, after)| *before != after);
    let mut done: Vec<Block> = Vec::new();
    for (before, after) in changed {
        let kept = write_block(reach, &after).await;
        done.push(*before);
        if let Err(error) = kept {
            return Err(undo(reach, &done, error).await);
        }
    }
    Ok(())
}

/// Restores blocks after an error. Returns the error to report.
async fn undo(reach: &mut Reach<'_>, done: &[Block], error: TableError) -> TableError {
    for block in done.iter().rev() {
        if write_block(reach, block).await.is_err() {
            // If only the block without an answer was written, nothing may have changed.
            return if done.len() == 1 { error } else { TableError::Torn };
        }
    }
    error
}

async fn write_block(reach: &mut Reach<'_>, block: &Block) -> Result<(), TableError> {
    let request = Request { method: Method::Set, data: block.data(), ..get(block.place) };
    let mut answers = reach.request(&[request]).await;
    let data = answers.pop().unwrap_or(Err(RequestError::Gone))?;
    if Block::read(block.place, &data) == *block {
        return Ok(());
    }
    let first = block.place.entries * fabricast_infiniband::BLOCK_ENTRIES;
    let last = first + fabricast_infiniband::BLOCK_ENTRIES - 1;
    Err(TableError::NotKept { first, last })
}

async fn read_blocks(
    reach: &mut Reach<'_>,
    places: &[BlockPlace],
) -> Result<Vec<Block>, TableError> {
    let requests: Vec<Request> = places.iter().map(|place| get(*place)).collect();
    let answers = reach.request(&requests).await;
    let blocks = places.iter().zip(answers);
    blocks.map(|(place, answer)| Ok(Block::read(*place, &answer?))).collect()
}

const fn get(place: BlockPlace) -> Request {
    Request::get(Attribute::MulticastForwardingTable, place.modifier())
}

fn empty(node: &Node, window: Window) -> MulticastTable {
    let capacity = node.switch.map_or(0, |info| info.multicast_entries);
    // Whole blocks, so that the other entries of the last one are kept.
    let end = (window.first + window.colors).next_multiple_of(fabricast_infiniband::BLOCK_ENTRIES);
    MulticastTable::new(end.max(capacity), node.info.ports)
}

fn entry(window: Window, entry: &v1::TableEntry) -> Result<u16, TableError> {
    let color = u16::try_from(entry.color).ok().filter(|color| *color < window.colors);
    let error = TableError::Color { color: entry.color, colors: window.colors };
    color.map(|color| window.first + color).ok_or(error)
}

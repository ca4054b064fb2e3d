//! Checks of the numbers in a description.

use super::SpecError;

pub(super) fn positive(fields: &[(&'static str, u32)]) -> Result<(), SpecError> {
    match fields.iter().find(|(_, value)| *value == 0) {
        Some((field, _)) => Err(SpecError::Range { field, value: 0, rule: "at least 1".into() }),
        None => Ok(()),
    }
}

pub(super) fn at_most(field: &'static str, value: u32, most: u64) -> Result<u32, SpecError> {
    let fits = u64::from(value) <= most;
    let rule = || format!("at most {most}");
    fits.then_some(value).ok_or_else(|| SpecError::Range {
        field,
        value: value.into(),
        rule: rule(),
    })
}

pub(super) fn share(field: &'static str, links: u32, lanes: u32) -> Result<u32, SpecError> {
    let rule = || format!("a multiple of the {lanes} parallel links");
    let whole = links >= lanes && links.is_multiple_of(lanes);
    whole.then(|| links / lanes).ok_or_else(|| SpecError::Range {
        field,
        value: links.into(),
        rule: rule(),
    })
}

/// Most ports a switch can have: their numbers are bytes, 255 means "all" in InfiniBand.
const MOST_PORTS: u32 = 254;
/// Most switch ports of a fabric that fit the packed numbers of a graph.
const MOST_PORTS_IN_ALL: u64 = (1 << 31) - 1;

/// Switches of one kind.
pub(super) struct Level {
    /// Name of the switches in messages.
    pub(super) name: &'static str,
    pub(super) switches: u64,
    /// Ports that each needs.
    pub(super) needs: u64,
}

/// Returns the ports of every kind of switch: as many as `has` says, or as it needs.
pub(super) fn port_counts(levels: &[Level], has: Option<u8>) -> Result<Vec<u8>, SpecError> {
    let most = has.map_or(MOST_PORTS, u32::from);
    let mut counts = Vec::with_capacity(levels.len());
    let mut in_all = 0u64;
    for Level { name, switches, needs } in levels {
        if *needs > most.into() {
            return Err(SpecError::Ports { level: name, needs: *needs, has: most });
        }
        let count = has.unwrap_or(u8::try_from(*needs).expect("at most 254"));
        in_all = in_all.saturating_add(switches.saturating_mul(count.into()));
        counts.push(count);
    }
    if in_all > MOST_PORTS_IN_ALL {
        return Err(SpecError::TooLarge { ports: in_all, most: MOST_PORTS_IN_ALL });
    }
    Ok(counts)
}

//! R4: no entry number reaches C, checked at every write; tables and memberships agree, checked
//! whenever no change is in progress.

use fabricast_proto::v1;
use fabricast_routing::verify::{Options, Senders, verify};
use fabricast_topology::TableEntry;

use crate::routing::witness::Witness;

/// Checks the entries of a write.
pub(crate) fn is_in_bounds(colors: u16, entries: &[v1::TableEntry]) {
    for entry in entries {
        assert!(entry.color < colors.into(), "R4: entry {} of {colors} is written", entry.color);
    }
}

/// Walks all packets of the plan through the tables of the switches, by a verifier that knows no
/// engine.
pub(crate) fn tables_agree(witness: &Witness) {
    let row = |(key, out): (&(_, _, _), &_)| {
        let (switch, in_port, color) = *key;
        TableEntry { switch, in_port, color, out: *out }
    };
    let entries: Vec<TableEntry> = witness.rows.iter().map(row).collect();
    let options = Options {
        colors: witness.options.colors,
        tables: witness.options.tables,
        senders: Senders::All,
        list: 3,
    };
    let groups = witness.engine.delivery_groups();
    let report = verify(&witness.graph, witness.engine.faults(), &groups, &entries, options);
    assert!(report.is_clean(), "R4: tables in place are wrong: {:?}", report.violations);
    assert_eq!(report.unused_entries, 0, "R4: tables in place have entries that nobody needs");
}

//! Node ids of switches by their datapath ids, and back.

use std::collections::BTreeMap;

/// The switches that belong to the fabric.
#[derive(Clone, Debug)]
pub(super) enum Nodes {
    /// Those of a topology file.
    OfFile {
        /// Node ids by datapath id.
        names: BTreeMap<u64, String>,
        /// Datapath ids by node id.
        datapaths: BTreeMap<String, u64>,
    },
    /// All that connect, each with the node id that its datapath id makes.
    Discovered {
        /// Descriptions by datapath id.
        descriptions: BTreeMap<u64, String>,
    },
}

impl Nodes {
    /// - `names`: node ids by datapath id, of all switches of a topology file.
    pub(super) fn of_file(names: BTreeMap<u64, String>) -> Self {
        let datapaths = names.iter().map(|(datapath, name)| (name.clone(), *datapath)).collect();
        Self::OfFile { names, datapaths }
    }

    /// Node id of a switch; `None` if it does not belong to the fabric.
    pub(super) fn name(&self, datapath: u64) -> Option<String> {
        match self {
            Self::OfFile { names, .. } => names.get(&datapath).cloned(),
            Self::Discovered { .. } => Some(format!("S-{datapath:016x}")),
        }
    }

    /// Datapath id by node id.
    pub(super) fn datapath(&self, name: &str) -> Option<u64> {
        match self {
            Self::OfFile { datapaths, .. } => datapaths.get(name).copied(),
            Self::Discovered { .. } => u64::from_str_radix(name.strip_prefix("S-")?, 16).ok(),
        }
    }

    /// Description that the settings give a switch.
    pub(super) fn description(&self, datapath: u64) -> Option<&str> {
        match self {
            Self::OfFile { .. } => None,
            Self::Discovered { descriptions } => descriptions.get(&datapath).map(String::as_str),
        }
    }
}

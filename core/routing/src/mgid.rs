//! The address of a multicast group on the fabric.

use serde::{Deserialize, Serialize};

/// A multicast group's address; may be used again after the group is gone and its tables are clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mgid(pub u32);

//! The address of a multicast group on the fabric.

use serde::{Deserialize, Serialize};

/// Address of a multicast group; may be used again once the group has ended and no table holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mgid(pub u32);

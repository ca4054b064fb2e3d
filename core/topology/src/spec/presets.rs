//! Named fabrics: those of the papers, and one for demonstrations.

use super::TopologySpec;

/// A description with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// Description for users.
    pub what: &'static str,
    /// Its TOML, to be parsed or edited.
    pub toml: &'static str,
}

/// All presets, in the order of listings.
pub const PRESETS: [Preset; 8] = [
    Preset {
        name: "demo",
        what: "four-level fat tree, 2 048 endpoints: all of `paper`, just fewer of each",
        toml: "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 8\nspines_per_cn = 4\ntns_per_group = 2\n\
               blocks = 4\ncns_per_block = 4\nendpoints_per_leaf = 16\nswitch_ports = 40\n",
    },
    Preset {
        name: "paper",
        what: "the C-MR4LMS paper's (§4): 64 of 512 CNs, all 96 TNs, 32 768 endpoints",
        toml: "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 32\nspines_per_cn = 16\ntns_per_group = 6\n\
               blocks = 32\ncns_per_block = 16\ncns = 64\nendpoints_per_leaf = 16\n\
               switch_ports = 40\n",
    },
    Preset {
        name: "fat-tree",
        what: "three-level fat tree of 40-port switches, 16 000 endpoints (MR4LMS §4.2)",
        toml: "kind = 'k-ary-3-level'\nk = 40\n",
    },
    Preset {
        name: "bluelight",
        what: "as Sunway BlueLight, 8 704 endpoints, 8 paths to a core (MR4LMS §4.2)",
        toml: "kind = 'pruned-fat-tree'\nmidplanes = 34\nleaves = 16\nendpoints_per_leaf = 16\n\
               spines = 16\nuplinks_per_spine = 4\ncores = 8\nline_ports = 18\ncore_spines = 9\n\
               core_lanes = 2\nswitch_ports = 36\n",
    },
    Preset {
        name: "taihulight",
        what: "as Sunway TaihuLight, 40 960 endpoints, 2 paths to a core (MR4LMS §4.2)",
        toml: "kind = 'pruned-fat-tree'\nmidplanes = 160\nleaves = 16\nendpoints_per_leaf = 16\n\
               spines = 16\nuplinks_per_spine = 4\ncores = 32\nline_ports = 18\ncore_spines = 9\n\
               core_lanes = 2\nswitch_ports = 36\n",
    },
    Preset {
        name: "torus",
        what: "3-D torus 30x20x20, two endpoints per switch, 24 000 in all (MR4LMS §4.2)",
        toml: "kind = 'torus'\nx = 30\ny = 20\nz = 20\nendpoints_per_switch = 2\n",
    },
    Preset {
        name: "dragonfly",
        what: "dragonfly a = 18, p = h = 9: 163 groups, 26 406 endpoints (MR4LMS §4.2)",
        toml: "kind = 'dragonfly'\nrouters_per_group = 18\nendpoints_per_router = 9\n\
               global_links_per_router = 9\n",
    },
    Preset {
        name: "random",
        what: "2 048 switches of 40 ports, 20 linked by chance, 40 960 endpoints (MR4LMS §4.2)",
        toml: "kind = 'random-regular'\nswitches = 2048\nswitch_ports = 40\n\
               endpoints_per_switch = 20\n",
    },
];

impl TopologySpec {
    /// Returns the preset of a name.
    ///
    /// # Panics
    ///
    /// Never: a test parses all presets.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        Some(Self::parse(preset.toml).expect("every preset is a valid description"))
    }

    /// Returns the fabric the C-MR4LMS paper measured (§4): 64 of 512 CNs and all 96 TNs,
    /// 7 680 switches and 32 768 endpoints.
    #[must_use]
    pub fn paper() -> Self {
        Self::preset("paper").expect("it is listed")
    }

    /// Returns a four-level fabric of 2 048 endpoints and 256 switches for demonstrations:
    /// every part of the paper's fabric is there, just fewer of each.
    #[must_use]
    pub fn demo() -> Self {
        Self::preset("demo").expect("it is listed")
    }
}

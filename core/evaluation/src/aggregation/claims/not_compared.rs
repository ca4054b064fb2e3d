//! Statements in the text of the paper on aggregation trees that have no row.

use crate::claim::NotCompared;

/// Statements that have no row.
pub(in crate::aggregation) const NOT_COMPARED: [NotCompared; 17] = [
    NotCompared {
        what: "Curves of figures 4, 5, 12, 13, 15, 18, 19 and 20 beyond the numbers of the text",
        source: "aggregation trees, figures",
        why: "they are pictures whose values cannot be read",
    },
    NotCompared {
        what: "Widths and kinds of trees of the paper's machine",
        source: "aggregation trees tables 2, 3",
        why: "the tables are lost, and what a byte costs there is not published; ours stand in tables of that name",
    },
    NotCompared {
        what: "16 processes, 4-ary tree: 8 packets cross the top, 2 of a grouped tree of the same height",
        source: "aggregation trees §3.2.1, figure 7",
        why: "it is a drawing, of which `core/collectives/tests/paper.rs` asserts the 8, and 1 of ours",
    },
    NotCompared {
        what: "14 processes in 4 groups: height 4 plain, 3 with algorithm 2",
        source: "aggregation trees §3.3, figure 9",
        why: "the groups are not given; `core/collectives/tests/paper.rs` tries all that there are",
    },
    NotCompared {
        what: "13 switches of a tree of 16 processes: 4 are enough",
        source: "aggregation trees §4.2, figure 11",
        why: "it is a drawing, which `core/collectives` rebuilds in a test",
    },
    NotCompared {
        what: "Two trees over 8 processes, of height 3 and radius 12 that of adapters",
        source: "aggregation trees §2.1, figure 2",
        why: "it is a drawing; heights and radii of ours are tested in `core/collectives`",
    },
    NotCompared {
        what: "The model agrees with barriers, reductions and all-reduces as with broadcasts",
        source: "aggregation trees §2.3",
        why: "the text shows broadcasts only, and nothing of ours is measured; `fabricast collective fit` fits all four",
    },
    NotCompared {
        what: "In k-ary trees upper nodes wait for lower ones, in k-nomial trees they do not",
        source: "aggregation trees §3.2",
        why: "it follows from the numbers of children; `packets` and `simulated` have what comes of it",
    },
    NotCompared {
        what: "Algorithm 2 gives the lowest hierarchical k-nomial tree",
        source: "aggregation trees §3.3.2",
        why: "it is a theorem about slots, invariant AGG-3 of `docs/invariants.md`; of the processes alone the plain \
              construction is sometimes lower, and ours takes the lower of both",
    },
    NotCompared {
        what: "Algorithm 5 gives the tree of fewest switches",
        source: "aggregation trees §4.2",
        why: "it is a theorem, invariant AGG-4 of `docs/invariants.md`; the algorithm is lost and rebuilt",
    },
    NotCompared {
        what: "A communicator that gets no entry has a tree of adapters",
        source: "aggregation trees §5",
        why: "it is a rule, which `core/collectives/src/allocator/tests.rs` asserts",
    },
    NotCompared {
        what: "Roots are the switches nearest to all members, the least loaded first, all of whose switches have an entry",
        source: "aggregation trees §4.1",
        why: "it is the method, which the rows of figures 19 and 20 are made by; the text measures no load of roots",
    },
    NotCompared {
        what: "With still more processes hierarchical stays below 32-nomial",
        source: "aggregation trees §6.1.2",
        why: "it is expected, not measured",
    },
    NotCompared {
        what: "Reductions and barriers with noise",
        source: "aggregation trees §6.1.2",
        why: "table 4 and figure 15 are of broadcasts of 8 bytes",
    },
    NotCompared {
        what: "SHARP halves times at 4 096 nodes; BlueGene/Q has 12 trees on a node",
        source: "aggregation trees §1",
        why: "they are of other machines, and cited",
    },
    NotCompared {
        what: "Three levels and more supernodes give the same order",
        source: "aggregation trees §6.1.2",
        why: "the text gives no numbers",
    },
    NotCompared {
        what: "Reduction and broadcast of long messages, real programs",
        source: "aggregation trees §7",
        why: "it announces work",
    },
];

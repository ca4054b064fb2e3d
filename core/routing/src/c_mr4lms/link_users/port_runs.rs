//! Reads the ports of all marked links out of [`LinkUsers`].

use fabricast_topology::PortId;

use super::{LinkUsers, Links};
use crate::c_mr4lms::fabric::{Fabric, NONE, dense};
use crate::spt::SpanningTree;

/// Memory for ports as they are read out, and for the sets they belong to.
#[derive(Clone, Debug)]
pub(in crate::c_mr4lms) struct PortRuns {
    ports: Vec<PortId>, // as long as any that were needed so far
    end: usize,
    room: usize, // what one tree can have
    runs: Vec<Run>,
    from_cns: Vec<UpperEnd>,
    from_blocks: Vec<UpperEnd>,
}

/// Ports of one set: those from the end of the run before to this end.
#[derive(Clone, Copy, Debug)]
struct Run {
    set: u32,
    end: u32,
}

/// The upper end of a link, which waits until its switch has its turn.
#[derive(Clone, Copy, Debug)]
struct UpperEnd {
    below: u32,
    port: u32,
    user: u32,
}

impl PortRuns {
    pub(in crate::c_mr4lms) fn new(fabric: &Fabric) -> Self {
        let links = fabric.leaf_cn.len() + fabric.cn_block.len() + fabric.blocks();
        Self {
            ports: Vec::new(),
            end: 0,
            room: fabric.slots() + 2 * links,
            runs: Vec::new(),
            from_cns: Vec::new(),
            from_blocks: Vec::new(),
        }
    }

    /// Starts again with nothing read.
    pub(in crate::c_mr4lms) fn clear(&mut self) {
        self.end = 0;
        self.runs.clear();
    }

    /// Walks what was read, neighbours of one set together.
    pub(in crate::c_mr4lms) fn runs(&self) -> impl Iterator<Item = (u32, &[PortId])> {
        let mut first = 0;
        self.runs.iter().map(move |run| {
            let first = std::mem::replace(&mut first, run.end as usize);
            (run.set, &self.ports[first..run.end as usize])
        })
    }
}

/// Writes ports down. Made to be kept in registers.
struct RunWriter<'a> {
    ports: &'a mut [PortId],
    end: usize,
    set: u32, // of the ports written last
    runs: Vec<Run>,
    sets: &'a [u32], // by group
}

impl RunWriter<'_> {
    /// Goes on with the ports of the set of a group.
    #[inline]
    fn start(&mut self, group: u32) {
        let set = self.sets[group as usize];
        if set != self.set {
            self.stop();
            self.set = set;
        }
    }

    fn stop(&mut self) {
        if self.set != NONE {
            self.runs.push(Run { set: self.set, end: dense(self.end) });
        }
    }

    #[inline]
    fn write(&mut self, port: u32) {
        self.ports[self.end] = PortId(port);
        self.end += 1;
    }
}

impl LinkUsers {
    /// Reads all ports out, behind those read before, and clears the marks.
    ///
    /// They rise where midplanes have their switches in the order of the levels and blocks of
    /// numbers of their own, as generated fabrics have.
    pub(in crate::c_mr4lms) fn read_out(
        &mut self,
        fabric: &Fabric,
        tree: &SpanningTree,
        sets: &[u32],
        read: &mut PortRuns,
    ) {
        read.ports.resize(read.ports.len().max(read.end + read.room), PortId(0));
        let PortRuns { ports, end, runs, from_cns, from_blocks, .. } = read;
        let mut writer =
            RunWriter { ports, end: *end, set: NONE, runs: std::mem::take(runs), sets };
        let rows = fabric.rows(tree);
        let links = [0, 1, 2].map(|tier| fabric.tiers[tier].row(rows[tier]));
        for row in 0..self.rows.len() {
            if let Some(user) = self.only_set(row, sets) {
                writer.start(user);
                writer.end +=
                    self.read_whole_row(fabric, row, links[0], &mut writer.ports[writer.end..]);
            } else if self.used[row] != 0 {
                writer = self.read_row(fabric, row, links[0], writer);
            }
            let cn = self.rows[row].cn;
            if self.rows.get(row + 1).is_none_or(|next| next.cn != cn) {
                from_cns.extend(self.cns.finish(cn, links[1], &mut writer));
            }
        }
        let mut block = NONE;
        for end in from_cns.drain(..) {
            let above = fabric.cn_block[end.below as usize];
            if above != block {
                from_blocks.extend(self.blocks.finish(block, links[2], &mut writer));
                block = above;
            }
            writer.start(end.user);
            writer.write(end.port);
        }
        from_blocks.extend(self.blocks.finish(block, links[2], &mut writer));
        for end in from_blocks.drain(..) {
            writer.start(end.user);
            writer.write(end.port);
        }
        writer.stop();
        (*runs, *end) = (writer.runs, writer.end);
    }

    /// Gives a user of a row, if all that is used in it belongs to one set and leaves its leaf.
    fn only_set(&self, row: usize, sets: &[u32]) -> Option<u32> {
        let used = self.used[row];
        if used == 0 || self.mixed[row] != 0 || self.leaf_bits != 0 {
            return None;
        }
        let cells = &self.cells[self.rows[row].first as usize..];
        let first = cells[used.trailing_zeros() as usize].user;
        let set = sets[first as usize];
        let mut others = used & (used - 1);
        while others != 0 {
            if sets[cells[others.trailing_zeros() as usize].user as usize] != set {
                return None;
            }
            others &= others - 1;
        }
        Some(first)
    }

    /// Reads a row as [`Self::read_row`] does where there is but one set, and counts the ports.
    fn read_whole_row(
        &mut self,
        fabric: &Fabric,
        row: usize,
        links: &[(u32, u32)],
        ports: &mut [PortId],
    ) -> usize {
        let used = std::mem::take(&mut self.used[row]);
        let (first, count) = (self.rows[row].first as usize, 64 - used.leading_zeros() as usize);
        let cells = &mut self.cells[first..first + count];
        let links = &links[first..first + count];
        let slot_port =
            &fabric.slot_port[first << self.cell_bits..(first + count) << self.cell_bits];
        let mut end = 0;
        let mut rest = used;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let slot_port = &slot_port[at << self.cell_bits..];
            let mut slots = std::mem::take(&mut cells[at].slots);
            while slots != 0 {
                ports[end] = PortId(slot_port[slots.trailing_zeros() as usize]);
                end += 1;
                slots &= slots - 1;
            }
            ports[end] = PortId(links[at].0);
            end += 1;
        }
        rest = used;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            cells[at].user = NONE;
            ports[end] = PortId(links[at].1);
            end += 1;
        }
        end
    }

    /// Reads the ports of a row of leaves, and those that their links lead to.
    fn read_row<'a>(
        &mut self,
        fabric: &Fabric,
        row: usize,
        links: &[(u32, u32)],
        mut writer: RunWriter<'a>,
    ) -> RunWriter<'a> {
        let (first, cell_bits, leaf_bits) =
            (self.rows[row].first as usize, self.cell_bits, self.leaf_bits);
        let cells = &mut self.cells[first..];
        let links = links.get(first >> leaf_bits..).unwrap_or(&[]);
        let slot_port = &fabric.slot_port[first << cell_bits..];
        let within = &mut self.within[first << cell_bits..];
        let mixed = std::mem::take(&mut self.mixed[row]);
        let mut used = self.used[row];
        while used != 0 {
            let at = used.trailing_zeros() as usize;
            used &= used - 1;
            let leaf = at >> leaf_bits;
            let user = cells[leaf << leaf_bits].user;
            if user != NONE {
                writer.start(user);
            }
            let mut slots = cells[at].slots;
            while slots != 0 {
                let slot = (at << cell_bits) + slots.trailing_zeros() as usize;
                slots &= slots - 1;
                if mixed >> at & 1 == 1 {
                    let within = std::mem::take(&mut within[slot]);
                    writer.start(if within == 0 { user } else { within - 1 });
                }
                writer.write(slot_port[slot]);
            }
            if cells[at].user != NONE {
                writer.start(user);
                writer.write(links[leaf].0);
            }
        }
        let mut used = std::mem::take(&mut self.used[row]);
        while used != 0 {
            let at = used.trailing_zeros() as usize;
            used &= used - 1;
            let cell = &mut cells[at];
            cell.slots = 0;
            let user = std::mem::replace(&mut cell.user, NONE);
            if user != NONE {
                writer.start(user);
                writer.write(links[at >> leaf_bits].1);
            }
        }
        writer
    }
}

impl Links {
    /// Reads out the lower end of a link, whose switch has had all others, and gives the upper one.
    fn finish(
        &mut self,
        at: u32,
        links: &[(u32, u32)],
        writer: &mut RunWriter<'_>,
    ) -> Option<UpperEnd> {
        let user = std::mem::replace(self.users.get_mut(at as usize)?, NONE);
        if user == NONE {
            return None;
        }
        let (lower, upper) = links[at as usize];
        writer.start(user);
        writer.write(lower);
        Some(UpperEnd { below: at, port: upper, user })
    }
}

//! Whose time has come: found without looking at every node that is hosted.

use fabricast_groups::agent::GaHost;
use fabricast_groups::ids::Moment;
use fabricast_groups::names::NodeName;

use super::{Hosted, State};

impl Hosted {
    fn next_deadline(&self) -> Option<Moment> {
        let agents = self.agents.as_ref().and_then(GaHost::next_deadline);
        self.operating.next_deadline().into_iter().chain(agents).min()
    }
}

impl State {
    /// When anything is due next.
    pub(super) fn next_deadline(&mut self) -> Option<Moment> {
        self.sort_the_touched();
        let talking = self.talking.iter().filter_map(|node| self.nodes.get(node));
        let messages = talking.filter_map(|hosted| hosted.messages.next_deadline());
        messages.chain(self.due.first().map(|(due, _)| *due)).min()
    }

    /// Brings the deadlines up to date. Costs as much as there are nodes that were touched, however many are
    /// hosted.
    fn sort_the_touched(&mut self) {
        for name in std::mem::take(&mut self.touched) {
            let Some(hosted) = self.nodes.get_mut(&name) else { continue };
            let next = hosted.next_deadline();
            if let Some(due) = std::mem::replace(&mut hosted.due, next) {
                self.due.remove(&(due, name.clone()));
            }
            self.due.extend(next.map(|next| (next, name)));
        }
    }

    /// Takes the nodes whose time has come.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<NodeName> {
        self.sort_the_touched();
        let mut names = Vec::new();
        while let Some((due, _)) = self.due.first()
            && *due <= now
        {
            let (_, name) = self.due.pop_first().expect("there is a first");
            if let Some(hosted) = self.nodes.get_mut(&name) {
                hosted.due = None;
            }
            names.push(name);
        }
        names
    }
}

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
    /// Takes the nodes whose time has come. Costs as much as there are of them and of those that
    /// were touched, however many are hosted.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<NodeName> {
        for name in std::mem::take(&mut self.touched) {
            let Some(hosted) = self.nodes.get_mut(&name) else { continue };
            let next = hosted.next_deadline();
            if let Some(due) = std::mem::replace(&mut hosted.due, next) {
                self.due.remove(&(due, name.clone()));
            }
            self.due.extend(next.map(|next| (next, name)));
        }
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

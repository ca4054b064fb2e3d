//! The traced requests that one commit is made for.
//!
//! Each has a span of its own for the commit, in its own trace, and whatever comes of the commit elsewhere goes on from
//! there: through the watches to the route service, and through hints to the hosts of group agents.

use fabricast_telemetry::traces::{Origin, Origins, Span};

use crate::orders::Work;

/// Requests whose decisions wait for one commit.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    news: Origins,
    /// Reports of the route service, whose changes are no news to it.
    reports: Origins,
}

/// A commit for them; it ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    news: Vec<Span>,
    reports: Vec<Span>,
}

impl Causes {
    /// Adds the request that an order comes of.
    pub(crate) fn add(&mut self, origin: Origin, work: &Work) {
        match work {
            Work::DecideInTerm(..) => self.reports.add(origin),
            _ => self.news.add(origin),
        }
    }

    /// Begins the commit.
    ///
    /// - `sizes`: orders and changes in it.
    pub(crate) fn commit(&self, (orders, changes): (usize, usize)) -> Commit {
        let commit =
            Commit { news: self.news.spans("commit"), reports: self.reports.spans("commit") };
        for span in commit.news.iter().chain(&commit.reports) {
            span.set("fabricast.orders", i64::try_from(orders).unwrap_or(i64::MAX));
            span.set("fabricast.changes", i64::try_from(changes).unwrap_or(i64::MAX));
        }
        commit
    }
}

impl Commit {
    /// What comes of it.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.news.iter().chain(&self.reports).map(Span::origin)
    }

    /// What comes of the news in it, as watchers are told.
    pub(crate) fn told(&self) -> Vec<String> {
        self.news.iter().filter_map(|span| span.origin().to_text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::command::Command;
    use fabricast_groups::names::NodeName;
    use fabricast_telemetry::traces::{Settings, start};

    use super::*;

    #[test]
    fn reports_of_the_route_service_are_no_news_to_it_and_hints_come_of_everything() {
        let nowhere = Settings { collector: "http://127.0.0.1:9".to_owned(), share: 1.0 };
        let _exporting = start(&nowhere, "test").unwrap();
        let command = || Command::ForgetFlaps { node: NodeName::new("n").unwrap() };
        let origin = |number: u32| Origin::from_text(&format!("00-{number:032x}-{number:016x}-01"));
        let mut causes = Causes::default();
        causes.add(origin(1), &Work::Decide(command()));
        causes.add(origin(1), &Work::Decide(command()));
        causes.add(origin(2), &Work::DecideInTerm((1, 1), command()));
        causes.add(Origin::default(), &Work::Decide(command()));
        let commit = causes.commit((4, 0));
        let told = commit.told();
        let trace = format!("00-{:032x}-", 1);
        assert!(told.len() == 1 && told[0].starts_with(&trace), "{told:?}");
        assert_eq!(commit.origins().count(), 2);
        assert!(Causes::default().commit((9, 9)).told().is_empty());
    }
}

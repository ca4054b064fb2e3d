//! The changes that an administrator may make from the console (CONSOLE-3).
//!
//! They are made with a certificate of their own, and each call names the person, for the audit.

use std::fmt;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, PeerError, RpcError, Security, on_behalf_of};

use crate::calls::text;
use crate::http::{Query, encoded};
use crate::snapshot::element_text;

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Break a part of the emulated fabric.
    Fail,
    /// Repair a part of the emulated fabric.
    Heal,
    /// Take a node out of all its groups.
    Expel,
    /// Forget how often a node has failed.
    Readmit,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Fail, Self::Heal, Self::Expel, Self::Readmit];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Heal => "heal",
            Self::Expel => "expel",
            Self::Readmit => "readmit",
        }
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    pub(crate) verb: Verb,
    pub(crate) object: Object,
}

/// Object of a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Element(v1::Element),
    Node(String),
}

impl fmt::Display for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(element) => formatter.write_str(&element_text(element)),
            Self::Node(node) => write!(formatter, "node {node}"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb.word(), self.object)
    }
}

impl Action {
    pub(crate) fn of_switch(verb: Verb, switch: &str) -> Self {
        let kind = Some(Kind::SwitchName(switch.to_owned()));
        Self { verb, object: Object::Element(v1::Element { kind }) }
    }

    pub(crate) fn of_link(verb: Verb, switch: &str, port: u32) -> Self {
        let kind = Some(Kind::Link(v1::PortName { switch_name: switch.to_owned(), port }));
        Self { verb, object: Object::Element(v1::Element { kind }) }
    }

    pub(crate) fn of_node(verb: Verb, node: &str) -> Self {
        Self { verb, object: Object::Node(node.to_owned()) }
    }

    /// Reads an action from an address or a form; `None` if it names none.
    pub(crate) fn read(query: &Query) -> Option<Self> {
        let verb = Verb::ALL.into_iter().find(|verb| verb.word() == query.get("do"))?;
        let (switch, port, node) = (query.get("switch"), query.get("port"), query.get("node"));
        match verb {
            Verb::Fail | Verb::Heal if switch.is_empty() => None,
            Verb::Fail | Verb::Heal if port.is_empty() => Some(Self::of_switch(verb, switch)),
            Verb::Fail | Verb::Heal => Some(Self::of_link(verb, switch, port.parse().ok()?)),
            Verb::Expel | Verb::Readmit if node.is_empty() => None,
            Verb::Expel | Verb::Readmit => Some(Self::of_node(verb, node)),
        }
    }

    /// The fields that [`Self::read`] reads, by name.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("do", self.verb.word().to_owned())];
        match &self.object {
            Object::Node(node) => fields.push(("node", node.clone())),
            Object::Element(element) => match &element.kind {
                Some(Kind::SwitchName(switch)) => fields.push(("switch", switch.clone())),
                Some(Kind::Link(end)) => {
                    fields.push(("switch", end.switch_name.clone()));
                    fields.push(("port", end.port.to_string()));
                }
                Some(Kind::Endpoint(_)) | None => {}
            },
        }
        fields
    }

    /// Address of the page that shows what the action would do.
    pub(crate) fn address(&self) -> String {
        let fields = self.fields();
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("/act?{}", pairs.join("&"))
    }
}

/// Calls that change something.
#[derive(Debug)]
pub(crate) struct Changes {
    tics: Leader,
    security: Security,
}

impl Changes {
    /// Prepares calls with the certificate of an administrator.
    ///
    /// # Errors
    ///
    /// An address that cannot be parsed.
    pub(crate) fn new(tics: &[String], security: Security) -> Result<Self, PeerError> {
        Ok(Self { tics: security.leader(tics)?, security })
    }

    /// Makes a change; returns what came of it.
    ///
    /// - `fabric`: address of the emulated fabric, if there is one.
    pub(crate) async fn make(
        &self,
        action: &Action,
        person: &str,
        fabric: Option<&str>,
    ) -> Result<String, String> {
        match (&action.object, action.verb) {
            (Object::Element(element), verb) => {
                let fabric = fabric.ok_or("there is no emulated fabric to break or repair")?;
                let peer = self.security.peer(fabric).map_err(|error| error.to_string())?;
                let mut client = FabricServiceClient::new(peer.channel());
                let element = Some(element.clone());
                let changed = if verb == Verb::Fail {
                    let request = on_behalf_of(person, v1::FailElementRequest { element });
                    client.fail_element(request).await.map(|answer| answer.into_inner().changed)
                } else {
                    let request = on_behalf_of(person, v1::HealElementRequest { element });
                    client.heal_element(request).await.map(|answer| answer.into_inner().changed)
                };
                let changed = changed.map_err(|error| text(&RpcError::from(error)))?;
                Ok(match (verb, changed) {
                    (Verb::Fail, true) => format!("{} is down now", action.object),
                    (Verb::Fail, false) => format!("{} was down already", action.object),
                    (_, true) => format!("{} is up again", action.object),
                    (_, false) => format!("{} was up already", action.object),
                })
            }
            (Object::Node(node), Verb::Readmit) => {
                let request = v1::ReadmitNodeRequest { node: node.clone() };
                let mut tic = TicServiceClient::new(self.tics.channel());
                let answer = tic.readmit_node(on_behalf_of(person, request)).await;
                answer.map_err(|error| text(&error.into()))?;
                Ok(format!("node {node} is readmitted, its flaps are forgotten"))
            }
            (Object::Node(node), _) => {
                let request = v1::ReportNodeFailureRequest {
                    node: node.clone(),
                    incarnation: 0,
                    reporter: format!("console for {person}"),
                    probe_first: false,
                };
                let mut tic = TicServiceClient::new(self.tics.channel());
                let answer = tic.report_node_failure(on_behalf_of(person, request)).await;
                let answer = answer.map_err(|error| text(&error.into()))?.into_inner();
                let ended = answer.ended_memberships;
                Ok(format!("node {node} is expelled, {ended} memberships ended"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_as_it_was_written() {
        for action in [
            Action::of_switch(Verb::Fail, "S-1&x"),
            Action::of_link(Verb::Heal, "S-1", 7),
            Action::of_node(Verb::Expel, "<script>"),
            Action::of_node(Verb::Readmit, "a b"),
        ] {
            let address = action.address();
            let query = Query::of(address.split_once('?').unwrap().1);
            assert_eq!(Action::read(&query), Some(action));
        }
        for bad in
            ["", "do=fail", "do=expel&switch=S-1", "do=melt&switch=S-1", "do=fail&switch=S&port=x"]
        {
            assert_eq!(Action::read(&Query::of(bad)), None, "{bad}");
        }
    }
}

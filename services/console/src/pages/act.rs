//! A change: what it would do, the form that asks for it again, and what came of it.

use fabricast_drawing::Fabric;
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use maud::{Markup, html};

use super::Page;
use super::parts::{fact, group_link, name};
use super::what_if;
use crate::access::SignedIn;
use crate::changes::{Action, Object, Verb};
use crate::details::Details;
use crate::snapshot::Snapshot;

/// Most groups that are listed.
const LISTED: usize = 200;

/// The form with which an administrator confirms a change.
#[derive(Debug)]
pub(crate) struct Confirmation {
    /// Proof that this console has made the form.
    pub(crate) proof: String,
    /// Means of their sign-in, and so what they are asked for again.
    pub(crate) by: SignedIn,
    /// Reason why the form is shown again.
    pub(crate) problem: Option<&'static str>,
}

/// The effects of a change that is not made yet, and the form to confirm it.
pub(crate) async fn dry_run(
    now: &Snapshot,
    details: &Details,
    action: &Action,
    confirmation: &Confirmation,
) -> Page {
    let Some(effect) = effect(now, details, action).await else {
        return Page::not_found("There is no such part of the fabric, and no such node.");
    };
    let body = html! {
        h1 { "Would " (action.verb.word()) " " (name(&action.object.to_string())) }
        p { "Nothing has changed yet." }
        (effect)
        (form(action, confirmation))
    };
    Page { renewal: None, ..Page::new("", format!("{action}?"), body) }
}

fn form(action: &Action, confirmation: &Confirmation) -> Markup {
    html! {
        h2 { "Do it" }
        @if let Some(problem) = confirmation.problem { p .bad role="alert" { (problem) } }
        form method="post" action="/act" {
            @for (field, value) in action.fields() { input type="hidden" name=(field) value=(value); }
            input type="hidden" name="proof" value=(confirmation.proof);
            @match confirmation.by {
                SignedIn::Token => label for="again" { "Your token, again"
                    input #again type="password" name="again" required autocomplete="off";
                },
                SignedIn::Certificate => label for="again" { "To confirm, type: " (action)
                    input #again type="text" name="again" required autocomplete="off" maxlength="600";
                },
            }
            button { (action.verb.word()) }
        }
    }
}

/// The result of a change.
pub(crate) fn done(action: &Action, result: &Result<String, String>) -> Page {
    let body = html! {
        @match result {
            Ok(text) => { h1 { "Done" } p .good role="status" { (name(text)) } }
            Err(problem) => {
                h1 { "Not done" }
                p .problem role="alert" { (name(&action.to_string())) ": " (name(problem)) }
            }
        }
        p { a href="/fabric" { "To the fabric" } " · " a href="/health" { "To health and events" } }
    };
    Page { renewal: None, ..Page::new("", action.to_string(), body) }
}

/// A page that says why somebody may not make a change.
pub(crate) fn forbidden(why: &str) -> Page {
    let body = html! { h1 { "Not allowed" } p .problem role="alert" { (why) } };
    Page { renewal: None, ..Page::new("", "Not allowed", body) }
}

async fn effect(now: &Snapshot, details: &Details, action: &Action) -> Option<Markup> {
    match &action.object {
        Object::Node(node) => node_effect(now, details, node, action.verb).await,
        Object::Element(element) => {
            let fabric = now.fabric.as_deref()?;
            let part = part(fabric, element)?;
            let what = what_if::What { part, verb: action.verb, wanted: "" };
            Some(what_if::answer(now, fabric, details, what).await)
        }
    }
}

fn part(fabric: &Fabric, element: &v1::Element) -> Option<what_if::Part> {
    match element.kind.as_ref()? {
        Kind::SwitchName(switch) => what_if::part(fabric, switch, "").ok(),
        Kind::Link(end) => what_if::part(fabric, &end.switch_name, &end.port.to_string()).ok(),
        Kind::Endpoint(_) => None,
    }
}

/// The memberships that end with a node, or what is known of its failures.
async fn node_effect(now: &Snapshot, details: &Details, node: &str, verb: Verb) -> Option<Markup> {
    let known = now.nodes.get(node)?;
    let answer = details.node(node).await;
    Some(match &*answer {
        Err(problem) => html! { p .problem role="status" { (problem) } },
        Ok(answer) => html! {
            dl .facts {
                (fact("State", super::nodes::node_state(known)))
                (fact("Memberships", answer.membership_count))
                (fact("Group agents", answer.hosted_group_count))
                (fact("Job", if answer.job.is_empty() { "–" } else { &answer.job }))
            }
            @match verb {
                Verb::Readmit => p { "It may come back at once, and host group agents: how often it has failed is forgotten." },
                _ => {
                    p { "Its " (answer.membership_count) " memberships end, and the groups whose agent it hosts get another one." }
                    ul #hits {
                        @for one in answer.memberships.iter().take(LISTED) {
                            li { (group_link(&one.group)) ", PN " (one.pn) " (" (name(&one.process)) ")" }
                        }
                    }
                }
            }
        },
    })
}

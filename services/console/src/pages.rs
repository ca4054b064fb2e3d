//! Pages of the console, as HTML made from the state.
//!
//! A page is a function from the state and the parameters of its address to [`Page`]. Names come
//! from users: maud escapes them, and `parts::name` keeps their writing direction to themselves.

mod act;
mod capacity;
mod evaluation;
mod fabric;
mod group;
mod groups;
mod health;
mod jobs;
mod markdown;
mod nodes;
mod parts;
mod processes;
mod switches;
mod tables;
mod what_if;

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};

use crate::access::{Level, Session};
use crate::changes::Action;
use crate::snapshot::Snapshot;

pub(crate) use act::{Confirmation, done, dry_run, forbidden};
pub(crate) use capacity::capacity;
pub(crate) use evaluation::evaluation;
pub(crate) use fabric::fabric;
pub(crate) use group::group;
pub(crate) use groups::groups;
pub(crate) use health::health;
pub(crate) use jobs::{job, jobs};
pub(crate) use nodes::{node, nodes};
pub(crate) use switches::switch;
pub(crate) use tables::tables;
pub(crate) use what_if::what_if;

/// Time between two renewals of most pages, and of those that cost some computing.
const USUAL: Duration = Duration::from_millis(200);
const SELDOM: Duration = Duration::from_secs(5);

/// The pages of the menu.
const MENU: [Entry; 8] = [
    Entry { path: "/fabric", title: "Fabric" },
    Entry { path: "/groups", title: "Groups" },
    Entry { path: "/tables", title: "Tables" },
    Entry { path: "/nodes", title: "Nodes" },
    Entry { path: "/jobs", title: "Jobs" },
    Entry { path: "/health", title: "Health" },
    Entry { path: "/what-if", title: "What if" },
    Entry { path: "/evaluation", title: "Evaluation" },
];

struct Entry {
    path: &'static str,
    title: &'static str,
}

/// One page, without what is around it.
#[derive(Debug)]
pub(crate) struct Page {
    /// Title of the window.
    pub(crate) title: String,
    /// Path of its entry in the menu.
    pub(crate) menu: &'static str,
    /// False if what it is about does not exist.
    pub(crate) is_found: bool,
    /// Least time between two times that a browser asks for it again, as something has changed.
    /// None if it is asked for once, as a form is.
    pub(crate) renewal: Option<Duration>,
    /// Changes of what it is about, for administrators.
    pub(crate) actions: Vec<Action>,
    pub(crate) body: Markup,
}

/// The person who looks at a page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// Their session, if they have signed in.
    pub(crate) session: Option<Session>,
    /// There is something to sign in with.
    pub(crate) can_sign_in: bool,
    /// The console can change something at all.
    pub(crate) has_actions: bool,
}

impl Viewer {
    /// True if they may change something.
    pub(crate) fn may_change(&self) -> bool {
        let is_administrator = |one: &Session| one.level == Level::Administrator;
        self.has_actions && self.session.as_ref().is_some_and(is_administrator)
    }
}

impl Page {
    fn new(menu: &'static str, title: impl Into<String>, body: Markup) -> Self {
        let actions = Vec::new();
        Self { title: title.into(), menu, is_found: true, renewal: Some(USUAL), actions, body }
    }

    /// A page that says what does not exist.
    pub(crate) fn not_found(text: &str) -> Self {
        let body = html! {
            h1 { "Not found" }
            p { (text) }
            p { a href="/fabric" { "Back to the fabric" } }
        };
        Self { is_found: false, renewal: None, ..Self::new("", "Not found", body) }
    }

    /// A page that says why there is nothing to show.
    fn missing(menu: &'static str, title: &str, why: &str) -> Self {
        let body = html! { h1 { (title) } p .problem role="status" { (why) } };
        Self::new(menu, title, body)
    }
}

/// Puts menu, state and problems around a page.
pub(crate) fn layout(now: &Snapshot, page: &Page, viewer: &Viewer) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&page.title, true))
            body {
                a .skip href="#main" { "To the content" }
                header {
                    strong { "Fabricast" }
                    nav aria-label="Views" {
                        @for entry in &MENU {
                            a href=(entry.path) aria-current=[(entry.path == page.menu).then_some("page")] {
                                (entry.title)
                            }
                        }
                    }
                    div #state { (state(now, page.renewal.is_some())) }
                    (signed_in(viewer))
                }
                main #main data-live=[page.renewal.map(|_| now.version)]
                    data-pause=[page.renewal.map(|pause| pause.as_millis())] {
                    @for (source, problem) in &now.problems {
                        p .problem role="alert" { strong { (source.words()) } ": " (problem) }
                    }
                    (page.body)
                    @if viewer.may_change() && !page.actions.is_empty() {
                        h2 { "Change" }
                        ul #actions { @for action in &page.actions {
                            li { a href=(action.address()) { (action.verb.word()) " "
                                (parts::name(&action.object.to_string())) " …" } }
                        } }
                    }
                }
            }
        }
    }
}

/// The person who has signed in, and the way out or in.
fn signed_in(viewer: &Viewer) -> Markup {
    html! {
        @match &viewer.session {
            Some(session) => {
                form .session method="post" action="/sign-out" {
                    span #person { (parts::name(&session.person))
                        @if session.level == Level::Administrator { " (administrator)" } }
                    @if session.by == crate::access::SignedIn::Token { button { "Sign out" } }
                }
            }
            None if viewer.can_sign_in => a #sign-in href="/sign-in" { "Sign in" },
            None => {}
        }
    }
}

fn head(title: &str, with_script: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) " – Fabricast" }
            link rel="icon" href="/assets/icon.svg";
            link rel="stylesheet" href="/assets/console.css";
            @if with_script { script src="/assets/console.js" defer {} }
        }
    }
}

/// The state in one line.
fn state(now: &Snapshot, is_live: bool) -> Markup {
    let failed = now.failed.len();
    html! {
        @match now.status.as_deref() {
            Some(status) if status.active && status.settled => span .good { "settled" },
            Some(status) if status.active => span .warn { "route service at work" },
            Some(_) | None => span .bad { "no route service" },
        }
        @if failed > 0 { span .bad { (failed) " failed" } }
        span { "revision " (now.revision) }
        @if is_live { span #live { "live" } } @else { span { "not live: reload to ask again" } }
    }
}

/// The page where viewers sign in.
///
/// - `problem`: why it is shown again.
pub(crate) fn sign_in(problem: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Sign in", false))
            body {
                main .center {
                    h1 { "Fabricast" }
                    @if let Some(problem) = problem { p .bad role="alert" { (problem) } }
                    form method="post" action="/sign-in" {
                        label for="token" { "Token, as the console printed it, or of the file of --token-file"
                            input #token type="password" name="token" required autofocus autocomplete="current-password";
                        }
                        button { "Sign in" }
                    }
                }
            }
        }
    }
}

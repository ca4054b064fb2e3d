//! Pages that are made once for all viewers who ask at about the same time, as after an event
//! (CONSOLE-2). The frame of a page depends on the person who looks, and is made once for each.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use maud::Markup;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::access::Session;
use crate::bounded::Bounded;
use crate::pages::Page;

/// Time for which a page is given again if the state has not changed.
const AGE: Duration = Duration::from_millis(250);
/// Most pages that are kept.
const MAX_KEPT: usize = 16;
/// Most persons for whom the text of a page is kept.
const MAX_PERSONS: usize = 4;

/// Pages by address.
#[derive(Debug)]
pub(super) struct KeptPages {
    entries: Mutex<Bounded<Entry>>,
}

type Entry = Arc<tokio::sync::Mutex<Option<KeptPage>>>;

#[derive(Debug)]
struct KeptPage {
    version: u64,
    at: Instant,
    page: Arc<SharedPage>,
}

/// A page, and its text as some persons get it.
#[derive(Debug)]
pub(super) struct SharedPage {
    pub(super) page: Page,
    texts: Mutex<Vec<(Option<Session>, Bytes)>>,
}

impl SharedPage {
    /// The text for a person; all viewers with the same session share one.
    pub(super) fn text(&self, session: Option<&Session>, make: impl FnOnce() -> Markup) -> Bytes {
        let mut texts = self.texts.lock();
        if let Some((_, text)) = texts.iter().find(|(known, _)| known.as_ref() == session) {
            return text.clone();
        }
        let text = Bytes::from(make().0);
        if texts.len() < MAX_PERSONS {
            texts.push((session.cloned(), text.clone()));
        }
        text
    }
}

impl KeptPages {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::new(Bounded::new(MAX_KEPT)) }
    }

    /// The page at an address; a request for one that is being made waits for it.
    ///
    /// - `version`: of the state that the page shows.
    pub(super) async fn get(
        &self,
        address: &str,
        version: u64,
        make: impl Future<Output = Page>,
    ) -> Arc<SharedPage> {
        let entry = self.entries.lock().get(address);
        let mut held = entry.lock().await;
        if let Some(kept) = &*held
            && kept.version >= version
            && kept.at.elapsed() < AGE
        {
            return Arc::clone(&kept.page);
        }
        let page = Arc::new(SharedPage { page: make.await, texts: Mutex::default() });
        *held = Some(KeptPage { version, at: Instant::now(), page: Arc::clone(&page) });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_page_is_made_once_for_each_state() {
        let kept = KeptPages::new();
        let get = async |address: &str, version, title: &'static str| {
            let make = async { Page::not_found(title) };
            kept.get(address, version, make).await.page.body.0.clone()
        };
        assert!(get("/a", 1, "first").await.contains("first"));
        assert!(get("/a", 1, "second").await.contains("first"));
        assert!(get("/b", 1, "other").await.contains("other"));
        assert!(get("/a", 2, "third").await.contains("third"));
        tokio::time::advance(AGE).await;
        assert!(get("/a", 2, "fourth").await.contains("fourth"));
    }

    #[test]
    fn each_person_has_a_text_of_a_page_and_nobody_gets_that_of_another() {
        let page = SharedPage { page: Page::not_found("text"), texts: Mutex::default() };
        let session = |person: usize| Session {
            person: person.to_string(),
            level: crate::access::Level::Reader,
            by: crate::access::SignedIn::Token,
        };
        let text = |session: Option<&Session>, text: &str| {
            page.text(session, || maud::PreEscaped(text.to_owned()))
        };
        assert_eq!(text(None, "nobody"), "nobody");
        assert_eq!(text(None, "again"), "nobody");
        for person in 0..2 * MAX_PERSONS {
            let (own, name) = (session(person), person.to_string());
            assert_eq!(text(Some(&own), &name), name);
        }
        assert_eq!(text(Some(&session(0)), "made anew"), "0");
        assert_eq!(text(Some(&session(MAX_PERSONS)), "made anew"), "made anew");
        let administrator = Session { level: crate::access::Level::Administrator, ..session(0) };
        assert_eq!(text(Some(&administrator), "other level"), "other level");
    }
}

//! Pages that are made once for all viewers who ask at about the same time, as after an event
//! (CONSOLE-2). What is around a page depends on the viewer, and is made for each.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bounded::Bounded;
use crate::pages::Page;

/// Time for which a page is given again if the state has not changed.
const AGE: Duration = Duration::from_millis(250);
/// Most pages that are kept.
const MAX_KEPT: usize = 16;

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
    page: Arc<Page>,
}

impl KeptPages {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::new(Bounded::new(MAX_KEPT)) }
    }

    /// The page at an address; whoever asks for one that is being made waits for it.
    ///
    /// - `version`: of the state that the page shows.
    pub(super) async fn get(
        &self,
        address: &str,
        version: u64,
        make: impl Future<Output = Page>,
    ) -> Arc<Page> {
        let entry = self.entries.lock().get(address);
        let mut held = entry.lock().await;
        if let Some(kept) = &*held
            && kept.version >= version
            && kept.at.elapsed() < AGE
        {
            return Arc::clone(&kept.page);
        }
        let page = Arc::new(make.await);
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
            kept.get(address, version, make).await.body.0.clone()
        };
        assert!(get("/a", 1, "first").await.contains("first"));
        assert!(get("/a", 1, "second").await.contains("first"));
        assert!(get("/b", 1, "other").await.contains("other"));
        assert!(get("/a", 2, "third").await.contains("third"));
        tokio::time::advance(AGE).await;
        assert!(get("/a", 2, "fourth").await.contains("fourth"));
    }
}

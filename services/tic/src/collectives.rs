//! Collectives and the trees they have: what `fabricast_collectives` allocates, kept in the store.
//!
//! The desk belongs to the writer and runs ahead of the store by the batch that is being decided, as the
//! directory does. What it gives out depends on what was given out before, so every collective is
//! durable with its tree before anybody hears of it. Readers see what was committed last.
//!
//! Invariants
//! - AGG-8: what switches are told to hold is durable; a tree's number is never used for another one.

mod book;
pub(crate) mod published;
mod text;
mod wire;
pub(crate) mod wish;

pub(crate) use wire::read_operation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::{Fabric, ReservationId, Settings};
use fabricast_groups::directory::Directory;
use fabricast_groups::record::Change;
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, FatTree, Graph};
use tonic::Status;

use crate::choices::Puts;
use crate::elements::ElementKey;
use book::Book;
use published::{Published, Publisher};
use wish::{CollectiveDone, CollectiveWork, CreateWish, HolderName};

/// Keys and texts as they lie in the store.
pub(crate) type Texts = BTreeMap<String, Arc<str>>;

/// Where all of it lies.
pub(crate) const COLLECTIVES: &str = "tic/collectives/";

/// What belongs to no single collective.
const LEDGER: &str = "ledger";
/// A collective, by name.
const ITEMS: &str = "by-name/";

/// The writer's view of the collectives.
#[derive(Debug)]
pub(crate) struct CollectiveDesk {
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    settings: Settings,
    topology: String,
    book: Option<Book>,
    /// As in the store.
    durable: Texts,
    /// What the batch changes of it.
    pending: BTreeMap<String, Option<Arc<str>>>,
    publisher: Arc<Publisher>,
}

impl CollectiveDesk {
    /// Starts with what the store holds.
    ///
    /// - `settings`: what trees may take; the most children of an adapter count its own process in.
    /// - `topology`: digest of the topology's text; trees of another one are built anew.
    pub(crate) fn new(
        graph: Arc<Graph>,
        mut settings: Settings,
        topology: String,
        texts: Texts,
        publisher: Arc<Publisher>,
    ) -> Self {
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        settings.limits.adapter_children -= 1;
        let mut desk = Self {
            graph,
            fat_tree,
            settings,
            topology,
            book: None,
            durable: Texts::new(),
            pending: BTreeMap::new(),
            publisher,
        };
        desk.start_over(texts);
        desk
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, texts: Texts) {
        self.durable = texts;
        self.pending.clear();
        self.reload();
        self.publish();
    }

    /// Notes that the batch is durable, and shows it to the readers.
    pub(crate) fn committed(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for (key, text) in std::mem::take(&mut self.pending) {
            match text {
                Some(text) => drop(self.durable.insert(key, text)),
                None => drop(self.durable.remove(&key)),
            }
        }
        self.publish();
    }

    /// Takes the batch back, as the store refused it.
    pub(crate) fn roll_back(&mut self) {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.reload();
        }
    }

    /// Decides one request.
    ///
    /// # Errors
    ///
    /// Why it is refused; nothing is changed then.
    pub(crate) fn decide(
        &mut self,
        work: CollectiveWork,
        (directory, failed): (&Directory, &BTreeSet<ElementKey>),
        puts: &mut Puts,
    ) -> Result<CollectiveDone, Status> {
        if self.book.is_none() && matches!(work, CollectiveWork::Sync) {
            return Ok(CollectiveDone::Synced);
        }
        self.sync(failed, puts)?;
        match work {
            CollectiveWork::Sync => Ok(CollectiveDone::Synced),
            CollectiveWork::Create(wish) => self.create(&wish, directory, puts),
            CollectiveWork::Release(name) => {
                Ok(CollectiveDone::Released(self.release(&name, puts)))
            }
            CollectiveWork::Reserve { holder, entries, endpoints } => {
                self.reserve((&holder, entries, endpoints), puts)
            }
            CollectiveWork::Cancel(id) => {
                let cancelled = self.book()?.cancel(ReservationId(id));
                if cancelled {
                    self.keep_ledger(puts);
                }
                Ok(CollectiveDone::Cancelled(cancelled))
            }
            CollectiveWork::Quota { holder, quota } => {
                self.book()?.set_quota(&holder, quota);
                self.keep_ledger(puts);
                Ok(CollectiveDone::QuotaSet)
            }
            CollectiveWork::Usage => {
                let graph = Arc::clone(&self.graph);
                Ok(CollectiveDone::Usage(Box::new(self.book()?.usage(&graph))))
            }
        }
    }

    /// Takes note of a change of the directory: the collectives of a group that has ended are released.
    pub(crate) fn applied(&mut self, change: &Change, puts: &mut Puts) {
        let Change::GroupDeleted(gn) = change else { return };
        let Some(book) = &self.book else { return };
        for name in book.of_group(gn.0) {
            self.release(&name, puts);
        }
    }

    fn book(&mut self) -> Result<&mut Book, Status> {
        self.book.as_mut().ok_or_else(|| {
            Reason::NotAFatTree
                .status("collectives get trees on fat trees, this fabric is none", &[])
        })
    }

    /// Takes over what has failed or been mended since the last decision.
    fn sync(&mut self, failed: &BTreeSet<ElementKey>, puts: &mut Puts) -> Result<(), Status> {
        let graph = Arc::clone(&self.graph);
        let moved = self.book()?.follow(failed, &graph);
        let Some(moved) = moved else { return Ok(()) };
        for name in moved {
            self.keep(&name, puts);
        }
        self.keep_ledger(puts);
        Ok(())
    }

    fn create(
        &mut self,
        wish: &CreateWish,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<CollectiveDone, Status> {
        let graph = Arc::clone(&self.graph);
        let name = &wish.name;
        if self.book()?.create(wish, directory, &graph)? {
            self.keep(name, puts);
            self.keep_ledger(puts);
        }
        let wire = self.book()?.wire(name, &graph);
        let wire = wire.ok_or_else(|| Status::internal("the collective is not there"))?;
        Ok(CollectiveDone::Created(Box::new(wire)))
    }

    fn release(&mut self, name: &str, puts: &mut Puts) -> bool {
        let released = self.book.as_mut().is_some_and(|book| book.release(name));
        if released {
            self.put(format!("{ITEMS}{name}"), None, puts);
            self.keep_ledger(puts);
        }
        released
    }

    fn reserve(
        &mut self,
        (holder, entries, endpoints): (&HolderName, u16, Vec<EndpointId>),
        puts: &mut Puts,
    ) -> Result<CollectiveDone, Status> {
        let graph = Arc::clone(&self.graph);
        let id = self.book()?.reserve(holder, (entries, endpoints), &graph)?;
        self.keep_ledger(puts);
        Ok(CollectiveDone::Reserved(id))
    }

    /// Has a collective written.
    fn keep(&mut self, name: &str, puts: &mut Puts) {
        let text = self.book.as_ref().and_then(|book| book.record(name)).map(|one| one.text());
        self.put(format!("{ITEMS}{name}"), text, puts);
    }

    /// Has written what belongs to no single collective.
    fn keep_ledger(&mut self, puts: &mut Puts) {
        let Some(book) = &mut self.book else { return };
        book.ledger.revision += 1;
        let text = book.ledger_text(&self.topology);
        self.put(LEDGER.to_owned(), Some(text), puts);
    }

    fn put(&mut self, key: String, text: Option<String>, puts: &mut Puts) {
        let place = format!("{COLLECTIVES}{key}").into_bytes();
        puts.insert(place, text.as_ref().map(|text| text.as_bytes().to_vec()));
        self.pending.insert(key, text.map(Arc::from));
    }

    /// Builds the book from the texts. What cannot be read or does not fit is left out and said.
    fn reload(&mut self) {
        self.book = self.fat_tree.as_ref().map(|fat_tree| {
            let fabric = Fabric::new(Arc::clone(&self.graph), Arc::clone(fat_tree));
            Book::load(&fabric, &self.settings, &self.topology, &self.durable)
        });
    }

    fn publish(&self) {
        let published = match &self.book {
            Some(book) => book.published(&self.graph),
            None => Published::default(),
        };
        self.publisher.publish(published);
    }
}

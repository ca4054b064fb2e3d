//! The values of one section, each with the place it was given at.
//!
//! serde reports a fault by a span. Spans here are not offsets into a text but numbers of
//! nodes, so that values from a file, from variables and from flags can stand in one tree and a
//! fault still leads to its path and its source. Its behavior is tested through `load`.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, ValueDeserializer};

use crate::problem::Location;

/// Values of one section: the tables of the file, overlaid by single values.
pub(crate) struct Tree<'a> {
    root: Spanned<DeValue<'a>>,
    nodes: Vec<Node<'a>>,
}

/// Origin of one value; its index is the start of the value's span.
struct Node<'a> {
    path: String,
    location: Location,
    /// A text from outside may also be meant as TOML; kept until that has been tried.
    other_reading: Option<DeValue<'a>>,
}

/// A value that cannot be read.
pub(crate) struct Fault {
    /// Index of the value's node.
    pub(crate) node: usize,
    /// Its path inside the section.
    pub(crate) path: String,
    /// Error text of serde.
    pub(crate) what: String,
}

const ROOT: usize = 0;

impl Default for Tree<'_> {
    fn default() -> Self {
        let mut tree =
            Self { root: Spanned::new(0..1, DeValue::Table(DeTable::new())), nodes: Vec::new() };
        tree.add_node(String::new(), Location::Nowhere);
        tree
    }
}

impl<'a> Tree<'a> {
    /// Takes in a section of a file; `locate` turns offsets of the file into locations.
    pub(crate) fn add_section(&mut self, section: DeTable<'a>, locate: &dyn Fn(usize) -> Location) {
        *self.root.get_mut() = self.renumber(DeValue::Table(section), "", locate);
    }

    /// Lays one value over what is there. `path` is a field, or fields joined by dots.
    pub(crate) fn set(&mut self, path: &str, text: &'a str, location: &Location) {
        let node = self.add_node(path.to_owned(), location.clone());
        self.nodes[node].other_reading = DeValue::parse(text).ok().map(Spanned::into_inner);
        let Self { root, nodes } = self;
        let mut value = root;
        let mut walked = String::new();
        let mut path = path.split('.').peekable();
        while let Some(key) = path.next() {
            walked.push_str(key);
            if !value.get_ref().is_table() {
                *value.get_mut() = DeValue::Table(DeTable::new());
            }
            let DeValue::Table(table) = value.get_mut() else { unreachable!("made one above") };
            let last = path.peek().is_none();
            if last || !table.contains_key(key) {
                // Removed first: an insert would keep the old key with its old number.
                table.remove(key);
                let (node, inner) = if last {
                    (node, DeValue::String(Cow::Borrowed(text)))
                } else {
                    // A table on the way is a node of its own: what is wrong with the value
                    // concerns only that.
                    let (path, location) = (walked.clone(), location.clone());
                    nodes.push(Node { path, location, other_reading: None });
                    (nodes.len() - 1, DeValue::Table(DeTable::new()))
                };
                let span = node..node + 1;
                table.insert(
                    Spanned::new(span.clone(), Cow::Owned(key.to_owned())),
                    Spanned::new(span, inner),
                );
            }
            value = table.get_mut(key).expect("present or just inserted");
            walked.push('.');
        }
    }

    /// Reads the values into `T`; on failure says which value is to blame.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        T::deserialize(ValueDeserializer::from(self.root.clone())).map_err(|error| {
            let node = error.span().map_or(ROOT, |span| span.start);
            Fault { node, path: self.nodes[node].path.clone(), what: error.message().to_owned() }
        })
    }

    /// Takes a refused text for TOML instead, if it is such and that was not tried before.
    pub(crate) fn try_other_reading(&mut self, node: usize) -> bool {
        let Some(reading) = self.nodes[node].other_reading.take() else { return false };
        let (path, location) = (self.nodes[node].path.clone(), self.nodes[node].location.clone());
        let reading = self.renumber(reading, &path, &|_| location.clone());
        let Some(value) = find(&mut self.root, node) else { return false };
        *value.get_mut() = reading;
        true
    }

    /// Takes out the innermost field that holds the value. `false` if that is the whole section.
    pub(crate) fn take_out(&mut self, node: usize) -> bool {
        node != ROOT && take_out_of(self.root.get_mut(), node)
    }

    /// Each field that was given, with its place.
    pub(crate) fn locations(&self) -> impl Iterator<Item = (String, Location)> {
        self.nodes.iter().map(|node| (node.path.clone(), node.location.clone()))
    }

    fn add_node(&mut self, path: String, location: Location) -> usize {
        self.nodes.push(Node { path, location, other_reading: None });
        self.nodes.len() - 1
    }

    /// Copies a value, with numbers of nodes for spans.
    fn renumber(
        &mut self,
        value: DeValue<'a>,
        path: &str,
        locate: &dyn Fn(usize) -> Location,
    ) -> DeValue<'a> {
        match value {
            DeValue::Table(table) => {
                let mut copy = DeTable::new();
                for (key, value) in table {
                    let inner = if path.is_empty() {
                        key.get_ref().to_string()
                    } else {
                        format!("{path}.{}", key.get_ref())
                    };
                    let node = self.add_node(inner.clone(), locate(key.span().start));
                    let value = self.renumber(value.into_inner(), &inner, locate);
                    let span = node..node + 1;
                    let key = Spanned::new(span.clone(), key.into_inner());
                    copy.insert(key, Spanned::new(span, value));
                }
                DeValue::Table(copy)
            }
            DeValue::Array(array) => {
                let mut copy = DeArray::new();
                for (index, value) in array.into_iter().enumerate() {
                    let inner = format!("{path}[{index}]");
                    let node = self.add_node(inner.clone(), locate(value.span().start));
                    let value = self.renumber(value.into_inner(), &inner, locate);
                    copy.push(Spanned::new(node..node + 1, value));
                }
                DeValue::Array(copy)
            }
            plain => plain,
        }
    }
}

/// Takes out the innermost table entry that holds the node.
fn take_out_of(value: &mut DeValue<'_>, node: usize) -> bool {
    match value {
        DeValue::Table(table) => {
            let holder = table.iter().find(|(_, inner)| holds(inner, node));
            let Some(key) = holder.map(|(key, _)| key.get_ref().to_string()) else { return false };
            let deeper = table.get_mut(key.as_str()).is_some_and(|inner| {
                inner.span().start != node && take_out_of(inner.get_mut(), node)
            });
            deeper || table.remove(key.as_str()).is_some()
        }
        // An element is not taken out by itself: the later ones would change their numbers.
        DeValue::Array(array) => array
            .iter_mut()
            .any(|inner| inner.span().start != node && take_out_of(inner.get_mut(), node)),
        _ => false,
    }
}

fn holds(value: &Spanned<DeValue<'_>>, node: usize) -> bool {
    value.span().start == node
        || match value.get_ref() {
            DeValue::Table(table) => table.values().any(|inner| holds(inner, node)),
            DeValue::Array(array) => array.iter().any(|inner| holds(inner, node)),
            _ => false,
        }
}

fn find<'t, 'a>(
    value: &'t mut Spanned<DeValue<'a>>,
    node: usize,
) -> Option<&'t mut Spanned<DeValue<'a>>> {
    if value.span().start == node {
        return Some(value);
    }
    match value.get_mut() {
        DeValue::Table(table) => table.iter_mut().find_map(|(_, inner)| find(inner, node)),
        DeValue::Array(array) => array.iter_mut().find_map(|inner| find(inner, node)),
        _ => None,
    }
}

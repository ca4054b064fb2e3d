//! One or several addresses, as they are written.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::problem::Problems;
use crate::value::PeerAddress;

/// Addresses of parts of which one is at work: a list of texts, or one text with commas in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<String>);

impl Addresses {
    /// Reads them; each may be there once, and there must be one.
    pub(crate) fn check(self, problems: &mut Problems, field: &str) -> Option<Vec<PeerAddress>> {
        if self.0.is_empty() {
            problems.add(field, "empty; expected at least one address of the form host:port");
        }
        let (count, mut known) = (self.0.len(), Vec::new());
        for (index, text) in self.0.iter().enumerate() {
            let field = if count == 1 { field.to_owned() } else { format!("{field}[{index}]") };
            let address = PeerAddress::check(problems, &field, text);
            if address.as_ref().is_some_and(|address| known.contains(address)) {
                problems.add(&field, "listed twice");
            }
            known.extend(address);
        }
        (count > 0 && known.len() == count).then_some(known)
    }
}

impl<T: ToString> FromIterator<T> for Addresses {
    fn from_iter<I: IntoIterator<Item = T>>(addresses: I) -> Self {
        Self(addresses.into_iter().map(|address| address.to_string()).collect())
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Addresses;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an address of the form host:port, or a list of them")
    }

    fn visit_str<E>(self, text: &str) -> Result<Addresses, E> {
        Ok(Addresses(text.split(',').map(|one| one.trim().to_owned()).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Addresses, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = list.next_element()? {
            addresses.push(address);
        }
        Ok(Addresses(addresses))
    }
}

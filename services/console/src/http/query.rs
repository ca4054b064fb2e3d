//! The part of an address after `?`, and forms, which are written alike.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Most parameters of an address.
const MAX_PARAMETERS: usize = 16;

/// The parameters of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<Parameter>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    name: String,
    value: String,
}

impl Query {
    /// Reads parameters; bytes that are no UTF-8 are replaced.
    pub(crate) fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMETERS);
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Parameter { name: decoded(name), value: decoded(value) }
                })
                .collect(),
        )
    }

    /// The value of a parameter; empty if it is left out.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|parameter| parameter.name == name);
        found.map_or("", |parameter| parameter.value.as_str())
    }

    /// A number from 1, such as that of a page; 1 if it is left out or none.
    pub(crate) fn number(&self, name: &str) -> usize {
        self.get(name).parse().ok().filter(|number| *number > 0).unwrap_or(1)
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Encodes a value for an address.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_encoded() {
        for name in ["rows/1", "a b&c=d", "<script>", "ü", "100%", "+"] {
            let query = Query::of(&format!("x=1&name={}", encoded(name)));
            assert_eq!(query.get("name"), name);
        }
    }

    #[test]
    fn bad_input_is_no_number() {
        let query = Query::of("page=-1&size=%zz&=&&name=%ff");
        assert_eq!((query.number("page"), query.number("size"), query.number("none")), (1, 1, 1));
        assert_eq!(query.get("name"), "\u{fffd}");
        assert_eq!(Query::of(&"a=1&".repeat(1000)).0.len(), MAX_PARAMETERS);
    }
}

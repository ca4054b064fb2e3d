//! The person for whom a program of the administrators makes a call, for the audit.

use http::HeaderMap;
use tonic::Request;
use tonic::metadata::MetadataValue;

use crate::identity::identity_name;

/// Header with the name of the person, as [`identity_name`] writes it.
const HEADER: &str = "fabricast-person";
/// Most characters of a name that the audit takes.
const LONGEST: usize = 256;

/// Makes a request for a person; the audit names them beside the holder of the certificate. Only
/// administrators are believed.
#[must_use]
pub fn on_behalf_of<T>(person: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Ok(value) = MetadataValue::try_from(identity_name(person)) {
        request.metadata_mut().insert(HEADER, value);
    }
    request
}

/// The person that a request names.
pub(crate) fn person_of(headers: &HeaderMap) -> Option<&str> {
    let person = headers.get(HEADER)?.to_str().ok()?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '%');
    let is_name = !person.is_empty() && person.len() <= LONGEST && person.chars().all(is_known);
    is_name.then_some(person)
}

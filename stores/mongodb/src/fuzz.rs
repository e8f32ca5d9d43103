//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

use futures_util::FutureExt as _;
use mongodb::bson::{Bson, DateTime, Document};
use mongodb::options::ClientOptions;
use shedlock_core::fuzz::{is_refusal, is_refusal_of_url};
use shedlock_core::{ErrorKind, LockName, LockState, Owner};

use crate::address::{Address, refused};
use crate::found::Found;
use crate::send::seen;

/// URLs, as far as nobody is asked: hosts behind `mongodb+srv` would be looked up.
pub fn url(data: &[u8]) {
    let url = String::from_utf8_lossy(data);
    if url.contains("srv") {
        return;
    }
    let read = Address::parse(&url).and_then(|address| {
        let parsed = ClientOptions::parse(&address.url)
            .into_future()
            .now_or_never();
        parsed.map_or(Ok(()), |parsed| parsed.map(drop).map_err(refused))
    });
    if let Err(error) = read {
        let error = error.of_url(&url);
        is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]);
    }
}

/// A document: what no lock looks like is a conflict.
pub fn document(data: &[u8]) {
    let Some(document) = read(data) else {
        return;
    };
    match Found::parse(&document) {
        Ok(found) => {
            let name = LockName::new("job").expect("it is a name");
            for is_locked in [true, false] {
                let record = found.record(&name, is_locked);
                assert_eq!(record.state != LockState::Free, is_locked);
            }
            let is_ours = found.owner.as_deref().is_some_and(Owner::is_ours);
            assert!(found.shedlock_at().is_none() || !is_ours);
        }
        Err(error) => is_refusal(&error, &[ErrorKind::Conflict]),
    }
    if let Err(error) = seen(&document) {
        is_refusal(&error, &[ErrorKind::Conflict, ErrorKind::Internal]);
    }
}

/// BSON, or a line for each field: name, type and value.
fn read(data: &[u8]) -> Option<Document> {
    if let Ok(document) = Document::from_reader(data) {
        return Some(document);
    }
    let text = std::str::from_utf8(data).ok()?;
    let mut document = Document::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let (field, kind) = (parts.next()?, parts.next()?);
        let value = parts.next().unwrap_or_default();
        let value = match kind {
            "date" => Bson::DateTime(DateTime::from_millis(value.parse().ok()?)),
            "long" => Bson::Int64(value.parse().ok()?),
            "int" => Bson::Int32(value.parse().ok()?),
            "double" => Bson::Double(value.parse().ok()?),
            "text" => Bson::String(value.to_owned()),
            "doc" => Bson::Document(document.clone()),
            _ => Bson::Null,
        };
        document.insert(field, value);
    }
    Some(document)
}

#[cfg(test)]
shedlock_fuzz::tests!(url, document);

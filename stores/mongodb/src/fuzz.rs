//! Fuzz targets for the code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::UNIX_EPOCH;

use futures_util::FutureExt as _;
use mongodb::bson::{Bson, DateTime, Document};
use promises::is_refusal;
use shedlock_core::{ErrorKind, LockName, LockState, Owner};

use crate::codec::{Look, record};
use crate::journal::rows;
use crate::url::Address;

/// URLs that can be parsed without a server: hosts of `mongodb+srv` would be looked up.
pub fn url(data: &[u8]) {
    if String::from_utf8_lossy(data).contains("srv") {
        return;
    }
    promises::url(data, |url| {
        let address = Address::read(url)?;
        address.options().now_or_never().transpose()
    });
}

/// A document: content that no lock can have is a conflict.
pub fn document(data: &[u8]) {
    let Some(document) = read(data) else {
        return;
    };
    match record(&document) {
        Ok(found) => {
            let name = LockName::new("job").expect("it is a name");
            for is_locked in [true, false] {
                let shown = found.as_lock_record(&name, is_locked, UNIX_EPOCH);
                assert_eq!(shown.state != LockState::Free, is_locked);
            }
            assert!(found.shedlock_at().is_none() || !Owner::is_ours(&found.owner));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::Conflict]),
    }
    if let Err(error) = Look::read(&document) {
        is_refusal(&error, &[ErrorKind::Conflict, ErrorKind::Internal]);
    }
}

/// A document of the journal: content that is never written there is a conflict.
pub fn journal(data: &[u8]) {
    let Some(document) = read(data) else {
        return;
    };
    let refused = |error| is_refusal(&error, &[ErrorKind::Conflict]);
    if let Err(error) = rows::job(&document) {
        refused(error);
    }
    if let Err(error) = rows::audit(&document) {
        refused(error);
    }
    match rows::run(&document) {
        Ok(run) => {
            let written = rows::run_document(&run);
            let again = rows::run(&written).expect("it was written by us");
            assert_eq!(rows::run_document(&again), written);
        }
        Err(error) => refused(error),
    }
}

/// BSON, or one line per field: name, type and value.
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
shedlock_fuzz::tests!(url, document, journal);

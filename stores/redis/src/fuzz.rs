//! Fuzz targets for the code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::Duration;

use promises::is_refusal;
use redis::Value as Reply;
use shedlock_core::{AttemptRequest, ErrorKind, LockName, LockState, Owner};
use shedlock_provider::check_name_length;

use crate::codec::{self, Found};
use crate::journal::rows;
use crate::key::{Keys, LONGEST_NAME};
use crate::store::taken;

/// URLs.
pub fn url(data: &[u8]) {
    promises::url_without_files(data, crate::url::read);
}

/// The value of a lock's own key: ours, ShedLock's and others'.
pub fn value(data: &[u8]) {
    let value = codec::value(data);
    let text = String::from_utf8_lossy(data);
    assert!(value.owner.is_empty() || text.contains(&value.owner));
    assert!(value.shedlock_at().is_none() || !Owner::is_ours(&value.owner));
    if value.at.is_some() {
        assert!(text.starts_with("ADDED:"));
    }
}

/// The reply of a script: the remaining time of the lock's own key, its value, and the text, one per line.
pub fn answer(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n').map(<[u8]>::to_vec);
    let mut part = || parts.next().unwrap_or_default();
    let (left, raw, text) = (part(), part(), part());
    let text = Reply::BulkString(text);
    let reply = match String::from_utf8_lossy(&left).parse() {
        Ok(left) => Reply::Array(vec![text, Reply::Int(left), Reply::BulkString(raw)]),
        Err(_) => text,
    };
    let name = LockName::new("job").expect("it is a name");
    let owner = Owner::parse("web-3/1/0123456789abcdef").expect("it is an owner");
    let request = AttemptRequest::new(name.clone(), owner.clone(), Duration::from_secs(60));
    let found = match Found::parse(reply) {
        Ok(found) => found,
        Err(error) => return is_refusal(&error, &[ErrorKind::Conflict, ErrorKind::Internal]),
    };
    let record = found.record(&name);
    assert_eq!(record.state == LockState::Free, found.raw.is_none());
    assert_eq!(record.as_skip().owner, record.owner);
    let lease = found.lease(&request);
    assert_eq!(lease.owner(), &owner);
    if found.raw.is_some()
        && let Err(error) = taken(&request, &found)
    {
        is_refusal(&error, &[ErrorKind::Conflict, ErrorKind::SlotAhead]);
    }
}

/// Keys.
pub fn key(data: &[u8]) {
    let of = |keys: &Keys, name: &LockName| {
        let pair = keys.of(name);
        [pair.lock, pair.companion]
    };
    let fits = |name: &LockName| check_name_length(name, LONGEST_NAME).is_ok();
    promises::keys(data, Keys::new, of, Keys::name_of, fits);
}

/// The values of a journal.
pub fn journal(data: &[u8]) {
    let refused = |error| is_refusal(&error, &[ErrorKind::Conflict]);
    if let Err(error) = rows::job("job", data) {
        refused(error);
    }
    if let Err(error) = rows::audit("id", data) {
        refused(error);
    }
    match rows::run("id", data) {
        Ok(run) => {
            let text = rows::run_text(&run);
            let again = rows::run("id", text.as_bytes()).expect("it was written by us");
            assert_eq!(rows::run_text(&again), text);
        }
        Err(error) => refused(error),
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, value, answer, key, journal);

//! Fuzz targets for code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::time::{Duration, UNIX_EPOCH};

use promises::is_refusal;
use shedlock_core::{ErrorKind, LockName, Owner};

use crate::bucket::headers_of;
use crate::codec::{Beside, Message, message};
use crate::key;
use crate::url::Address;

/// URLs.
pub fn url(data: &[u8]) {
    promises::url(data, Address::read);
}

/// A message of a key: its eight bytes, then its block of headers.
pub fn record(data: &[u8]) {
    let (value, headers) = data.split_at(data.len().min(8));
    let read = Message {
        sequence: 7,
        time: UNIX_EPOCH + Duration::from_millis(1_800_000_000_123),
        headers: headers_of(&String::from_utf8_lossy(headers)),
        data: value.to_vec(),
    };
    let (record, is_ours) = match read.record() {
        Ok(found) => found,
        Err(error) => return is_refusal(&error, &[ErrorKind::Conflict]),
    };
    if !is_ours {
        assert!(record.owner.is_empty() || Owner::is_released(&record.owner));
        return;
    }
    // Every record of ours contains its time. A record with headers of a later version only is not
    // written back.
    if record.locked_at.is_none() {
        return;
    }
    let (data, headers) = message(&record);
    let headers = headers.iter().map(|(name, values)| {
        let value = values[0].to_string().trim().to_owned();
        (name.to_string(), value)
    });
    let written = Message {
        headers: headers.collect(),
        data: data.to_vec(),
        ..read
    };
    assert_eq!(written.record().ok(), Some((record, true)));
}

/// The contents of a companion message.
pub fn companion(data: &[u8]) {
    match Beside::from_bytes(data) {
        Ok(beside) => {
            let text = beside.to_text();
            let again = Beside::from_bytes(text.as_bytes()).expect("we have written it");
            assert_eq!(again.to_text(), text);
            assert_eq!((again.was, again.taken), (beside.was, beside.taken));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::Conflict]),
    }
}

/// A key or a name: names convert to keys and back, and no two of them collide.
pub fn name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(name) = key::name(&text) {
        assert_eq!(key::key(&name), text);
    }
    if let Ok(name) = LockName::new(&*text) {
        let (own, beside) = (key::key(&name), key::key_beside(&name));
        assert_eq!(key::name(&own).as_ref(), Some(&name));
        assert_eq!(key::name(&beside), None);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-/_=.".contains(&byte);
        for key in [own, beside] {
            assert!(key.bytes().all(is_allowed) && !key.contains("..") && !key.ends_with('.'));
        }
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, record, companion, name);

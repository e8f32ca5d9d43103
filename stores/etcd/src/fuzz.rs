//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

use shedlock_core::fuzz::{is_refusal, is_refusal_of_url};
use shedlock_core::{ErrorKind, LockName, Owner};

use crate::builder::Builder;
use crate::key::Keys;
use crate::value::{Value, released, write};

/// URLs. Files of certificates are left out, which are read.
pub fn url(data: &[u8]) {
    let url = String::from_utf8_lossy(data);
    if ["tls_ca", "tls_cert", "tls_key"]
        .iter()
        .any(|it| url.contains(it))
    {
        return;
    }
    if let Err(error) = crate::address::builder(&url).and_then(Builder::build) {
        is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]);
    }
}

/// The value of a lock's own key, ours, ShedLock's and others'.
pub fn value(data: &[u8]) {
    let value = Value::parse(data);
    assert!(value.shedlock_at().is_none() || !Owner::is_ours(&value.owner));
    let ended = Value::parse(&released(data));
    assert_eq!(ended.at, value.at);
    if let Some(at) = value.at {
        assert!(Owner::is_released(&ended.owner));
        let written = Value::parse(write(at, &value.owner).as_bytes());
        assert_eq!(written.owner, value.owner);
        let cut = at.duration_since(written.at.expect("it was written"));
        // Cut to milliseconds; what lies before 1970 to that.
        assert!(
            cut.map_or(true, |cut| cut.as_nanos() < 1_000_000),
            "{value:?}"
        );
    }
}

/// Key prefix, environment and what stands behind them, a line each: names become keys and keys names,
/// of which no two meet.
pub fn key(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let keys = match Keys::new(line(), line()) {
        Ok(keys) => keys,
        Err(error) => return is_refusal(&error, &[ErrorKind::InvalidInput]),
    };
    let last = line();
    if let Some(name) = keys.name_of(last.as_bytes()) {
        let pair = keys.of(&name).expect("the name of a key has keys");
        assert!(pair.lock == last || pair.companion == last, "{pair:?}");
    }
    let Ok(name) = LockName::new(last) else {
        return;
    };
    match keys.of(&name) {
        Ok(pair) => {
            for (key, (from, end)) in [pair.lock, pair.companion].iter().zip(keys.behind(None)) {
                assert_eq!(keys.name_of(key.as_bytes()).as_ref(), Some(&name), "{key}");
                assert!(from.as_slice() <= key.as_bytes() && key.as_bytes() < end.as_slice());
            }
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, value, key);

//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

use shedlock_core::{ErrorKind, LockName, Owner, fuzz::is_refusal};
use shedlock_store::{Added, check_name_length};

use crate::codec::{Keys, LONGEST_NAME, released, write};
use crate::store::Builder;

/// URLs.
pub fn url(data: &[u8]) {
    let read = |url: &str| crate::url::builder(url).and_then(Builder::build);
    shedlock_core::fuzz::url_without_files(data, read);
}

/// The value of a lock's own key, ours, ShedLock's and others'.
pub fn value(data: &[u8]) {
    let value = Added::parse(data);
    assert!(value.shedlock_at().is_none() || !Owner::is_ours(&value.owner));
    let ended = Added::parse(&released(data));
    assert_eq!(ended.at, value.at);
    if let Some(at) = value.at {
        assert!(Owner::is_released(&ended.owner));
        let written = Added::parse(write(at, &value.owner).as_bytes());
        assert_eq!(written.owner, value.owner);
        let cut = at.duration_since(written.at.expect("it was written"));
        // Cut to milliseconds; what lies before 1970 to that.
        let is_cut = cut.map_or(true, |cut| cut.as_nanos() < 1_000_000);
        assert!(is_cut, "{value:?}");
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
        assert!(keys.of(&name).iter().any(|key| key == last), "{name}");
    }
    let fits = |name: &LockName| check_name_length(name, LONGEST_NAME).is_ok();
    let Some(name) = LockName::new(last).ok().filter(fits) else {
        return;
    };
    for (key, (from, end)) in keys.of(&name).iter().zip(keys.after(None)) {
        assert_eq!(keys.name_of(key.as_bytes()).as_ref(), Some(&name), "{key}");
        assert!((&from..&end).contains(&key), "{key}");
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(url, value, key);

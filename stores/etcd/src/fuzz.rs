//! Fuzz targets for code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use shedlock_core::{LockName, Owner};
use shedlock_provider::{Added, check_name_length};

use crate::codec::{Keys, LONGEST_NAME, released, write};
use crate::store::Builder;

/// URLs.
pub fn url(data: &[u8]) {
    let read = |url: &str| crate::url::builder(url).and_then(Builder::build);
    promises::url_without_files(data, read);
}

/// The value of a lock's own key: ours, ShedLock's or foreign.
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
        // Truncated to milliseconds. Instants before 1970 become 1970.
        let is_cut = cut.map_or(true, |cut| cut.as_nanos() < 1_000_000);
        assert!(is_cut, "{value:?}");
    }
}

/// Keys, each of which must lie within the ranges of a list.
pub fn key(data: &[u8]) {
    let of = |keys: &Keys, name: &LockName| {
        let both = keys.of(name);
        for (key, (from, end)) in both.iter().zip(keys.after(None)) {
            assert!((&from..&end).contains(&key), "{key}");
        }
        both
    };
    let name_of = |keys: &Keys, key: &str| keys.name_of(key.as_bytes());
    let fits = |name: &LockName| check_name_length(name, LONGEST_NAME).is_ok();
    promises::keys(data, Keys::new, of, name_of, fits);
}

#[cfg(test)]
shedlock_fuzz::tests!(url, value, key);

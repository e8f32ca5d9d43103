//! Fuzz targets for the parsers of untrusted text in this crate. Each panics if a promise is
//! broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal;
use shedlock_support::text;

use crate::contract::{
    ErrorKind, LockDuration, LockName, LockRecord, LockState, Owner, Pause, parse_duration,
};

/// Durations as users write them: a duration that parses can be printed and parsed again. Any other
/// text is refused with a message that shows it.
pub fn duration(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    match parse_duration(&input) {
        Ok(duration) => {
            let printed = text::duration(duration);
            assert_eq!(parse_duration(&printed).ok(), Some(duration), "{printed}");
            assert_eq!(LockDuration::from(&*input).get().ok(), Some(duration));
        }
        Err(error) => {
            is_refusal(&error, &[ErrorKind::InvalidInput]);
            assert!(error.to_string().contains(&format!("{input:?}")), "{error}");
            assert!(error.to_string().contains("like \"10m\""), "{error}");
            assert!(LockDuration::from(&*input).get().is_err());
        }
    }
}

/// Names of locks.
pub fn name(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    match LockName::new(&*input) {
        Ok(name) => {
            assert_eq!(name.as_str(), input);
            assert!(!input.trim().is_empty() && !input.chars().any(char::is_control));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
}

/// Owners as stores keep them, ours and ShedLock's.
pub fn owner(data: &[u8]) {
    let stored = String::from_utf8_lossy(data);
    match Owner::parse(&stored) {
        Ok(owner) => {
            assert_eq!(owner.as_str(), stored);
            assert!(Owner::is_ours(&stored) && !Owner::is_released(&stored));
            assert_eq!(Owner::without_mark(&owner.released()), stored);
            assert!(owner.released().len() <= 255);
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
    match Owner::generate_with_prefix(&stored) {
        Ok(owner) => {
            assert_eq!(Owner::parse(owner.as_str()).ok(), Some(owner.clone()));
            assert!(owner.as_str().starts_with(&*stored));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
    let pause = Pause::parse(&stored);
    let kept = pause.map_or(&*stored, |pause| pause.id());
    for marked in [Owner::released_text(&stored), Owner::freed_text(&stored)] {
        assert!(Owner::is_released(&marked) && Owner::without_mark(&marked) == kept);
    }
    let name = LockName::new("job").expect("it is a name");
    let record = LockRecord::from_stored(name, &stored, true);
    let is_kept = record.state == LockState::AtLeast;
    assert_eq!(is_kept, Owner::is_released(&stored));
    assert_eq!(record.state == LockState::Paused, pause.is_some());
    assert_ne!(record.owner.as_deref(), Some(""));
    let skip = record.as_skip().to_string();
    assert!(
        skip.len() > 3 && !skip.contains(char::is_control),
        "{skip:?}"
    );
}

#[cfg(test)]
shedlock_fuzz::tests!(duration, name, owner);

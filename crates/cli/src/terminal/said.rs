//! Warnings about the settings of a store that were given on this host before.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder};
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock::{Clock as _, SystemClock};

use crate::private;
use crate::store::state_folder;

/// How long a warning is not repeated.
const REST: Duration = Duration::from_secs(30 * 86_400);

/// What a line ends with that is not repeated.
pub(super) const NOTE: &str = "(said once in 30 days; `shedlock doctor` says it each time)";

/// The store that the next warnings are about.
static PLACE: Mutex<String> = Mutex::new(String::new());

pub(crate) fn warnings_are_about(place: &str) {
    place.clone_into(&mut PLACE.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Whether this was not said lately to this user, about this store. Where nothing can be kept, it is said each time.
pub(super) fn is_new(text: &str) -> bool {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(folder) = state_folder() else {
        return true;
    };
    is_new_in(&folder, &place, text, SystemClock.system_time())
}

/// The file has a line for each warning: when it was given, and its hash.
fn is_new_in(folder: &Path, place: &str, text: &str, now: SystemTime) -> bool {
    let file = folder.join("said");
    // What others may write, they could use to hide a warning.
    if private::check(folder).is_err() || private::check(&file).is_err() {
        return true;
    }
    let mut hasher = DefaultHasher::new();
    (place, text).hash(&mut hasher);
    let hash = format!("{:016x}", hasher.finish());
    let known = fs::read_to_string(&file).unwrap_or_default();
    let lately = |line: &&str| {
        let seconds = line.split(' ').next().and_then(|it| it.parse().ok());
        let at = seconds.and_then(|it| UNIX_EPOCH.checked_add(Duration::from_secs(it)));
        // A time to come is that of a clock that was wrong.
        let age = at.and_then(|at| now.duration_since(at).ok());
        age.is_some_and(|age| age < REST)
    };
    let known: Vec<_> = known.lines().filter(lately).collect();
    if known.iter().any(|line| line.ends_with(&hash)) {
        return false;
    }
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut lines = known.join("\n");
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(&format!("{seconds} {hash}\n"));
    // If it cannot be kept, it is said again.
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let _ = private::replace(&file, lines.as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_rests_for_each_store_and_is_repeated_after_a_month_or_a_wrong_clock() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let start = UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        let is_new = |place, text, at| is_new_in(&folder, place, text, at);
        assert!(is_new("a", "fsync=off", start));
        assert!(!is_new("a", "fsync=off", start));
        assert!(is_new("b", "fsync=off", start));
        assert!(is_new("a", "no TLS", start));
        assert!(!is_new("b", "fsync=off", start + REST / 2));
        assert!(is_new("a", "fsync=off", start + REST));
        let lines = fs::read_to_string(folder.join("said")).unwrap();
        assert_eq!(lines.lines().count(), 1, "what is old is removed: {lines}");
        assert!(is_new("a", "fsync=off", start - REST));
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "a file").unwrap();
        assert!(is_new("a", "fsync=off", start));
        assert!(is_new("a", "fsync=off", start));
    }
}

//! Mistakes about which names share a record.

use shedlock_core::{Error, LockName};

use super::about::{About, Known};

/// Names are compared case-insensitively.
pub(super) struct NamesFoldCase;

impl Known for NamesFoldCase {
    const ABOUT: About = About::new("names-fold-case")
        .caught_by(&["law10_names::names_that_look_alike_are_two_locks"]);

    fn stored(name: &LockName) -> Result<LockName, Error> {
        LockName::new(name.as_str().to_lowercase())
    }
}

/// Names are treated as paths and normalized.
pub(super) struct NamesArePaths;

impl Known for NamesArePaths {
    const ABOUT: About = About::new("names-are-paths")
        .caught_by(&["law10_names::names_that_are_one_path_are_two_locks"]);

    fn stored(name: &LockName) -> Result<LockName, Error> {
        LockName::new(name.as_str().replace("//", "/"))
    }
}

/// Names are truncated to 64 bytes.
pub(super) struct NamesAreCut;

impl Known for NamesAreCut {
    const ABOUT: About = About::new("names-are-cut")
        .caught_by(&["law10_names::names_that_begin_alike_are_two_locks"]);

    fn stored(name: &LockName) -> Result<LockName, Error> {
        let text = name.as_str();
        let mut ends = (0..=text.len().min(64)).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        LockName::new(&text[..end.unwrap_or_default()])
    }
}

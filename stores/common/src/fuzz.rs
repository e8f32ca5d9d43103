//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal;
use shedlock_core::ErrorKind;

use crate::Record;

/// The text of a record: what is read is written and read again as the same, and what no lock looks
/// like is a conflict.
pub fn record(data: &[u8]) {
    match Record::from_bytes(data) {
        Ok(record) => {
            let written = record.to_text();
            assert_eq!(Record::from_text(&written).ok().as_ref(), Some(&record));
            // Whoever else reads it finds nothing else in it either.
            let text = std::str::from_utf8(data).expect("other bytes are refused");
            for line in written.lines() {
                assert!(
                    text.lines().any(|read| read == line),
                    "{line:?} was not there"
                );
            }
        }
        Err(error) => is_refusal(&error, &[ErrorKind::Conflict]),
    }
}

#[cfg(test)]
shedlock_fuzz::tests!(record);

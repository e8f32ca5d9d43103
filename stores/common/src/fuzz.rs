//! Fuzz targets for code that reads untrusted text. Each panics if a guarantee is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal;
use shedlock_core::ErrorKind;

use crate::Record;

/// The text of a record: a record that can be read is written and read back unchanged. Text that is
/// not a record is a conflict.
pub fn record(data: &[u8]) {
    match Record::from_bytes(data) {
        Ok(record) => {
            let written = record.to_text();
            assert_eq!(Record::from_text(&written).ok().as_ref(), Some(&record));
            // Another reader of the written text finds only lines of the original.
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

//! The journal in memory keeps what a journal must.

use std::sync::Arc;

use shedlock_core::MemoryJournal;

#[tokio::test]
async fn the_journal_in_memory() {
    shedlock_conformance::journal::check(Arc::new(MemoryJournal::new())).await;
}

//! The journal in memory keeps what a journal must.

use std::sync::Arc;

use shedlock_conformance::journal;
use shedlock_journal::MemoryJournal;

#[tokio::test]
async fn the_journal_in_memory() {
    journal::check(Arc::new(MemoryJournal::new())).await;
    journal::retained(Arc::new(MemoryJournal::new()), 100_000).await;
}

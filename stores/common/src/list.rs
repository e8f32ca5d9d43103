//! Lists, read part by part.

use shedlock_core::{ListRequest, LockRecord, LockState, listed};

use crate::errors::Result;

/// A part of a list.
#[derive(Debug)]
pub struct Part<P> {
    /// Names with their records, or why one cannot be read, in the order of names. None where a name has no record.
    pub found: Vec<(String, Result<Option<LockRecord>>)>,
    /// Where the next part begins; none where nothing follows.
    pub next: Option<P>,
}

/// The page that the request asks for: one part after the other is read until it is full or nothing follows. Free locks
/// that are not wanted are left out, and so, with a warning, is what is no lock.
///
/// `read` takes where a part begins, which is `from` for the first one, and how many records are wanted still.
pub async fn paged<P, F>(
    store: &str,
    request: &ListRequest,
    mut from: Option<P>,
    read: impl Fn(Option<P>, usize) -> F,
) -> Result<Vec<LockRecord>>
where
    F: Future<Output = Result<Part<P>>>,
{
    let is_wanted =
        |record: &LockRecord| !request.is_held_only() || record.state != LockState::Free;
    let mut page = Vec::new();
    loop {
        let part = read(from, request.limit() - page.len()).await?;
        for (name, record) in part.found {
            let record = listed(store, &name, record)?.flatten();
            page.extend(record.filter(is_wanted));
            if page.len() == request.limit() {
                return Ok(page);
            }
        }
        if part.next.is_none() {
            return Ok(page);
        }
        from = part.next;
    }
}

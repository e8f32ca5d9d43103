//! Lists that are read in parts.

use shedlock_core::{ListRequest, LockRecord, LockState, listed};

use crate::errors::Result;

/// One part of a list.
#[derive(Debug)]
pub struct Part<P> {
    /// Names with their records, in the order of names. An error explains why a record cannot be read; none means that
    /// the name has no record.
    pub found: Vec<(String, Result<Option<LockRecord>>)>,
    /// Where the next part begins; none if nothing follows.
    pub next: Option<P>,
}

/// Returns the page that the request describes. Parts are read one after another until the page is full or nothing
/// follows. Free locks are left out if the request wants held ones only. An entry that is not a lock is left out with a
/// warning.
///
/// `read` takes the start of a part (`from` for the first part) and the number of records still wanted.
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

//! Lists that are read in parts.

use std::cell::RefCell;

use shedlock_core::{ErrorKind, ListRequest, LockRecord, LockState};

use crate::errors::Result;

tokio::task_local! {
    /// The records that `listed` has left out in this task, although locks have their names.
    static LEFT_OUT: RefCell<Vec<String>>;
}

/// Filters a record of a list like [`shedlock_core::listed`]. A diagnosis also reports the records that are left out.
/// For providers.
///
/// # Errors
/// As there.
pub fn listed<T>(store: &str, name: &str, found: Result<T>) -> Result<Option<T>> {
    let conflict = found.as_ref().err();
    if let Some(error) = conflict.filter(|error| error.kind() == ErrorKind::Conflict) {
        // What to do is the same for all of them, and the finding has it.
        let described = format!("{name:?} ({:#})", error.reason());
        // Only a diagnosis collects them.
        let _ = LEFT_OUT.try_with(|left_out| left_out.borrow_mut().push(described));
    }
    shedlock_core::listed(store, name, found)
}

/// Lists locks, and collects the records that are left out.
pub(crate) async fn collecting<T>(list: impl Future<Output = T>) -> (T, Vec<String>) {
    let collected = async {
        let listed = list.await;
        (listed, LEFT_OUT.with(RefCell::take))
    };
    LEFT_OUT.scope(RefCell::default(), collected).await
}

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
    let is_wanted = |record: &LockRecord| !request.held_only || record.state != LockState::Free;
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

//! The identity of a store of locks.

use crate::contract::duration::HUNDRED_YEARS;
use crate::contract::{AttemptRequest, Error, ErrorKind, LockName, LockProvider, Owner};

/// Returns the identity of the store of these locks, or `None` if [`identify_store`] has given it none, or
/// if its records were lost since.
///
/// The identity is the owner of a record that no lock can have the name of, so that it is lost together
/// with the other records. A journal keeps it with each run, which shows whose records a journal can
/// restore.
///
/// # Errors
/// Those of the store.
pub async fn store_identity(provider: &dyn LockProvider) -> Result<Option<String>, Error> {
    let record = provider.inspect(&LockName::of_store()).await?;
    Ok(record.and_then(|record| record.owner))
}

/// Gives the store of these locks an identity: `identity`, or a new one. Returns the identity that it has
/// afterwards. One that it already has stays.
///
/// # Errors
/// Those of the store. Repeating it is harmless.
pub async fn identify_store(
    provider: &dyn LockProvider,
    identity: Option<Owner>,
) -> Result<String, Error> {
    if let Some(identity) = store_identity(provider).await? {
        return Ok(identity);
    }
    let longest = provider.capabilities().longest_lock_at_most_for;
    let owner = identity.unwrap_or_else(Owner::generate);
    let record = AttemptRequest::new(LockName::of_store(), owner, longest.min(HUNDRED_YEARS));
    // A skip means that another process has just done the same.
    let _ = provider.attempt(&record).await?;
    let identity = store_identity(provider).await?;
    identity.ok_or_else(|| {
        Error::new(
            ErrorKind::Unavailable,
            "the record with the identity of the store was removed",
        )
        .with_store(provider.store())
    })
}

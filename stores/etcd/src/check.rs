//! A look at the store: is it one that locks can be kept in.

use std::time::Duration;

use shedlock_core::{Error, LockName, SystemClock};

use crate::connections::Connections;
use crate::granted::{grant, revoke_behind};
use crate::key::Keys;
use crate::txn::look;

/// What the store says of itself.
#[derive(Debug)]
pub(crate) struct Store {
    /// The shortest lease that it keeps.
    pub(crate) shortest: Duration,
}

/// Reads a key that no lock needs to have, and asks for the shortest lease, which is given back.
///
/// # Errors
/// `Configuration` where the store does not let us in, or takes no writes.
pub(crate) async fn check(connections: &Connections, keys: &Keys) -> Result<Store, Error> {
    let pair = keys.of(&LockName::new("check")?)?;
    look(connections, &pair).await?;
    let granted = grant(connections, &SystemClock, 1).await?;
    revoke_behind(connections, granted.id);
    Ok(Store {
        shortest: granted.lasts,
    })
}

//! Leases of the store: what makes a lock's own key end.

use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Error, ErrorKind, Moment};
use tokio::runtime::Handle;

use crate::connections::{Clients, Connections, Effect};

/// A hundred years. The store would go on for longer; a calendar might not.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A lease that the store has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) id: i64,
    /// How long it lasts: no less than was asked for.
    pub(crate) lasts: Duration,
    /// It ends no earlier than this by the local clock.
    pub(crate) ends: Moment,
}

/// What is left of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// It ends no earlier than this by the local clock.
    pub(crate) ends: Moment,
    /// What may be left of it beyond that, since the store tells whole seconds.
    pub(crate) at_most: Duration,
}

/// Whole seconds, which is what leases last; rounded up.
///
/// # Errors
/// `InvalidInput` for more than [`LONGEST`].
pub(crate) fn seconds(duration: Duration, what: &str) -> Result<i64, Error> {
    if duration > LONGEST {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{what} is longer than a hundred years"),
        ));
    }
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    Ok(i64::try_from(whole.max(1)).unwrap_or(i64::MAX))
}

/// Asks for a lease of this many seconds. The server makes it longer where it keeps none so short.
///
/// Where the answer is lost, a lease may be left that holds no key, and ends by itself.
pub(crate) async fn grant(
    connections: &Connections,
    clock: &dyn Clock,
    seconds: i64,
) -> Result<Granted, Error> {
    let asked = clock.now();
    let ask = |it: Arc<Clients>| async move { it.leases.clone().grant(seconds, None).await };
    let answer = connections
        .ask(Effect::None, ask)
        .await
        .map_err(|failure| failure.explain(Effect::None))?;
    let lasts = Duration::from_secs(answer.ttl().max(seconds).unsigned_abs());
    Ok(Granted {
        id: answer.id(),
        lasts,
        ends: asked + lasts,
    })
}

/// How much is left of a lease, and up to a second more; none where it is over.
pub(crate) async fn left(connections: &Connections, id: i64) -> Result<Option<Duration>, Error> {
    let ask = |it: Arc<Clients>| async move { it.leases.clone().time_to_live(id, None).await };
    let answer = match connections.ask(Effect::None, ask).await {
        Ok(answer) => answer,
        Err(failure) if failure.is_lease_gone() => return Ok(None),
        Err(failure) => return Err(failure.explain(Effect::None)),
    };
    // Cut to whole seconds; negative where there is none.
    let left = u64::try_from(answer.ttl()).ok();
    Ok(left.map(|seconds| Duration::from_secs(seconds.saturating_add(1))))
}

/// Gives a lease back that no lock needs any more, behind: nobody waits for it, and where it fails,
/// or where there is no time for it, the lease ends by itself.
pub(crate) fn revoke_behind(connections: &Connections, id: i64) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let connections = connections.clone();
    runtime.spawn(async move {
        if let Err(error) = revoke(&connections, id).await {
            tracing::debug!(%error, "a lease that no lock needs any more is left to its end");
        }
    });
}

/// Gives a lease back, and with it whatever key has it.
pub(crate) async fn revoke(connections: &Connections, id: i64) -> Result<(), Error> {
    let ask = |it: Arc<Clients>| async move { it.leases.clone().revoke(id).await };
    match connections.ask(Effect::None, ask).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.is_lease_gone() => Ok(()),
        Err(failure) => Err(failure.explain(Effect::None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_never_shorter_than_asked_for() {
        let asked = |nanos| seconds(Duration::from_nanos(nanos), "it").unwrap();
        assert_eq!(asked(1), 1);
        assert_eq!(asked(1_000_000_000), 1);
        assert_eq!(asked(1_000_000_001), 2);
        assert_eq!(seconds(LONGEST, "it").unwrap(), 3_162_240_000);
        assert!(seconds(LONGEST + Duration::from_nanos(1), "it").is_err());
        assert!(seconds(Duration::MAX, "it").is_err());
    }
}

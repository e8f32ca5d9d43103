//! A self-test that shows whether a server can keep locks at all, before any case runs over it.
//!
//! An emulator, or a store with an unusual configuration, may let several clients win one
//! conditional write. A provider over it passes every case except the unlucky one. This test
//! therefore lets raw clients of the store, not a provider, race for one key. In each round they
//! use the cheapest conditional write that the provider relies on, and exactly one of them may win.
//!
//! ```no_run
//! use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
//! use shedlock_conformance::{BoxError, Harness, Verdict, main_after};
//! # use std::sync::Arc;
//! # #[derive(Clone)]
//! # struct Client;
//! # impl Client {
//! #     async fn replace(&self, _: &str, _: u32, _: u32) -> Result<bool, BoxError> { Ok(true) }
//! # }
//! # fn harnesses() -> Vec<Arc<dyn Harness>> { Vec::new() }
//!
//! async fn race(clients: Vec<Client>) -> Verdict {
//!     contention::judge(ROUNDS, &clients, |client, round| async move {
//!         // The key holds the number of the last round; it began with 0.
//!         client.replace("race", round - 1, round).await
//!     })
//!     .await
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let clients = vec![Client; CLIENTS]; // each with its own connection
//!     main_after(race(clients), harnesses())
//! }
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;

use crate::harness::BoxError;
use crate::wait::bounded;
use crate::{Stop, Verdict};

/// The number of clients that race.
pub const CLIENTS: usize = 8;

/// The number of rounds. An emulator that decides without a lock fails within a few rounds.
pub const ROUNDS: u32 = 300;

/// No server takes this long for one write per client.
const LIMIT: Duration = Duration::from_secs(20);

/// Lets these clients race, round after round, starting at 1. `claim` is the conditional write of
/// one client in one round; its condition is that the write of the previous round is in place. It
/// returns `Ok(true)` if the store reports that the write took effect, and `Ok(false)` if the store
/// reports that the condition did not hold.
///
/// Needs a multi-threaded tokio runtime.
///
/// # Errors
/// [`Stop::Failed`] if a round had several winners or none, or if a client fails.
pub async fn judge<C, F>(rounds: u32, clients: &[C], claim: impl Fn(C, u32) -> F + Send) -> Verdict
where
    C: Clone + Send + Sync,
    F: Future<Output = Result<bool, BoxError>> + Send + 'static,
{
    for round in 1..=rounds {
        let start = Arc::new(Barrier::new(clients.len()));
        let racing: Vec<_> = clients
            .iter()
            .map(|client| {
                let (start, claimed) = (Arc::clone(&start), claim(client.clone(), round));
                tokio::spawn(async move {
                    start.wait().await;
                    claimed.await
                })
            })
            .collect();
        let mut winners = 0;
        for client in racing {
            let claimed = bounded(LIMIT, client).await.ok_or_else(|| {
                Stop::failed(format!(
                    "in round {round}, a client that raced for a key got no reply within {LIMIT:?}"
                ))
            })??;
            let won = claimed
                .map_err(|error| Stop::harness("race for a key with a raw client", &*error))?;
            winners += usize::from(won);
        }
        verdict(winners, clients.len(), round)?;
    }
    Ok(())
}

fn verdict(winners: usize, clients: usize, round: u32) -> Verdict {
    match winners {
        1 => Ok(()),
        0 => Err(Stop::failed(format!(
            "this server loses writes: in round {round} none of {clients} clients won a conditional \
             write whose condition held; it is not a store for locks"
        ))),
        _ => Err(Stop::failed(format!(
            "this server lets several writers win: in round {round}, {winners} of {clients} \
             clients won the same conditional write; it is not a store for locks"
        ))),
    }
}

//! Reads the records of the locks while the processes contend for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use shedlock::{Capabilities, LockName, LockState};
use shedlock_proof::history::nanos;
use shedlock_rig::wait::sleep;

use crate::job::now;

/// The pause between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(40);

/// A record that was read between these moments.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) lock: String,
    pub(crate) asked: Duration,
    pub(crate) answered: Duration,
    /// The owner that holds the lock, and until when by the store's clock, in nanoseconds since 1970.
    pub(crate) held: Option<(String, u64)>,
}

/// Reads these locks of this store until it is stopped.
pub(crate) async fn observe(
    url: &str,
    locks: &[&str],
    stops: &AtomicBool,
) -> Result<(Capabilities, Vec<Observation>), String> {
    let provider = shedlock::connect(url).await;
    let provider = provider.map_err(|error| format!("{error:#}"))?;
    let mut seen = Vec::new();
    while !stops.load(Ordering::Relaxed) {
        for lock in locks {
            let name = LockName::new(lock).unwrap();
            let asked = now();
            let Ok(record) = Arc::clone(&provider).inspect(&name).await else {
                continue;
            };
            let held = record.filter(|record| record.state == LockState::Held);
            let held = held.and_then(|record| {
                let until = record.locked_until?.duration_since(UNIX_EPOCH).ok()?;
                Some((record.owner?, nanos(until)))
            });
            seen.push(Observation {
                lock: (*lock).to_owned(),
                asked,
                answered: now(),
                held,
            });
        }
        sleep(PAUSE).await;
    }
    Ok((provider.capabilities().clone(), seen))
}

//! What the log and the observer say about a store that is down.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use common::{DAY, Fault, Log, Node, World, block_on, every, lock, secs};
use shedlock_core::{Clock, Completion, LockConfig};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a job every minute until 320 s after midnight, while the store is down at these times.
/// Returns what is logged with the default settings of a subscriber.
fn logged(config: LockConfig, down: [Range<u64>; 2]) -> (Log, Vec<String>) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // While there is one subscriber, a thread without it can disable a log line for all threads.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().finish());
    let _logging = tracing::subscriber::set_default(subscriber);
    let log = Log::default();
    block_on(async {
        let world = World::before_midnight(secs(30));
        let clock = world.clock(0);
        let node = Node::with_faults(&world, 0, &log, move || {
            let now = clock.now().since_origin();
            let is_in =
                |down: &Range<u64>| (DAY + secs(down.start)..DAY + secs(down.end)).contains(&now);
            if down.iter().any(is_in) {
                Fault::Unavailable
            } else {
                Fault::None
            }
        });
        let _handle = node.start([node.job(config, every(60), secs(1))]);
        world.run_until(secs(320)).await;
    });
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (log, lines.lines().map(str::to_owned).collect())
}

fn count(lines: &[String], level: &str, text: &str) -> usize {
    let is_meant = |line: &&String| line.contains(level) && line.contains(text);
    lines.iter().filter(is_meant).count()
}

#[test]
fn each_outage_is_a_warning_and_each_slot_that_it_costs_an_error() {
    let (log, lines) = logged(lock("10m"), [0..185, 295..310]);
    assert_eq!(log.slots(), [180, 240, 300]);
    assert_eq!(
        count(&lines, "WARN", "attempt failed, retrying"),
        2,
        "{lines:?}"
    );
    assert_eq!(count(&lines, "ERROR", "attempt failed: "), 3, "{lines:?}");
    let failed = log.ticks();
    let failed = failed.iter().filter(|(_, end)| end.contains("refused"));
    let failed: Vec<Option<i64>> = failed.map(|(slot, _)| *slot).collect();
    assert_eq!(failed, [Some(0), Some(60), Some(120)]);
}

#[test]
fn a_job_that_must_not_be_lost_warns_of_each_outage_and_loses_nothing() {
    let kept = lock("10m").completion(Completion::on_success());
    let (log, lines) = logged(kept, [0..185, 295..310]);
    assert_eq!(log.slots(), [0, 60, 120, 180, 240, 300]);
    assert_eq!(
        count(&lines, "WARN", "attempt failed, retrying"),
        2,
        "{lines:?}"
    );
    assert_eq!(count(&lines, "ERROR", ""), 0, "{lines:?}");
}

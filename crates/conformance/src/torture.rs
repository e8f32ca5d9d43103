//! Everything at once: processes that are killed and stopped, over a store that crashes.

use std::time::Duration;

use shedlock_core::Moment;

use crate::history::Findings;
use crate::troop::Troop;
use crate::verdict::ensure;
use crate::wait::{PATIENCE, now, sleep};
use crate::{Setting, Stop, Verdict, signal};

/// How long it goes on, in seconds. Set by hand it also is put to stores that are not one's own.
const VARIABLE: &str = "SHEDLOCK_TORTURE_SECONDS";

const DEFAULT: Duration = Duration::from_secs(8);

const WORKERS: usize = 6;

/// What was done to the processes and to the store.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    kills: usize,
    stops: usize,
    crashes: usize,
}

/// How long a run goes on, and whether somebody said so.
pub(crate) fn length() -> Result<(Duration, bool), Stop> {
    match std::env::var(VARIABLE) {
        Err(_) => Ok((DEFAULT, false)),
        Ok(text) => text
            .parse()
            .map(|seconds| (Duration::from_secs(seconds), true))
            .map_err(|_| Stop::failed(format!("{VARIABLE}={text:?} should be a number, like 600"))),
    }
}

/// Tortures processes over this store, and the store itself where it may be crashed, and judges what
/// all of them did.
pub(crate) async fn torture(setting: &Setting, may_crash: bool) -> Verdict {
    let (length, _) = length()?;
    let mut troop = Troop::start(setting, WORKERS, &["hot", "warm", "cold"], &[]).await?;
    let mut done = Done::default();
    let ends = now() + length;
    let mut stopped: Vec<(usize, Moment)> = Vec::new();
    let at_most = setting.pace().short();
    while now() < ends {
        troop.read_logs()?;
        wake(&troop, &mut stopped, Some(now()))?;
        match troop.chance.next() % 8 {
            0..3 => done.kills += usize::from(troop.kill_a_holder().await?),
            3..6 => {
                let until = now() + at_most + at_most / 2;
                if let Some(number) = stop(&mut troop, &stopped)? {
                    stopped.push((number, until));
                    done.stops += 1;
                }
            }
            6 if may_crash => {
                setting.stop_store().await?;
                sleep(troop.chance.up_to(at_most)).await;
                setting.start_store().await?;
                done.crashes += 1;
            }
            _ => {}
        }
        sleep(troop.chance.up_to(at_most)).await;
    }
    wake(&troop, &mut stopped, None)?;
    goes_on(&mut troop).await?;
    // A store that was down may give each lease its whole length anew.
    let lateness = if done.crashes > 0 {
        at_most
    } else {
        Duration::ZERO
    };
    let seed = troop.seed.clone();
    let findings = troop.stop_and_judge_with(lateness).await?;
    tell(setting, length, done, &findings, &seed);
    ensure!(
        findings.acquisitions > 0 && findings.skips > 0,
        "the history proves nothing: {findings:?}"
    );
    Ok(())
}

/// Stops one that is not stopped, a holder if its log says so; which.
fn stop(troop: &mut Troop, stopped: &[(usize, Moment)]) -> Result<Option<usize>, Stop> {
    let up = |number: &usize| stopped.iter().all(|(other, _)| other != number);
    let holders: Vec<_> = troop.holders().into_iter().filter(up).collect();
    let some: Vec<_> = (0..WORKERS).filter(up).collect();
    let from = if holders.is_empty() { some } else { holders };
    if from.is_empty() {
        return Ok(None);
    }
    let number = *troop.chance.pick(&from);
    signal::stop(troop.process(number))?;
    Ok(Some(number))
}

/// Lets those go on whose time has come; all of them where no instant is given.
fn wake(troop: &Troop, stopped: &mut Vec<(usize, Moment)>, by: Option<Moment>) -> Verdict {
    let (due, later) = stopped
        .drain(..)
        .partition(|(_, until)| by.is_none_or(|by| *until <= by));
    *stopped = later;
    let due: Vec<(usize, Moment)> = due;
    for (number, _) in due {
        // One that was killed meanwhile is another process by now, which this does not hurt.
        signal::go_on(troop.process(number))?;
    }
    Ok(())
}

/// What comes free is taken again, once all is well.
async fn goes_on(troop: &mut Troop) -> Verdict {
    troop.read_logs()?;
    let before = troop.acquisitions;
    let started = now();
    while troop.acquisitions < before + WORKERS {
        if now().saturating_since(started) > PATIENCE {
            return Err(Stop::failed(format!(
                "the store is up and no process is stopped, but in {PATIENCE:?} only {} locks were \
                 taken ({})",
                troop.acquisitions - before,
                troop.seed
            )));
        }
        sleep(Duration::from_millis(20)).await;
        troop.read_logs()?;
    }
    Ok(())
}

#[expect(
    clippy::print_stderr,
    reason = "how much was tried is what a reader of the run wants to see"
)]
fn tell(setting: &Setting, length: Duration, done: Done, findings: &Findings, seed: &str) {
    eprintln!(
        "torture of {}: {length:?}, {} acquisitions, {} skips, {} kills, {} stops, {} crashes of the \
         store, 0 violations ({seed})",
        setting.harness().name(),
        findings.acquisitions,
        findings.skips,
        done.kills,
        done.stops,
        done.crashes,
    );
}

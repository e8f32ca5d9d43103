//! The command that must never run twice at once, nor after its lease.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use shedlock_proof::history::{Event, Log, What, nanos};
use shedlock_rig::wait::pause;

/// What one job does, in its environment. If it is set, this program is a job.
const ORDERS: &str = "SHEDLOCK_TORTURE_JOB";

/// The pause between two steps.
const STEP: Duration = Duration::from_millis(10);

/// One run of the command.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The number of the run, which stands for its processes.
    pub(crate) number: u32,
    pub(crate) lock: String,
    pub(crate) lasts: Duration,
    /// Whether it ignores SIGTERM.
    pub(crate) is_stubborn: bool,
}

impl Job {
    /// The variable that makes this program the job.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        let (number, lasts) = (self.number, self.lasts.as_millis());
        let words = (number, u8::from(self.is_stubborn), lasts, &self.lock);
        let (number, stubborn, lasts, lock) = words;
        (ORDERS, format!("{number} {stubborn} {lasts} {lock}"))
    }

    /// The job that this program was started as.
    pub(crate) fn of_environment() -> Option<Self> {
        let orders = std::env::var(ORDERS).ok()?;
        let mut words = orders.split(' ');
        let mut word = || words.next().unwrap();
        Some(Self {
            number: word().parse().unwrap(),
            is_stubborn: word() == "1",
            lasts: Duration::from_millis(word().parse().unwrap()),
            lock: word().to_owned(),
        })
    }

    /// The owner in the history.
    pub(crate) fn owner(&self) -> String {
        owner(self.number)
    }

    /// Logs that it runs, again and again.
    pub(crate) fn run(&self) {
        if self.is_stubborn {
            let never_read = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(Signal::TERM.as_raw(), never_read).unwrap();
        }
        let folder = std::env::current_dir().unwrap();
        let mut log = Log::open(&log_of(&folder, self.number)).unwrap();
        let mut write = |(at, what): (Duration, What)| {
            log.append(&Event {
                at: nanos(at),
                process: self.number,
                name: self.lock.clone(),
                owner: self.owner(),
                what,
            })
            .unwrap();
        };
        let variable = |name| std::env::var(name).unwrap();
        // MariaDB and MySQL do not return it.
        let until = std::env::var("SHEDLOCK_LOCKED_UNTIL").ok();
        let until = until.map(|until| until.parse::<jiff::Timestamp>().unwrap());
        let acquired = What::Acquired {
            token: Some(variable("SHEDLOCK_FENCING_TOKEN").parse().unwrap()),
            acquired_at: None,
            locked_until: until.and_then(|until| u64::try_from(until.as_nanosecond()).ok()),
        };
        let started = now();
        write((started, acquired));
        write((started, What::Started));
        println!("in");
        loop {
            if let Some((at, shows)) = wall_clock() {
                write((at, What::WallClock { shows }));
            }
            let at = now();
            write((at, What::Step));
            if at >= started + self.lasts {
                return;
            }
            pause(STEP);
        }
    }
}

/// The owner in the history of the run with this number.
pub(crate) fn owner(number: u32) -> String {
    format!("run-{number}")
}

/// Where the run with this number writes its events.
pub(crate) fn log_of(folder: &Path, number: u32) -> std::path::PathBuf {
    folder.join(format!("{number}.jsonl"))
}

/// The clock that all processes of this machine share.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        now.tv_sec.try_into().unwrap(),
        now.tv_nsec.try_into().unwrap(),
    )
}

/// The shared clock, and the wall clock of this process at that moment, in nanoseconds since 1970. `None` if the machine is
/// too busy to read both at once.
pub(crate) fn wall_clock() -> Option<(Duration, u64)> {
    #[expect(clippy::disallowed_methods, reason = "compared with a real store")]
    let read = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (0..10).find_map(|_| {
        let (before, shows) = (now(), read());
        (now() - before < Duration::from_millis(1)).then(|| (before, nanos(shows)))
    })
}

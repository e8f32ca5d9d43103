//! The options of a run, from the environment.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use shedlock_conformance::Stop;
use shedlock_proof::Mistake;

use crate::worker_pool::REST;

/// How long the run takes, in seconds. If set, the case also runs over stores that the test does
/// not own.
const SECONDS: &str = "SHEDLOCK_TORTURE_SECONDS";

/// The longest rest of a worker between two attempts, in milliseconds.
const REST_MILLIS: &str = "SHEDLOCK_TORTURE_REST_MILLIS";

/// Set if connections that fell silent are reset when their network is back.
const RESETS: &str = "SHEDLOCK_TORTURE_RESETS";

/// The number of processes of real ShedLock among the workers.
const JAVA: &str = "SHEDLOCK_TORTURE_JAVA";

/// The built test target of an earlier version.
const OLD: &str = "SHEDLOCK_TORTURE_OLD";

/// The number of workers of that version.
const OLD_WORKERS: &str = "SHEDLOCK_TORTURE_OLD_WORKERS";

const DEFAULT_OLD_WORKERS: usize = 3;

/// The file for the summary, as JSON.
const SUMMARY: &str = "SHEDLOCK_TORTURE_SUMMARY";

/// The wrong protocol to be detected; `all` for each of them.
const WRONG: &str = "SHEDLOCK_TORTURE_WRONG";

const DEFAULT: Duration = Duration::from_secs(8);

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    /// Whether the length was set explicitly.
    pub(crate) is_asked_for: bool,
    /// The longest rest of a worker between two attempts. Between two faults there is a pause of up
    /// to twenty times this long, or of up to a lease's length if that is longer.
    pub(crate) rest: Duration,
    pub(crate) resets: bool,
    pub(crate) java: usize,
    /// The executable for workers of an earlier version, and their number.
    pub(crate) old: Option<(PathBuf, usize)>,
    pub(crate) summary: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_environment() -> Result<Self, Stop> {
        let seconds = number(SECONDS)?;
        Ok(Self {
            length: seconds.map_or(DEFAULT, Duration::from_secs),
            is_asked_for: seconds.is_some(),
            rest: number(REST_MILLIS)?.map_or(REST, Duration::from_millis),
            resets: std::env::var_os(RESETS).is_some(),
            java: number(JAVA)?.unwrap_or(0),
            old: match std::env::var_os(OLD).map(PathBuf::from) {
                Some(old) => Some((old, number(OLD_WORKERS)?.unwrap_or(DEFAULT_OLD_WORKERS))),
                None => None,
            },
            summary: std::env::var_os(SUMMARY).map(PathBuf::from),
        })
    }
}

/// The wrong protocols that the judge must detect.
pub(crate) fn all_wrong_protocols() -> impl Iterator<Item = Mistake> {
    Mistake::ALL.iter().copied().filter(|it| it.is_tortured())
}

/// The wrong protocols selected by the environment.
pub(crate) fn wrong_protocols() -> Result<Vec<Mistake>, Stop> {
    let Ok(name) = std::env::var(WRONG) else {
        return Ok(Vec::new());
    };
    if name == "all" {
        return Ok(all_wrong_protocols().collect());
    }
    let found = all_wrong_protocols().find(|wrong| wrong.name() == name);
    found.map(|wrong| vec![wrong]).ok_or_else(|| {
        let names: Vec<&str> = all_wrong_protocols().map(Mistake::name).collect();
        let names = names.join(", ");
        Stop::failed(format!(
            "{WRONG}={name:?} should be `all` or one of {names}"
        ))
    })
}

fn number<T: FromStr>(variable: &str) -> Result<Option<T>, Stop> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(None);
    };
    let read = text.parse().map(Some);
    read.map_err(|_| Stop::failed(format!("{variable}={text:?} should be a number, like 600")))
}

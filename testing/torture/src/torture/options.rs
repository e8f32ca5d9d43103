//! What a run is asked for, from the environment.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use shedlock_conformance::Stop;

use crate::worker_pool::REST;
use crate::wrong::Wrong;

/// How long it goes on, in seconds. Set by hand it also is put to stores that are not one's own.
const SECONDS: &str = "SHEDLOCK_TORTURE_SECONDS";

/// How long workers rest between two attempts, at most, in milliseconds.
const REST_MILLIS: &str = "SHEDLOCK_TORTURE_REST_MILLIS";

/// How many processes of real ShedLock are among the workers.
const JAVA: &str = "SHEDLOCK_TORTURE_JAVA";

/// The test target of an earlier version, built.
const OLD: &str = "SHEDLOCK_TORTURE_OLD";

/// How many workers of that version are among the others.
const OLD_WORKERS: &str = "SHEDLOCK_TORTURE_OLD_WORKERS";

const DEFAULT_OLD_WORKERS: usize = 3;

/// Where the summary goes, as JSON.
const SUMMARY: &str = "SHEDLOCK_TORTURE_SUMMARY";

/// Which wrong protocol is to be found out; `all` for each of them.
const WRONG: &str = "SHEDLOCK_TORTURE_WRONG";

const DEFAULT: Duration = Duration::from_secs(8);

/// What a run is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    /// Somebody said how long.
    pub(crate) is_asked_for: bool,
    /// The longest that a worker rests between two attempts. Between two faults there is a pause of
    /// up to twenty of them, or of up to a lease's time where that is longer.
    pub(crate) rest: Duration,
    pub(crate) java: usize,
    /// The executable of workers of an earlier version, and how many there are.
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
            java: number(JAVA)?.unwrap_or(0),
            old: match std::env::var_os(OLD).map(PathBuf::from) {
                Some(old) => Some((old, number(OLD_WORKERS)?.unwrap_or(DEFAULT_OLD_WORKERS))),
                None => None,
            },
            summary: std::env::var_os(SUMMARY).map(PathBuf::from),
        })
    }
}

/// The wrong protocols that the environment asks for.
pub(crate) fn wrong_protocols() -> Result<Vec<Wrong>, Stop> {
    let Ok(name) = std::env::var(WRONG) else {
        return Ok(Vec::new());
    };
    if name == "all" {
        return Ok(Wrong::ALL.to_vec());
    }
    let found = Wrong::ALL.into_iter().find(|wrong| wrong.name() == name);
    found.map(|wrong| vec![wrong]).ok_or_else(|| {
        let names = Wrong::ALL.map(Wrong::name).join(", ");
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

//! Logs to standard error, each line with the replica's calendar time and name.

use std::fmt;

use jiff::Timestamp;
use shedlock::Clock as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::clock::ReplicaClock;

/// Starts logging; RUST_LOG sets the level.
pub(crate) fn start(name: &str, clock: &ReplicaClock) {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_timer(Stamp {
            name: name.to_owned(),
            clock: clock.clone(),
        })
        .init();
}

struct Stamp {
    name: String,
    clock: ReplicaClock,
}

impl FormatTime for Stamp {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let now = Timestamp::try_from(self.clock.system_time()).map_err(|_| fmt::Error)?;
        write!(line, "{now:.3} {}", self.name)
    }
}

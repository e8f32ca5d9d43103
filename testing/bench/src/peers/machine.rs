//! The machine of a run.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// A machine, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) system: String,
    pub(crate) kernel: String,
    /// Processes that ran or waited to run, on average over the preceding minute. 0 on a quiet
    /// machine.
    pub(crate) load: f64,
}

impl Machine {
    /// This machine.
    pub(crate) fn look() -> Self {
        let of = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = field(&of("/proc/meminfo"), "MemTotal", ':');
        let memory: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
        let load = of("/proc/loadavg");
        Self {
            processor: field(&of("/proc/cpuinfo"), "model name", ':'),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory + (1 << 19)) >> 20,
            system: field(&of("/etc/os-release"), "PRETTY_NAME", '='),
            kernel: of("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or_default(),
        }
    }
}

/// The value in the first line with that key.
fn field(text: &str, key: &str, separator: char) -> String {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(found, _)| found.trim() == key)
        .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        .unwrap_or_default()
}

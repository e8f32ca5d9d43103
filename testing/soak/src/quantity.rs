//! What is sampled, and how much of it may be added.

/// Whether more of it is a leak, or slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It may grow by so much.
    Size,
    /// It is divided by the time of something on the same machine and server, so that other work does not count. It may
    /// become longer by this share of itself.
    Time,
}

/// A quantity and its limits. It is convicted if it exceeds both.
#[derive(Debug)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// In an hour.
    pub(crate) per_hour: f64,
    /// In the time that is judged.
    pub(crate) step: f64,
}

const fn size(name: &'static str, per_hour: f64, step: f64) -> Quantity {
    let kind = Kind::Size;
    Quantity {
        name,
        kind,
        per_hour,
        step,
    }
}

/// Any part of it is as long as before: a tenth in an hour, but in a short run only what is beyond the noise.
const fn time(name: &'static str) -> Quantity {
    Quantity {
        name,
        kind: Kind::Time,
        per_hour: 0.1,
        step: 0.25,
    }
}

/// What the allocator has given out and not taken back.
pub(crate) const HEAP: Quantity = size("live heap, kB", 1_024.0, 384.0);
pub(crate) const RESIDENT: Quantity = size("resident, kB", 8_192.0, 4_096.0);
pub(crate) const THREADS: Quantity = size("threads", 4.0, 4.0);
pub(crate) const DESCRIPTORS: Quantity = size("descriptors", 4.0, 4.0);
/// Of tokio.
pub(crate) const TASKS: Quantity = size("tasks alive", 16.0, 32.0);
pub(crate) const RECORDS: Quantity = size("records per job", 0.01, 0.01);
pub(crate) const ROWS: Quantity = size("journal rows per job", 4.0, 40.0);
pub(crate) const LINES: Quantity = size("lines of metrics", 8.0, 8.0);
/// A lock and its unlock, in reads of one lock.
pub(crate) const PAIR: Quantity = time("pair, in reads");
/// The first run of a name, in reads of one lock.
pub(crate) const NEW_NAME: Quantity = time("run of a new name, in reads");
/// A run until the journal has its end, in reads of one lock.
pub(crate) const RECORDED: Quantity = time("recorded run, in reads");
pub(crate) const DESCRIPTORS_OF_UI: Quantity = size("descriptors of `ui`", 4.0, 12.0);
pub(crate) const DESCRIPTORS_OF_RUN: Quantity = size("descriptors of `run`", 4.0, 12.0);
pub(crate) const RESIDENT_OF_UI: Quantity = size("resident, `ui`, kB", 8_192.0, 4_096.0);
pub(crate) const RESIDENT_OF_RUN: Quantity = size("resident, `run`, kB", 8_192.0, 4_096.0);

const ALL: [&Quantity; 15] = [
    &HEAP,
    &RESIDENT,
    &THREADS,
    &DESCRIPTORS,
    &TASKS,
    &RECORDS,
    &ROWS,
    &LINES,
    &PAIR,
    &NEW_NAME,
    &RECORDED,
    &DESCRIPTORS_OF_UI,
    &DESCRIPTORS_OF_RUN,
    &RESIDENT_OF_UI,
    &RESIDENT_OF_RUN,
];

impl Quantity {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|quantity| quantity.name == name)
    }
}

//! The cases that are run on each store.

use std::future::Future;
use std::pin::Pin;

use shedlock_interop::{Cell, Fleet, Fleets};

use crate::{holding, late, mixed, names, slots, times};

/// One case. `shows` returns whether it holds; an error means neither.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Its description in the document.
    pub(crate) says: &'static str,
    /// The stores on which it does not hold.
    pub(crate) but: &'static [(Fleets, Cell)],
    pub(crate) shows: for<'a> fn(&'a Fleet) -> Shown<'a>,
}

type Shown<'a> = Pin<Box<dyn Future<Output = anyhow::Result<bool>> + Send + 'a>>;

impl Case {
    pub(crate) fn cell(&self, fleet: Fleets) -> Cell {
        match self.but.iter().find(|(but, _)| *but == fleet) {
            Some((_, cell)) => *cell,
            // If the JVM's local time is written, only the cases that show the fault run.
            None if fleet == Fleets::PostgresZone => Cell::NotTried,
            None => Cell::Holds,
        }
    }
}

/// What does not hold, by its number in the document.
const ZONE: Cell = Cell::Fault(1);
const UNLOCKS_ANYBODY: Cell = Cell::Fault(2);
const EXTENDS_ANYBODY: Cell = Cell::Fault(3);
const LEAVES_NO_TRACE: Cell = Cell::Fault(4);
const FORGETS_AT_LEAST: Cell = Cell::Fault(5);
const ONE_RECORD: Cell = Cell::Fault(6);
const CUTS_NAMES: Cell = Cell::Fault(7);
const HIDES_ERRORS: Cell = Cell::Fault(8);
const ENDS_IN_2038: Cell = Cell::Fault(9);
const NO_HOLDER: Cell = Cell::Fault(10);
const NO_EXTENSION: Cell = Cell::Lacks(11);

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "java_first",
        says: "the first record is ShedLock's, held while `migrate()` adds our columns: ours skips",
        but: &[],
        shows: |fleet| Box::pin(async { Ok(fleet.saw_the_early_lock()) }),
    },
    Case {
        name: "rust_first",
        says: "the place and the first record are ours, held before ShedLock ran: ShedLock skips, and takes other locks",
        but: &[],
        shows: |fleet| Box::pin(holding::rust_first(fleet)),
    },
    Case {
        name: "java_holds",
        says: "ShedLock holds: ours skips; ShedLock unlocks: ours takes it",
        but: &[],
        shows: |fleet| Box::pin(holding::java_holds(fleet)),
    },
    Case {
        name: "names_host",
        says: "ShedLock holds: ours names its host",
        but: &[(Fleets::Zookeeper, NO_HOLDER)],
        shows: |fleet| Box::pin(holding::names_host(fleet)),
    },
    Case {
        name: "rust_holds",
        says: "ours holds, on a record of ours: ShedLock skips; ours unlocks: ShedLock takes it",
        but: &[(Fleets::PostgresZone, ZONE)],
        shows: |fleet| Box::pin(holding::rust_holds(fleet)),
    },
    Case {
        name: "executors",
        says: "a task of ShedLock's executor and one of ours exclude each other",
        but: &[],
        shows: |fleet| Box::pin(holding::executors(fleet)),
    },
    Case {
        name: "nested",
        says: "a task under the same name within a task runs, on either side, and ends nothing",
        but: &[],
        shows: |fleet| Box::pin(holding::nested(fleet)),
    },
    Case {
        name: "java_expires",
        says: "ShedLock is killed with the lock: ours takes it when at-most is over, not before",
        but: &[(Fleets::PostgresZone, ZONE)],
        shows: |fleet| Box::pin(times::java_expires(fleet)),
    },
    Case {
        name: "rust_expires",
        says: "ours is killed with the lock: ShedLock takes it when at-most is over, not before",
        but: &[],
        shows: |fleet| Box::pin(times::rust_expires(fleet)),
    },
    Case {
        name: "java_at_least",
        says: "ShedLock unlocks before at-least is over: ours waits for its end",
        but: &[],
        shows: |fleet| Box::pin(times::java_at_least(fleet)),
    },
    Case {
        name: "rust_at_least",
        says: "ours unlocks before at-least is over: ShedLock waits for its end",
        but: &[],
        shows: |fleet| Box::pin(times::rust_at_least(fleet)),
    },
    Case {
        name: "extensions",
        says: "each extends its own lock, and the other one waits for the new end",
        but: &[(Fleets::Zookeeper, NO_EXTENSION)],
        shows: |fleet| Box::pin(times::extensions(fleet)),
    },
    Case {
        name: "extends_itself",
        says: "a task extends its own lock, by `LockExtender` and by `extend_current`: the same",
        but: &[(Fleets::Zookeeper, NO_EXTENSION)],
        shows: |fleet| Box::pin(times::extends_itself(fleet)),
    },
    Case {
        name: "rust_keeps_alive",
        says: "ours keeps its lock alive beyond its at-most: ShedLock waits for the unlock",
        but: &[],
        shows: |fleet| Box::pin(times::rust_keeps_alive(fleet)),
    },
    Case {
        name: "java_keeps_alive",
        says: "ShedLock keeps its lock alive (`KeepAliveLockProvider`) and unlocks within at-least: ours waits for its end",
        but: &[
            (Fleets::PostgresDbTime, FORGETS_AT_LEAST),
            (Fleets::MariadbDbTime, FORGETS_AT_LEAST),
            (Fleets::MariadbZone, FORGETS_AT_LEAST),
            (Fleets::MysqlDbTime, FORGETS_AT_LEAST),
            (Fleets::Zookeeper, NO_EXTENSION),
        ],
        shows: |fleet| Box::pin(times::java_keeps_alive(fleet)),
    },
    Case {
        name: "years",
        says: "at-most of twenty years: held, or refused",
        but: &[
            (Fleets::MariadbDbTime, ENDS_IN_2038),
            (Fleets::MariadbZone, ENDS_IN_2038),
            (Fleets::MysqlDbTime, ENDS_IN_2038),
        ],
        shows: |fleet| Box::pin(times::years(fleet)),
    },
    Case {
        name: "java_unlocks_late",
        says: "ShedLock overruns, ours takes over: ShedLock's late unlock frees nothing of ours",
        but: &[
            (Fleets::PostgresPlain, UNLOCKS_ANYBODY),
            (Fleets::Mongodb, UNLOCKS_ANYBODY),
            (Fleets::Redis, UNLOCKS_ANYBODY),
            (Fleets::ValkeyJedis, UNLOCKS_ANYBODY),
            (Fleets::Zookeeper, UNLOCKS_ANYBODY),
        ],
        shows: |fleet| Box::pin(late::java_unlocks_late(fleet)),
    },
    Case {
        name: "java_extends_late",
        says: "ShedLock overruns, ours takes over: ShedLock's late extend is refused",
        but: &[
            (Fleets::Redis, EXTENDS_ANYBODY),
            (Fleets::ValkeyJedis, EXTENDS_ANYBODY),
            (Fleets::Zookeeper, NO_EXTENSION),
        ],
        shows: |fleet| Box::pin(late::java_extends_late(fleet)),
    },
    Case {
        name: "is_told",
        says: "after either, ours knows at its next call whether its lock is still its own",
        but: &[],
        shows: |fleet| Box::pin(late::is_told(fleet)),
    },
    Case {
        name: "rust_unlocks_late",
        says: "ours overruns, ShedLock takes over: our late unlock frees nothing of ShedLock's",
        but: &[],
        shows: |fleet| Box::pin(late::rust_unlocks_late(fleet)),
    },
    Case {
        name: "rust_extends_late",
        says: "ours overruns, ShedLock takes over: our late extend is refused",
        but: &[],
        shows: |fleet| Box::pin(late::rust_extends_late(fleet)),
    },
    Case {
        name: "longest_name",
        says: "each skips while the other holds, with a name of 64 characters",
        but: &[],
        shows: |fleet| Box::pin(names::longest(fleet)),
    },
    Case {
        name: "odd_name",
        says: "the same with letters of several scripts, blanks, quotes, `:`, `/`, `%`, `{}` and a backslash in the name",
        but: &[],
        shows: |fleet| Box::pin(names::odd(fleet)),
    },
    Case {
        name: "too_long_name",
        says: "a name of 65 characters: refused by both, or a lock to both",
        but: &[
            (Fleets::PostgresPlain, HIDES_ERRORS),
            (Fleets::MariadbDbTime, CUTS_NAMES),
            (Fleets::MariadbZone, CUTS_NAMES),
            (Fleets::MysqlDbTime, CUTS_NAMES),
        ],
        shows: |fleet| Box::pin(names::too_long(fleet)),
    },
    Case {
        name: "case",
        says: "two names that differ in case alone are two locks, in ShedLock's table",
        but: &[
            (Fleets::MariadbDbTime, ONE_RECORD),
            (Fleets::MariadbZone, ONE_RECORD),
            (Fleets::MariadbClientTime, ONE_RECORD),
            (Fleets::MysqlDbTime, ONE_RECORD),
        ],
        shows: |fleet| Box::pin(names::case(fleet)),
    },
    Case {
        name: "blank",
        says: "two names that differ in a trailing blank alone are two locks, in ShedLock's table",
        but: &[
            (Fleets::MariadbDbTime, ONE_RECORD),
            (Fleets::MariadbZone, ONE_RECORD),
            (Fleets::MariadbClientTime, ONE_RECORD),
        ],
        shows: |fleet| Box::pin(names::blank(fleet)),
    },
    Case {
        name: "case_in_ours",
        says: "two names that differ in case alone are two locks, in a table that `migrate()` made",
        but: &[],
        shows: |fleet| Box::pin(names::case_in_ours(fleet)),
    },
    Case {
        name: "slots",
        says: "a slot at or before an acquisition of ShedLock's is refused to ours, a later one is not",
        but: &[
            (Fleets::Redis, LEAVES_NO_TRACE),
            (Fleets::RedisSafe, LEAVES_NO_TRACE),
            (Fleets::ValkeyJedis, LEAVES_NO_TRACE),
        ],
        shows: |fleet| Box::pin(slots::after_java(fleet)),
    },
    Case {
        name: "tokens",
        says: "our fencing tokens grow, and a slot that ours used stays used, across acquisitions and extensions of ShedLock's",
        but: &[],
        shows: |fleet| Box::pin(slots::tokens(fleet)),
    },
    Case {
        name: "mixed_fleet",
        says: "two nodes of each, Spring's scheduler and ours, one job: one run a tick",
        but: &[],
        shows: |fleet| Box::pin(mixed::one_run_a_tick(fleet)),
    },
];

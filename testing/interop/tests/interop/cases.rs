//! The cases that are run on each store.

use std::future::Future;
use std::pin::Pin;

use shedlock_interop::{Cell, Fleet, Fleets};

use crate::{holding, late, mixed, names, pause, prune, slots, times};

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
const REMEMBERS_NAMES: Cell = Cell::Fault(12);

/// The stores on which ShedLock unlocks without comparing the owner.
const UNLOCKING_ANYBODY: &[(Fleets, Cell)] = &[
    (Fleets::PostgresPlain, UNLOCKS_ANYBODY),
    (Fleets::Mongodb, UNLOCKS_ANYBODY),
    (Fleets::Redis, UNLOCKS_ANYBODY),
    (Fleets::ValkeyJedis, UNLOCKS_ANYBODY),
    (Fleets::Zookeeper, UNLOCKS_ANYBODY),
];

/// The stores for which ShedLock remembers the names that it has asked for.
const REMEMBERING_NAMES: &[(Fleets, Cell)] = &[
    (Fleets::PostgresDbTime, REMEMBERS_NAMES),
    (Fleets::PostgresClientTime, REMEMBERS_NAMES),
    (Fleets::PostgresPlain, REMEMBERS_NAMES),
    (Fleets::MariadbDbTime, REMEMBERS_NAMES),
    (Fleets::MariadbZone, REMEMBERS_NAMES),
    (Fleets::MariadbClientTime, REMEMBERS_NAMES),
    (Fleets::MysqlDbTime, REMEMBERS_NAMES),
];

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "java_first",
        says: "Java creates the first record and holds it while Rust's `migrate()` adds its columns: Rust skips",
        but: &[],
        shows: |fleet| Box::pin(async { Ok(fleet.saw_the_early_lock()) }),
    },
    Case {
        name: "rust_first",
        says: "Rust creates the table, or what the store has instead, and holds the first record before Java runs: Java skips, and acquires other locks",
        but: &[],
        shows: |fleet| Box::pin(holding::rust_first(fleet)),
    },
    Case {
        name: "java_holds",
        says: "Java holds the lock: Rust skips; Java unlocks: Rust acquires it",
        but: &[],
        shows: |fleet| Box::pin(holding::java_holds(fleet)),
    },
    Case {
        name: "names_host",
        says: "Java holds the lock: Rust reports Java's host",
        but: &[(Fleets::Zookeeper, NO_HOLDER)],
        shows: |fleet| Box::pin(holding::names_host(fleet)),
    },
    Case {
        name: "rust_holds",
        says: "Rust holds the lock, on a record that Rust created: Java skips; Rust unlocks: Java acquires it",
        but: &[(Fleets::PostgresZone, ZONE)],
        shows: |fleet| Box::pin(holding::rust_holds(fleet)),
    },
    Case {
        name: "executors",
        says: "a task of ShedLock's executor and a task of Rust's `Executor` exclude each other",
        but: &[],
        shows: |fleet| Box::pin(holding::executors(fleet)),
    },
    Case {
        name: "nested",
        says: "on either side, a task may take its own lock again: the inner task runs, and its end does not release the lock",
        but: &[],
        shows: |fleet| Box::pin(holding::nested(fleet)),
    },
    Case {
        name: "java_expires",
        says: "Java is killed while it holds the lock: Rust acquires it when at-most ends, not before",
        but: &[(Fleets::PostgresZone, ZONE)],
        shows: |fleet| Box::pin(times::java_expires(fleet)),
    },
    Case {
        name: "rust_expires",
        says: "Rust is killed while it holds the lock: Java acquires it when at-most ends, not before",
        but: &[],
        shows: |fleet| Box::pin(times::rust_expires(fleet)),
    },
    Case {
        name: "java_at_least",
        says: "Java unlocks before at-least ends: Rust waits for the end of at-least",
        but: &[],
        shows: |fleet| Box::pin(times::java_at_least(fleet)),
    },
    Case {
        name: "rust_at_least",
        says: "Rust unlocks before at-least ends: Java waits for the end of at-least",
        but: &[],
        shows: |fleet| Box::pin(times::rust_at_least(fleet)),
    },
    Case {
        name: "extensions",
        says: "each side extends its own lock, and the other side waits for the new end",
        but: &[(Fleets::Zookeeper, NO_EXTENSION)],
        shows: |fleet| Box::pin(times::extensions(fleet)),
    },
    Case {
        name: "extends_itself",
        says: "a task extends its own lock, with `LockExtender` in Java and `extend_current` in Rust: the other side waits for the new end",
        but: &[(Fleets::Zookeeper, NO_EXTENSION)],
        shows: |fleet| Box::pin(times::extends_itself(fleet)),
    },
    Case {
        name: "rust_keeps_alive",
        says: "Rust keeps its lock alive beyond at-most: Java waits for the unlock",
        but: &[],
        shows: |fleet| Box::pin(times::rust_keeps_alive(fleet)),
    },
    Case {
        name: "java_keeps_alive",
        says: "Java keeps its lock alive (`KeepAliveLockProvider`) and unlocks before at-least ends: Rust waits for the end of at-least",
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
        says: "an at-most of twenty years is kept or refused",
        but: &[
            (Fleets::MariadbDbTime, ENDS_IN_2038),
            (Fleets::MariadbZone, ENDS_IN_2038),
            (Fleets::MysqlDbTime, ENDS_IN_2038),
        ],
        shows: |fleet| Box::pin(times::years(fleet)),
    },
    Case {
        name: "java_unlocks_late",
        says: "Java overruns its lease and Rust acquires the lock: Java's late unlock does not free it",
        but: UNLOCKING_ANYBODY,
        shows: |fleet| Box::pin(late::java_unlocks_late(fleet)),
    },
    Case {
        name: "java_extends_late",
        says: "Java overruns its lease and Rust acquires the lock: Java's late extension is refused",
        but: &[
            (Fleets::Redis, EXTENDS_ANYBODY),
            (Fleets::ValkeyJedis, EXTENDS_ANYBODY),
            (Fleets::Zookeeper, NO_EXTENSION),
        ],
        shows: |fleet| Box::pin(late::java_extends_late(fleet)),
    },
    Case {
        name: "detects_late_calls",
        says: "after such a late unlock or extension by Java, Rust's next call reports whether Rust still holds the lock",
        but: &[],
        shows: |fleet| Box::pin(late::detects_late_calls(fleet)),
    },
    Case {
        name: "rust_unlocks_late",
        says: "Rust overruns its lease and Java acquires the lock: Rust's late unlock does not free it",
        but: &[],
        shows: |fleet| Box::pin(late::rust_unlocks_late(fleet)),
    },
    Case {
        name: "rust_extends_late",
        says: "Rust overruns its lease and Java acquires the lock: Rust's late extension is refused",
        but: &[],
        shows: |fleet| Box::pin(late::rust_extends_late(fleet)),
    },
    Case {
        name: "longest_name",
        says: "with a name of 64 characters, each side skips while the other holds the lock",
        but: &[],
        shows: |fleet| Box::pin(names::longest(fleet)),
    },
    Case {
        name: "odd_name",
        says: "with letters of several scripts, blanks, quotes, `:`, `/`, `%`, `{}` and a backslash in the name, each side skips while the other holds the lock",
        but: &[],
        shows: |fleet| Box::pin(names::odd(fleet)),
    },
    Case {
        name: "too_long_name",
        says: "a name of 65 characters is refused by both sides, or is one lock for both",
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
        says: "two names that differ only in case are two locks, in ShedLock's table",
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
        says: "two names that differ only in a trailing blank are two locks, in ShedLock's table",
        but: &[
            (Fleets::MariadbDbTime, ONE_RECORD),
            (Fleets::MariadbZone, ONE_RECORD),
            (Fleets::MariadbClientTime, ONE_RECORD),
        ],
        shows: |fleet| Box::pin(names::blank(fleet)),
    },
    Case {
        name: "case_in_ours",
        says: "two names that differ only in case are two locks, in a table that `migrate()` created",
        but: &[],
        shows: |fleet| Box::pin(names::case_in_ours(fleet)),
    },
    Case {
        name: "slots",
        says: "after an acquisition by Java, Rust skips the slots up to it and takes a later one",
        but: &[
            (Fleets::Redis, LEAVES_NO_TRACE),
            (Fleets::RedisSafe, LEAVES_NO_TRACE),
            (Fleets::ValkeyJedis, LEAVES_NO_TRACE),
        ],
        shows: |fleet| Box::pin(slots::after_java(fleet)),
    },
    Case {
        name: "tokens",
        says: "Rust's fencing tokens grow, and a slot that Rust used stays used, across acquisitions and extensions by Java",
        but: &[],
        shows: |fleet| Box::pin(slots::tokens(fleet)),
    },
    Case {
        name: "java_obeys_a_pause",
        says: "an operator pauses the lock: Java skips; it is resumed: Java acquires it",
        but: &[],
        shows: |fleet| Box::pin(pause::java_obeys(fleet)),
    },
    Case {
        name: "a_pause_outlives_javas_task",
        says: "an operator's pause takes the lock from a task of Java: the pause stays in effect after that task ends",
        but: UNLOCKING_ANYBODY,
        shows: |fleet| Box::pin(pause::outlives_javas_task(fleet)),
    },
    Case {
        name: "prune_keeps",
        says: "Java has asked for a lock, and an operator prunes the idle records: Java acquires the lock again",
        but: &[],
        shows: |fleet| Box::pin(prune::keeps_what_java_remembers(fleet)),
    },
    Case {
        name: "java_recreates",
        says: "Java has asked for a lock, and its record is removed (`prune` with `--no-shedlock`): Java acquires the lock again",
        but: REMEMBERING_NAMES,
        shows: |fleet| Box::pin(prune::is_recreated_by_java(fleet)),
    },
    Case {
        name: "paused_fleet",
        says: "an operator pauses a job of two Rust nodes and a Java node: it does not run before it is resumed, and runs again at the next tick",
        but: &[],
        shows: |fleet| Box::pin(pause::fleet_obeys(fleet)),
    },
    Case {
        name: "mixed_fleet",
        says: "two Java nodes (Spring's scheduler) and two Rust nodes (this project's scheduler) share a job: one run per tick",
        but: &[],
        shows: |fleet| Box::pin(mixed::one_run_a_tick(fleet)),
    },
];

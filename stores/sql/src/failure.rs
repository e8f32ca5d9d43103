//! Failures, classified by what can be done about them, and their error messages.

use ErrorKind::{Configuration, Conflict, InvalidInput, OutcomeUnknown, Unavailable};
use shedlock_core::{Error, ErrorKind, Operation};
use shedlock_provider::{Told, built_without_tls, root_cause, told, unresolved, untrusted_by};

use crate::dialect::Dialect;
use crate::options::Options;
use crate::statement::Unreadable;

/// Any error of a client.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the error kind and message for a class, for a statement that may write or only reads.
pub(crate) type Explain = fn(&Class, bool) -> Option<(ErrorKind, Told)>;

/// Why a session could not be had, or a statement did not do what it should.
#[derive(Debug)]
pub struct Failure {
    /// What can be done about it.
    pub class: Class,
    pub(crate) source: BoxError,
    /// What the server said, if this is its reply: only its message, without the client's words, its source line or its
    /// hints.
    pub(crate) said: Option<String>,
    /// The connection had been used before. Another one may accept what this one refused.
    pub(crate) was_used: bool,
}

/// The classes of failures. Each dialect maps its server's codes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// The statement was never sent: no connection was available in time, or the server already has too many.
    NotSent,
    /// The statement was never sent: an idle connection was found broken, and so many others may be as well.
    Broken {
        /// How many.
        others: u32,
    },
    /// The statement was never sent: all connections of the user's pool are taken.
    Exhausted,
    /// The statement was never sent: the user's pool is closed, and never lends a connection again.
    Closed,
    /// No connection was available: the network, or the machine there, failed.
    Unreachable,
    /// No connection was available: the server, or a pooler in front of it, returned an error that may pass.
    Unready,
    /// No connection was available, and waiting does not help.
    Refused(Refusal),
    /// The certificates of the TLS connection are not accepted, by this side or by the server.
    Untrusted,
    /// The connection requires TLS, which the program was built without. Contains the crate whose features bring it.
    WithoutTls(&'static str),
    /// No connection was available: the server's replies are not in the protocol of this database, or it closed the
    /// connection.
    OtherProtocol,
    /// A parameter of the connection's startup packet was rejected, as connection poolers do.
    Startup,
    /// The connection broke between the request and the reply.
    ReplyLost,
    /// The server replied that it failed while it executed the statement, or that it does not know whether it committed.
    Failed,
    /// A table or column is unknown or has changed: read the shape again.
    Shape,
    /// Another transaction interfered (serialization, deadlock, lock timeout): retry at once.
    Contention,
    /// Another transaction blocked this one for as long as the server allows waiting: do not retry.
    Waited,
    /// The server accepts no work now: starting, stopping, too many connections, busy.
    Busy,
    /// The disk of the database is full.
    Full,
    /// The server accepts no writes: it is a standby or read-only.
    ReadOnly,
    /// What was to be created exists.
    Exists,
    /// The user lacks a privilege.
    Privilege,
    /// A policy of row-level security does not let this user write the record.
    Policy,
    /// A text is too long for its column.
    TooLong,
    /// A number or an instant does not fit its column.
    OutOfRange,
    /// A text has characters that its column cannot store.
    Alphabet,
    /// The session is not in the state that a statement needs. The statement detected this and did nothing.
    Session,
    /// The server has no time zone of the name in the settings.
    NoZone,
    /// The session was left in a transaction, or its table is one that no other session sees. Nothing was written.
    Inside,
    /// The session has lost a prepared statement, or has a different one of that name.
    Prepared,
    /// The lock cannot be acquired: the statement stopped before it wrote, or was rolled back.
    Held,
    /// The unique key rejected the insert: the record exists.
    Duplicate,
    /// A constraint that does not belong to the lock rejected the write. Contains its name if the server reports it.
    Constraint(Option<String>),
    /// The record contains something that neither shedlock nor ShedLock writes.
    Foreign,
    /// The file is not a database.
    NotADatabase,
    /// The statement reached the server, which rejected it for another reason.
    Other,
}

/// Why a server rejects a connection, as far as its error shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such database.
    Database,
    /// This user may not use this database.
    Access,
    /// There is no such user, or the password is wrong.
    Login,
    /// The server has blocked this user or this host after failed logins.
    Blocked,
    /// The server asks for the client's certificate.
    Certificate,
    /// One side requires TLS, and the other does not offer it.
    Tls,
    /// Anything else.
    Other,
}

impl Failure {
    pub(crate) fn no_connection() -> Self {
        Self::new(Class::NotSent, "timed out waiting for a connection")
    }

    /// All of these connections of a pool are in use, and none came back in time.
    pub(crate) fn exhausted(connections: u32) -> Self {
        let taken = format!("none of the pool's {connections} connections became free in time");
        Self::new(Class::Exhausted, taken)
    }

    /// A connection of this pool would have been its last one, or a lock waits for one.
    pub(crate) fn none_to_spare() -> Self {
        let taken =
            "the pool has no connection to spare: its last one is left for locks; raise its size";
        Self::new(Class::Exhausted, taken)
    }

    /// One of these connections is broken, and is used no more.
    pub(crate) fn broken(connections: u32) -> Self {
        let class = Class::Broken {
            others: connections,
        };
        Self {
            class,
            ..Self::no_connection()
        }
    }

    pub(crate) fn silent() -> Self {
        Self::new(Class::ReplyLost, "timed out")
    }

    /// A failure of this class, with the client's error.
    pub fn new(class: Class, source: impl Into<BoxError>) -> Self {
        Self {
            class,
            source: source.into(),
            said: None,
            was_used: false,
        }
    }

    /// Sets what the server said, if this is its reply: only its message, without the client's words, its source line or
    /// its hints.
    #[must_use]
    pub fn said(mut self, message: Option<String>) -> Self {
        self.said = message;
        self
    }

    /// The error for a failure on the table of these options, of a statement that may write (`writes`) or only reads.
    pub(crate) fn explained(self, dialect: &Dialect, options: &Options, writes: bool) -> Error {
        let plain = || (self.class.kind(writes), self.class.told(writes));
        let is_unreachable = matches!(
            self.class,
            Class::NotSent | Class::Broken { .. } | Class::Unreachable
        );
        if let Some(error) = unresolved(&*self.source).filter(|_| is_unreachable) {
            return self.causing(error);
        }
        let is_untrusted = self.class == Class::Untrusted;
        if let Some(error) = untrusted_by(&*self.source, dialect.tls).filter(|_| is_untrusted) {
            return self.causing(error);
        }
        if let Class::WithoutTls(driver) = self.class {
            return self.causing(built_without_tls(driver));
        }
        let (kind, told) = (dialect.explain)(&self.class, writes).unwrap_or_else(plain);
        let constraint = match &self.class {
            Class::Constraint(Some(name)) => format!("constraint {name:?}"),
            _ => "a constraint".to_owned(),
        };
        let table = options.table.to_string();
        let mut error = told.with(kind, &[("table", &table), ("constraint", &constraint)]);
        match self.class {
            Class::ReadOnly => error = error.rejecting_writes(),
            Class::Closed => error = error.of_closed_client(),
            _ => {}
        }
        match self.source.downcast_ref::<Unreadable>() {
            Some(unreadable) => {
                let reason = unreadable.described(&options.columns);
                error.with_source(self.source).with_reason(reason)
            }
            None => self.causing(error),
        }
    }

    /// This error, caused by the failure.
    pub(crate) fn causing(self, error: Error) -> Error {
        match self.reason() {
            Some(reason) => error.with_source(self.source).with_reason(reason),
            None => error.with_source(self.source),
        }
    }

    /// What the server said, without the words of the client around it, or why there was no reply. `None` if the
    /// client's own text is as good.
    fn reason(&self) -> Option<String> {
        if matches!(
            self.class,
            Class::OtherProtocol | Class::Session | Class::WithoutTls(_)
        ) {
            // The text is about the client's code or a number of bytes, about the guard in the statement, or repeats
            // the error around it.
            return Some(String::new());
        }
        let is_lost = matches!(
            self.class,
            Class::NotSent
                | Class::Broken { .. }
                | Class::Exhausted
                | Class::Unreachable
                | Class::Unready
                | Class::Refused(_)
                | Class::Untrusted
                | Class::ReplyLost
        );
        let said = self.said.clone();
        said.or_else(|| is_lost.then(|| root_cause(&*self.source)))
    }

    /// Reclassifies a failure to open a session. `special` is what the server's error means then, if that differs from
    /// its meaning for a statement. A server that is busy or drops the connection can be tried again, because the
    /// settings may be right. Any other failure is a refusal.
    #[must_use]
    pub fn while_connecting(mut self, special: Option<Class>) -> Self {
        self.class = special.unwrap_or(match self.class {
            Class::Busy | Class::ReplyLost | Class::Contention | Class::Waited => Class::Unready,
            Class::Full => Class::Full,
            Class::Startup => Class::Startup,
            _ => Class::Refused(Refusal::Other),
        });
        self
    }
}

const CANNOT_CONNECT: Told = told("cannot connect").nothing_written().retry();

const REJECTED: Told = told("the server rejected the connection");

/// What is known of the effect of a statement without a reply.
pub(crate) fn effect(told: Told, writes: bool) -> Told {
    match writes {
        true => told.may_have_taken_effect(),
        false => told.nothing_written(),
    }
}

impl Class {
    /// The session is no longer usable although its server responds, and nothing was written: its server was demoted,
    /// or the session's state has changed.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(
            self,
            Self::ReadOnly | Self::Session | Self::NoZone | Self::Prepared
        )
    }

    /// Altering the table can cause this failure.
    pub(crate) fn may_be_of_table(&self) -> bool {
        let is_unfit_for_column = self.kind(true) == InvalidInput;
        is_unfit_for_column
            || matches!(
                self,
                Self::Shape | Self::Constraint(_) | Self::Foreign | Self::Other
            )
    }

    /// The connection can be used again. This is false after an error that reports a changed table, because statements
    /// prepared for the old table are useless.
    pub(crate) fn spares_connection(&self) -> bool {
        !self.is_of_session()
            && !matches!(
                self,
                Self::Inside | Self::ReplyLost | Self::Failed | Self::Shape
            )
    }

    /// The kind of the error.
    fn kind(&self, writes: bool) -> ErrorKind {
        match self {
            Self::ReplyLost | Self::Failed if writes => OutcomeUnknown,
            Self::NotSent
            | Self::Broken { .. }
            | Self::Exhausted
            | Self::Unreachable
            | Self::Unready => Unavailable,
            Self::OtherProtocol => Unavailable,
            Self::ReplyLost | Self::Failed | Self::ReadOnly => Unavailable,
            Self::Contention | Self::Waited | Self::Busy | Self::Full => Unavailable,
            Self::TooLong | Self::OutOfRange | Self::Alphabet => InvalidInput,
            Self::Foreign => Conflict,
            _ => Configuration,
        }
    }

    /// What happened, and what to do.
    fn told(&self, writes: bool) -> Told {
        // Long: one table of words.
        match self {
            Self::NotSent | Self::Broken { .. } => CANNOT_CONNECT.advise(
                "check that the server is up and has connections to spare, and that the URL points to it",
            ),
            Self::Closed => told("no connection: the pool is closed")
                .nothing_written()
                .advise("close it after the scheduler and all tasks have ended"),
            Self::Exhausted => told("the pool's connections are all taken")
                .nothing_written()
                .advise("give the pool more connections, or hold them for less time")
                .retry(),
            Self::Unreachable => CANNOT_CONNECT.advise(
                "check that the server is up, and that the host and the port in the URL are right",
            ),
            Self::Unready => CANNOT_CONNECT.advise(
                "check that the server accepts connections (and so does the connection pooler in \
                 front of it, if there is one)",
            ),
            Self::OtherProtocol => {
                told("the server speaks another protocol, or closed the connection")
                    .nothing_written()
                    .advise("check the host and the port in the URL")
                    .retry()
            }
            Self::Refused(refusal) => refusal.told(),
            Self::Untrusted | Self::WithoutTls(_) => told("the TLS connection failed")
                .advise("check the server's certificate and the TLS options of the URL"),
            Self::Startup => told(
                "the server, or a connection pooler in front of it, rejected a startup parameter \
                 of the connection",
            )
            .nothing_written()
            .advise(
                "remove that parameter from the connection's options, or have the pooler ignore it \
                 (PgBouncer: ignore_startup_parameters)",
            ),
            Self::ReplyLost => effect(
                told("no reply (the connection broke, or the server stopped responding)"),
                writes,
            )
            .retry(),
            Self::Failed => effect(
                told("the server failed while it executed the statement"),
                writes,
            )
            .advise("check the server's log")
            .retry(),
            Self::Shape => told("table {table} has changed since its columns were read")
                .advise("finish the change")
                .retry(),
            Self::Contention => told("repeated conflicts with other transactions on table {table}")
                .nothing_written()
                .advise("look for long transactions on this table")
                .retry_later(),
            Self::Waited => told(
                "another transaction locked the record in table {table} for longer than the \
                 server's lock timeout",
            )
            .nothing_written()
            .advise("look for long transactions on this table")
            .retry_later(),
            Self::Busy => told("the server is unavailable (starting, stopping, busy or full)")
                .nothing_written()
                .retry_later(),
            Self::NotADatabase => told("SQLite cannot use the file")
                .nothing_written()
                .advise("check the file, or set another one"),
            Self::Full => told("the disk of the database is full")
                .nothing_written()
                .advise("free space on it")
                .retry(),
            Self::ReadOnly => told("the server rejects writes (it is a standby or read-only)")
                .nothing_written()
                .advise("connect to the primary, or retry when it has been promoted"),
            Self::Privilege => told("the database user lacks a privilege").advise_with(
                "grant it SELECT, INSERT and UPDATE on table {table}, to prune also DELETE, and USAGE on \
                 its schema, with",
                Operation::Grants,
            ),
            Self::Policy => told(
                "a policy of row-level security does not let this user write the record in table \
                 {table}",
            )
            .advise(
                "change the policy, disable row-level security on the table, or grant this user \
                 BYPASSRLS",
            ),
            Self::TooLong => told("a value is too long for its column in table {table}")
                .advise("shorten the lock's name"),
            Self::OutOfRange => {
                told("the lease would end later than a column of table {table} can hold")
                    .advise("shorten lock_at_most_for")
            }
            Self::Alphabet => {
                told("a value has characters that its column in table {table} cannot store")
                    .advise("change the lock's name, or the column's character set to utf8mb4")
            }
            Self::Session => told(
                "the session cannot be used for locks in table {table}: its time_zone is neither \
                 UTC nor shared_session_zone (and a proxy, or a server older than MySQL 8.0.17, \
                 cannot change it for one statement, or the server lacks a zone of that name), \
                 autocommit is off, or its character set is not utf8mb4",
            )
            .nothing_written()
            .advise("correct these settings of the session"),
            Self::NoZone => told("the server lacks the time zone of shared_session_zone")
                .nothing_written()
                .advise(
                    "load the server's time zone tables, or set shared_session_zone to an offset \
                     like +02:00",
                ),
            Self::Inside => told(
                "the pool's connections come back inside a transaction, or with a temporary table \
                 {table}",
            )
            .nothing_written()
            .advise(
                "end each transaction before its connection goes back to the pool (a cancelled \
                 begin, a BEGIN as plain SQL, autocommit or a hook of the pool can leave one open)",
            ),
            Self::Prepared => told("the session does not keep its prepared statements")
                .nothing_written()
                .advise(
                    "if a proxy such as PgBouncer shares sessions between clients, set \
                     prepared=false in the store's URL, or over a pool of diesel-async \
                     max_prepared_statements in PgBouncer",
                ),
            Self::Duplicate | Self::Exists | Self::Held => {
                told("a unique key of table {table} other than the lock's rejected the record")
                    .advise("drop that key")
            }
            Self::Constraint(_) => told("{constraint} of table {table} refused the record").advise(
                "remove it, or, if it refers to a list of names, add the lock's name there",
            ),
            Self::Foreign => told(
                "the record in table {table} holds a value that neither shedlock nor ShedLock \
                 writes",
            )
            .advise("check what wrote it, then correct it or delete the record"),
            Self::Other => told("the server refused a statement on table {table}").advise_with(
                "check the server's log, and compare the table with",
                Operation::PlanMigration,
            ),
        }
    }
}

impl Refusal {
    fn told(self) -> Told {
        match self {
            Self::Database => REJECTED.advise("check the database in the URL"),
            Self::Access => {
                REJECTED.advise("check the database in the URL, or grant this user access to it")
            }
            Self::Login => REJECTED.advise("check the user and the password in the URL"),
            Self::Blocked => told(
                "the server has blocked this user or this host, probably after too many failed \
                 logins",
            )
            .advise(
                "check the user and the password in the URL, then let an administrator unblock it",
            ),
            Self::Certificate => REJECTED
                .advise("set the client's certificate and its key in the URL (sslcert and sslkey)"),
            Self::Tls => REJECTED.advise("check the TLS options of the URL"),
            Self::Other => REJECTED.advise(
                "check the user, the password, the database and the TLS options in the URL",
            ),
        }
    }
}

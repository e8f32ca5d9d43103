//! The settings of a provider.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, LockDefaults, SystemClock};
use shedlock_provider::{Result, TimeMode, invalid};

use crate::identifier::{Fold, Identifier, Table};
use crate::shape::Column;
use crate::zone;

// Our own columns. They are part of the wire format and have the same names in every table.
pub(crate) const TOKEN_COLUMN: &str = "shedlock_fencing_token";
pub(crate) const SLOT_COLUMN: &str = "shedlock_slot";
pub(crate) const DONE_COLUMN: &str = "shedlock_slot_done";
pub(crate) const ATTEMPTS_COLUMN: &str = "shedlock_slot_attempts";
pub(crate) const SKIP_FROM_COLUMN: &str = "shedlock_skip_from";
pub(crate) const SKIP_UNTIL_COLUMN: &str = "shedlock_skip_until";
/// ShedLock's table.
pub(crate) const TABLE: &str = "shedlock";
pub(crate) const COLUMNS: [&str; 6] = [
    TOKEN_COLUMN,
    SLOT_COLUMN,
    DONE_COLUMN,
    ATTEMPTS_COLUMN,
    SKIP_FROM_COLUMN,
    SKIP_UNTIL_COLUMN,
];

/// The default limit of a call: as long as the runtime waits for one.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) table: Table,
    /// ShedLock's columns: name, end of the lease, acquisition, owner.
    pub(crate) columns: [Identifier; 4],
    /// Whether the connections are not ours, so that each statement proves that it is in no transaction but its own.
    pub(crate) are_lent: bool,
    /// Whether each statement then checks this as well, because its proof is in the same request.
    pub(crate) checks_itself: bool,
    settings: Settings,
}

impl Options {
    /// The schema in which the table with this column was found, if these options name none.
    pub(crate) fn schema_found(&self, column: &Column) -> Option<Identifier> {
        match self.table.schema {
            Some(_) => None,
            None => Identifier::found(column.schema.as_deref()?),
        }
    }

    /// The same table in the schema in which it was found.
    pub(crate) fn found_in(&self, schema: Option<&Identifier>) -> Self {
        let mut options = self.clone();
        options.table = self.table.found_in(schema);
        options
    }
}

impl Deref for Options {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The user's settings, not yet checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `None` for the default.
    pub(crate) table: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) name_column: String,
    pub(crate) lock_until_column: String,
    pub(crate) locked_at_column: String,
    pub(crate) locked_by_column: String,
    pub(crate) time: TimeMode,
    pub(crate) defaults: LockDefaults,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether statements are prepared on the server; `None` to prepare them unless the sessions may be shared.
    pub(crate) prepared: Option<bool>,
    /// Whether an unlock waits until it is on disk, if the server waits for its disk at all.
    pub(crate) durable_unlock: bool,
    pub(crate) server_skew: Duration,
    pub(crate) timeout: Option<Duration>,
    /// MySQL only: the time zone of the sessions that share the table. After the check, it is spelled as the server
    /// spells it.
    pub(crate) shared_session_zone: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table: None,
            schema: None,
            name_column: "name".to_owned(),
            lock_until_column: "lock_until".to_owned(),
            locked_at_column: "locked_at".to_owned(),
            locked_by_column: "locked_by".to_owned(),
            time: TimeMode::Store,
            defaults: LockDefaults::new(),
            clock: Arc::new(SystemClock),
            prepared: None,
            durable_unlock: false,
            server_skew: Duration::ZERO,
            timeout: None,
            shared_session_zone: None,
        }
    }
}

impl Settings {
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    pub(crate) fn prepares(&self) -> bool {
        self.prepared != Some(false)
    }

    pub(crate) fn zone(&self) -> &str {
        self.shared_session_zone.as_deref().unwrap_or("+00:00")
    }

    /// Whether the table is in a schema that the settings name.
    pub(crate) fn names_schema(&self) -> bool {
        self.schema.is_some() || self.table.as_ref().is_some_and(|table| table.contains('.'))
    }

    /// Whether the settings name the table or its schema. Otherwise a table that is missing may be another one that
    /// exists.
    pub(crate) fn names_table(&self) -> bool {
        self.schema.is_some() || self.table.is_some()
    }

    /// Checks the settings; `fold` and `longest` describe the database's names. Returns `InvalidInput` with the name of
    /// the invalid setting.
    pub(crate) fn check(mut self, fold: Fold, longest: usize) -> Result<Options> {
        let identifier = |what: &str, text: &str| Identifier::parse(what, text, fold, longest);
        self.defaults.validate()?;
        let table = self.table.as_deref().unwrap_or(TABLE);
        let table = Table::parse(self.schema.as_deref(), table, fold, longest)?;
        let columns = [
            identifier("the name column", &self.name_column)?,
            identifier("the lock_until column", &self.lock_until_column)?,
            identifier("the locked_at column", &self.locked_at_column)?,
            identifier("the locked_by column", &self.locked_by_column)?,
        ];
        let names = columns.iter().map(Identifier::as_str).chain(COLUMNS);
        let mut names: Vec<_> = names.map(str::to_ascii_lowercase).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("two columns are named {:?}", pair[0]))
                .advise("give each column its own name"));
        }
        if self.timeout().is_zero() {
            return Err(invalid("the timeout is zero").advise("set it to a few seconds"));
        }
        let zone = self.shared_session_zone.as_deref().map(zone::parse);
        self.shared_session_zone = zone.transpose()?;
        Ok(Options {
            table,
            columns,
            are_lent: false,
            checks_itself: false,
            settings: self,
        })
    }
}

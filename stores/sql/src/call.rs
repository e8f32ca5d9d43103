//! A table of locks, and single calls on it: what they send, and with which values.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{Advice, BoxFuture, Budget, Error, LockName, Operation, Owner, SETTINGS};

use shedlock_provider::{Result, StoreProvider, configuration, invalid};
use shedlock_support::text;
use tokio::sync::OnceCell;

use crate::driver::{Connections, Deadline, Driver, Wanted};
use crate::failure::{Class, Failure};
use crate::options::Options;
use crate::plan::{Plan, Plans};
use crate::schema::{Definition, in_one_line, lines};
use crate::shape::{Column, Shape};
use crate::statement::{Reply, Row, Statement, Values};
use crate::verdict::instant;

/// A table of locks: its connections, its settings, and what is known about its columns.
pub struct SqlStore<B: Driver> {
    pub(crate) connections: Connections<B>,
    pub(crate) options: Options,
    pub(crate) plans: Plans,
    /// What was created while the store was opened, as a migration reports it.
    pub(crate) created: Mutex<Vec<String>>,
    /// Whether a connection was inside a transaction before.
    pub(crate) was_inside: AtomicBool,
    /// What ShedLock for Java has taken lately, if its times may be misread.
    pub(crate) by_java: OnceCell<Option<(String, String)>>,
    /// Which table it must see, if its connections may see another one than those that took the locks.
    place: Option<String>,
}

/// One call of the provider. A single deadline bounds everything that it sends.
pub(crate) struct Call<'a, B: Driver> {
    store: &'a SqlStore<B>,
    pub(crate) deadline: Deadline,
}

/// Omits the statements, which are long.
impl<B: Driver> fmt::Debug for SqlStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(B::STORE)
            .field("table", &self.options.table)
            .field("time", &self.options.time)
            .field("connections", &self.connections)
            .field("shape", &self.plans.known().map(|plan| plan.shape.clone()))
            .finish_non_exhaustive()
    }
}

impl<B: Driver> SqlStore<B> {
    pub(crate) fn new(connections: Connections<B>, mut options: Options) -> Self {
        options.are_lent = connections.are_lent();
        options.checks_itself = options.are_lent && B::IS_ONE_REQUEST;
        if let Some(warning) = connections.warning() {
            tracing::warn!(target: SETTINGS, "{warning}");
        }
        Self {
            connections,
            plans: Plans::new(&options),
            created: Mutex::default(),
            was_inside: AtomicBool::new(false),
            by_java: OnceCell::new(),
            place: None,
            options,
        }
    }

    /// Makes extensions, unlocks and withdrawals prove that they see this table.
    pub(crate) fn at_place(mut self, place: String) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn provider(self) -> StoreProvider<Self> {
        let defaults = self.options.defaults.clone();
        StoreProvider::of(self).with_defaults(defaults)
    }

    /// Returns what was created while the store was opened, once.
    pub(crate) fn take_created(&self) -> Vec<String> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *created)
    }

    pub(crate) fn call(&self) -> Call<'_, B> {
        self.call_within(self.options.timeout())
    }

    /// Starts a call that is ended when this budget is.
    pub(crate) fn call_of(&self, budget: &Budget) -> Call<'_, B> {
        Call {
            store: self,
            deadline: Deadline::of(budget, self.options.timeout()),
        }
    }

    /// Starts a call that returns within this time.
    pub(crate) fn call_within(&self, limit: Duration) -> Call<'_, B> {
        Call {
            store: self,
            deadline: Deadline::new(&self.options.clock, limit),
        }
    }

    /// Values for this owner. `released` is the owner text that the record gets when the lease ends. Both are empty for
    /// statements that use no owner.
    pub(crate) fn values_of<'a>(
        &self,
        name: &'a LockName,
        owner: &'a str,
        released: &'a str,
    ) -> Values<'a> {
        Values {
            name: name.as_str(),
            owner,
            released,
            now: self.now(),
            ..Values::default()
        }
    }

    /// The client's time in whole milliseconds, like ShedLock's clock; zero unless the client's clock judges leases.
    pub(crate) fn now(&self) -> i64 {
        if !self.options.time.is_client() {
            return 0;
        }
        micros(self.options.clock.system_time()) / 1_000 * 1_000
    }

    /// A duration in microseconds, rounded up to the dialect's unit.
    pub(crate) fn micros(
        &self,
        what: impl fmt::Display,
        duration: Duration,
        shape: &Shape,
    ) -> Result<i64> {
        let longest = (B::DIALECT.longest_lease)(&self.options, shape);
        if duration > longest {
            return Err(invalid(format!(
                "{what} of {} is too long for table {}: it stores at most {} from now",
                text::duration(duration),
                self.options.table,
                text::duration(Duration::from_secs(longest.as_secs()))
            ))
            .advise("shorten it"));
        }
        let micros = duration.as_nanos().div_ceil(1_000);
        let unit = u128::from(B::DIALECT.unit.unsigned_abs().max(1));
        Ok(i64::try_from(micros.div_ceil(unit) * unit).unwrap_or(i64::MAX))
    }

    /// The error for a failed statement, which may write (`writes`) or only reads.
    pub(crate) fn explained(&self, failure: Failure, writes: bool) -> Error {
        failure.explained(B::DIALECT, &self.options, writes)
    }
}

impl<B: Driver> Deref for Call<'_, B> {
    type Target = SqlStore<B>;

    fn deref(&self) -> &SqlStore<B> {
        self.store
    }
}

impl<B: Driver> Call<'_, B> {
    /// The plan in use. Reads the table's shape if there is no plan yet, or if missing columns may have been added
    /// since.
    pub(crate) async fn plan(&self) -> Result<Arc<Plan>> {
        match self.plans.fresh(self.options.clock.now()) {
            Some(plan) => Ok(plan),
            None => self.look().await,
        }
    }

    /// The plan for a lease that was taken over other connections, perhaps: it is read again each time, unless the
    /// connections are the same.
    pub(crate) async fn plan_of_lease(&self) -> Result<Arc<Plan>> {
        let Some(place) = &self.store.place else {
            return self.plan().await;
        };
        let plan = self.look().await?;
        if !place.is_empty() && plan.place == *place {
            return Ok(plan);
        }
        Err(configuration(format!(
            "the connection that was opened to extend and end leases does not see the same table {} as your pool ({} \
             instead of {place}), so it is not used",
            self.options.table, plan.place
        ))
        .advise(
            "name the schema in the table's name, rather than in what your pool runs after it has connected",
        ))
    }

    /// A plan that passes this check. If the known plan fails it, the table may have been altered, so the shape is read
    /// once more before the call fails.
    pub(crate) async fn plan_for(&self, check: impl Fn(&Plan) -> Result<()>) -> Result<Arc<Plan>> {
        let mut plan = self.plan().await?;
        if check(&plan).is_err() {
            plan = self.look().await?;
            check(&plan)?;
        }
        Ok(plan)
    }

    /// Reads the table's shape. Rare, and awaited in many places: boxed, so that each of them does not repeat its code.
    pub(crate) fn look(&self) -> BoxFuture<'_, Result<Arc<Plan>>> {
        Box::pin(async {
            let columns = self.columns().await?;
            if columns.is_empty() {
                self.plans.forget();
                self.check_absence().await?;
            }
            self.keep(&columns)
        })
    }

    /// Refuses a missing table that must not be created: its schema does not exist, or another table may be meant.
    pub(crate) async fn check_absence(&self) -> Result<()> {
        self.check_schema().await?;
        self.check_others().await
    }

    /// Refuses a table whose schema does not exist.
    pub(crate) async fn check_schema(&self) -> Result<()> {
        let Some(schema) = &self.options.table.schema else {
            return Ok(());
        };
        let statement = B::DIALECT.finding_schema(&self.options, schema);
        if self
            .asked(&statement)
            .await?
            .row()
            .is_some_and(Row::is_true)
        {
            return Ok(());
        }
        let what = format!("schema {:?} does not exist", schema.as_str());
        Err(configuration(what)
            .advise("create it, or correct ?schema= or ?table= in the store's URL"))
    }

    /// Keeps the shape of a table with these columns.
    pub(crate) fn keep(&self, columns: &[Column]) -> Result<Arc<Plan>> {
        let (plans, options, dialect) = (&self.plans, &self.options, B::DIALECT);
        let Some(first) = columns.first() else {
            plans.forget();
            let creation = in_one_line(&dialect.table_creation(options));
            return Err(configuration(format!("table {} is missing", options.table))
                .advise(("create it with", Operation::Migrate))
                .advise(Advice::Statements("or run".into(), vec![creation])));
        };
        plans.clock.observe(instant(first.server_time));
        let shape = dialect.shape(options, columns)?;
        Ok(plans.keep(dialect, options, shape, &first.place))
    }

    /// The table's columns as they are now; empty if there is no table.
    ///
    /// No session keeps the probe as a prepared statement: it runs rarely, and MariaDB 10.11 was seen to crash when a
    /// prepared statement over its information_schema ran a second time.
    ///
    /// The first look decides which table it is, if the options name no schema. Each later one looks there, whatever its
    /// session finds by the bare name, until there is no such table any more.
    pub(crate) async fn columns(&self) -> Result<Vec<Column>> {
        loop {
            let schema = self.plans.schema();
            let options = self.options.found_in(schema.as_ref());
            let columns = self.columns_at(&options).await;
            let columns = columns.map_err(|failure| self.explained(failure, false))?;
            let first = columns.first();
            let found = first.and_then(|column| self.options.schema_found(column));
            if self.plans.settles(schema.as_ref(), found) {
                return Ok(columns);
            }
        }
    }

    /// The columns of the table of these options.
    pub(crate) async fn columns_at(&self, options: &Options) -> Result<Vec<Column>, Failure> {
        let probe = B::DIALECT.probing(options);
        let values = Values::default();
        let mut answer = self.send(&probe, &values, Wanted::Any).await;
        if matches!(&answer, Err(failure) if failure.class == Class::ReplyLost) {
            answer = self.send(&probe, &values, Wanted::Any).await;
        }
        let rows = answer.and_then(Reply::readable)?.rows.into_iter();
        Ok(rows.filter_map(|row| row.column).collect())
    }

    #[cfg(feature = "file")]
    /// Creates the table unless it exists. Returns true if this call created it.
    pub(crate) async fn create_if_missing(&self) -> Result<bool> {
        if !self.columns().await?.is_empty() {
            return Ok(false);
        }
        self.check_absence().await?;
        let creation = B::DIALECT.creation(&self.options);
        self.define(&creation.statement, &[]).await
    }

    /// Returns false if another process made the same change first. `next` is what is to follow, for the error of a user
    /// who may not do this.
    pub(crate) async fn define(&self, statement: &Statement, next: &[Definition]) -> Result<bool> {
        tracing::debug!(sql = in_one_line(statement.text()), "migration");
        let values = Values::default();
        let answer = self.send(statement, &values, Wanted::Proven).await;
        let Err(failure) = answer else {
            return Ok(true);
        };
        match failure.class {
            Class::Exists => Ok(false),
            Class::Privilege => Err(failure.causing(
                configuration(format!(
                    "the database user may not create or alter table {}",
                    self.options.table
                ))
                .advise(Advice::Statements(
                    "migrate as a user who may, or have such a user run".into(),
                    lines(statement, next),
                )),
            )),
            _ => Err(self.explained(failure, true)),
        }
    }
}

pub(crate) fn check_length(name: &LockName, shape: &Shape) -> Result<()> {
    let (characters, longest) = (name.as_str().chars().count(), shape.name.length);
    if characters <= longest {
        return Ok(());
    }
    Err(invalid(format!(
        "the name has {characters} characters but the table's column holds {longest}"
    ))
    .advise("shorten it, or widen the column"))
}

/// Rejects an owner that its column would truncate, as some servers do: its lease would never be found again.
pub(crate) fn check_owner(owner: &Owner, shape: &Shape, options: &Options) -> Result<()> {
    check_owner_text(&owner.released(), shape, options)
}

/// The same for the whole text.
pub(crate) fn check_owner_text(owner: &str, shape: &Shape, options: &Options) -> Result<()> {
    let (needed, longest) = (owner.chars().count(), shape.locked_by.length);
    if needed <= longest {
        return Ok(());
    }
    let (column, table) = (options.columns[3].as_str(), &options.table);
    Err(configuration(format!(
        "the owner {owner:?} needs {needed} characters but column {column:?} of table {table} \
         holds {longest}"
    ))
    .advise("widen the column to VARCHAR(255)"))
}

/// An instant in microseconds since 1970 (UTC), as servers count, rounded down.
pub(crate) fn micros(instant: SystemTime) -> i64 {
    instant.duration_since(UNIX_EPOCH).map_or(0, floor_micros)
}

pub(crate) fn floor_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

//! A table of locks, and single calls of it: what they send, and for how long they wait.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::Error;
use shedlock_store::{Result, StoreProvider, configuration};

use crate::contended::Contended;
use crate::deadline::Deadline;
use crate::driver::{Connections, Driver, Wanted};
use crate::explain::explain;
use crate::failure::{Class, Failure};
use crate::options::Options;
use crate::plan::{Plan, Plans};
use crate::shape::Column;
use crate::statement::{Reply, Statement, Values};
use crate::verdict::instant;

/// A table of locks: its connections, its settings, and what was found of it.
pub struct SqlStore<B: Driver> {
    connections: Connections<B>,
    pub(crate) options: Options,
    pub(crate) plans: Plans,
    pub(crate) contended: Contended,
}

/// One call of the provider: everything that it sends is bounded by one deadline.
pub(crate) struct Call<'a, B: Driver> {
    store: &'a SqlStore<B>,
    deadline: Deadline<'a>,
}

/// Without the statements, which are long.
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
    pub(crate) fn new(connections: Connections<B>, options: Options) -> Self {
        if let Some(warning) = connections.warning() {
            tracing::warn!(table = %options.table, "{warning}");
        }
        Self {
            connections,
            plans: Plans::new(&options),
            contended: Contended::default(),
            options,
        }
    }

    pub(crate) fn provider(self) -> StoreProvider<Self> {
        let defaults = self.options.defaults.clone();
        StoreProvider::new(self).with_defaults(defaults)
    }

    pub(crate) fn call(&self) -> Call<'_, B> {
        self.call_of(self.options.timeout())
    }

    /// A call that begins now, made by someone who waits for this long.
    pub(crate) fn call_of(&self, patience: Duration) -> Call<'_, B> {
        let options = &self.options;
        Call {
            store: self,
            deadline: Deadline::new(&*options.clock, options.timeout(), patience),
        }
    }

    /// The error for a failure of a statement that may write (`writes`) or only reads.
    pub(crate) fn explained(&self, failure: Failure, writes: bool) -> Error {
        explain(B::DIALECT, &self.options.table, failure, writes)
    }
}

impl<B: Driver> Deref for Call<'_, B> {
    type Target = SqlStore<B>;

    fn deref(&self) -> &SqlStore<B> {
        self.store
    }
}

impl<B: Driver> Call<'_, B> {
    /// The plan in use; looks at the table if there is none yet, or if its columns may have come
    /// in the meantime.
    pub(crate) async fn plan(&self) -> Result<Arc<Plan>> {
        match self.plans.fresh(self.options.clock.now()) {
            Some(plan) => Ok(plan),
            None => self.look().await,
        }
    }

    /// A plan that passes this check. The table may have been altered since it was looked at; the call fails otherwise,
    /// so looking again is fair.
    pub(crate) async fn plan_for(&self, check: impl Fn(&Plan) -> Result<()>) -> Result<Arc<Plan>> {
        let mut plan = self.plan().await?;
        if check(&plan).is_err() {
            plan = self.look().await?;
            check(&plan)?;
        }
        Ok(plan)
    }

    pub(crate) async fn look(&self) -> Result<Arc<Plan>> {
        let columns = self.columns().await?;
        let (plans, options, dialect) = (&self.plans, &self.options, B::DIALECT);
        let Some(first) = columns.first() else {
            plans.forget();
            return Err(configuration(format!(
                "there is no table {}: create it with `shedlock migrate --store …` or with: {}",
                options.table,
                dialect.table_creation(options).text()
            )));
        };
        plans.clock.observe(instant(first.server_time));
        let shape = dialect.shape(options, &columns)?;
        Ok(plans.keep(dialect, options, shape))
    }

    /// The table's columns as they are now; none where there is no table.
    ///
    /// The probe is not prepared: it is asked rarely, and MariaDB 10.11 was seen to crash when a prepared
    /// statement over its information_schema was run again.
    pub(crate) async fn columns(&self) -> Result<Vec<Column>> {
        let probe = B::DIALECT.probing(&self.options);
        let values = Values::default();
        let mut answer = self.send(&probe, &values, false, Wanted::Any).await;
        if matches!(&answer, Err(failure) if failure.class == Class::ReplyLost) {
            answer = self.send(&probe, &values, false, Wanted::Proven).await;
        }
        let reply = answer.and_then(Reply::readable);
        let rows = reply
            .map_err(|failure| self.explained(failure, false))?
            .rows;
        Ok(rows.into_iter().filter_map(|row| row.column).collect())
    }

    pub(crate) async fn send(
        &self,
        statement: &Statement,
        values: &Values<'_>,
        prepared: bool,
        wanted: Wanted,
    ) -> Result<Reply, Failure> {
        let mut held = self.connections.acquire(wanted, &self.deadline).await?;
        let was_used = !held.is_new();
        let answer = {
            let run = B::run(held.session(), statement, values, prepared);
            self.deadline.answer(pin!(run)).await
        };
        let result = answer.unwrap_or_else(|| Err(Failure::silent()));
        // A refusal is an answer too.
        let is_fit = |failure: &Failure| failure.class.spares_connection();
        if result.as_ref().err().is_none_or(is_fit) {
            held.finished();
        }
        result.map_err(|failure| Failure {
            was_used,
            ..failure
        })
    }
}

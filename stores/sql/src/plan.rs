//! The table's shape and the statements for it, found at first contact and again when they fail.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use shedlock_core::{Moment, StoreClock};
use shedlock_store::{Result, configuration};

use crate::dialect::{Dialect, Statements};
use crate::driver::{Driver, Wanted};
use crate::explain::explain;
use crate::failure::Class;
use crate::options::Options;
use crate::send::Call;
use crate::shape::{Column, Shape};
use crate::statement::{Reply, Values};
use crate::verdict::instant;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) statements: Statements,
    found_at: Moment,
}

/// The plan that is in use. It describes the table, never its rows (law 7).
#[derive(Debug)]
pub(crate) struct Plans {
    plan: RwLock<Option<Arc<Plan>>>,
    /// The server's, as it was last seen.
    pub(crate) clock: StoreClock,
}

/// A table that lacks columns of ours is looked at again after this long, so that a `migrate` by
/// another process takes effect here without a restart.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl Plans {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            plan: RwLock::new(None),
            clock: StoreClock::with_clock(Arc::clone(&options.clock)),
        }
    }

    pub(crate) fn known(&self) -> Option<Arc<Plan>> {
        self.plan
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, plan: Option<Arc<Plan>>) {
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    fn keep(&self, dialect: &Dialect, options: &Options, shape: Shape) -> Arc<Plan> {
        let known = self.known();
        let statements = match &known {
            Some(plan) if plan.shape == shape => plan.statements.clone(),
            _ => dialect.statements(options, &shape),
        };
        let said = known.map_or_else(Vec::new, |plan| dialect.warnings(options, &plan.shape));
        for warning in dialect.warnings(options, &shape) {
            if !said.contains(&warning) {
                tracing::warn!(table = %options.table, "{warning}");
            }
        }
        let plan = Arc::new(Plan {
            statements,
            shape,
            found_at: options.clock.now(),
        });
        self.set(Some(Arc::clone(&plan)));
        plan
    }
}

impl<B: Driver> Call<'_, B> {
    /// The plan in use; looks at the table if there is none yet, or if its columns may have come
    /// in the meantime.
    pub(crate) async fn plan(&self) -> Result<Arc<Plan>> {
        let now = self.options.clock.now();
        let is_fresh = |plan: &Arc<Plan>| {
            plan.shape.is_complete() || now.saturating_since(plan.found_at) < LOOK_AGAIN
        };
        match self.plans.known().filter(is_fresh) {
            Some(plan) => Ok(plan),
            None => self.look().await,
        }
    }

    pub(crate) async fn look(&self) -> Result<Arc<Plan>> {
        let columns = self.columns().await?;
        let (plans, options, dialect) = (&self.plans, &self.options, B::DIALECT);
        let Some(first) = columns.first() else {
            plans.set(None);
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
        match answer.and_then(Reply::readable) {
            Ok(reply) => Ok(reply
                .rows
                .into_iter()
                .filter_map(|row| row.column)
                .collect()),
            Err(failure) => Err(explain(B::DIALECT, failure, &self.options, false)),
        }
    }
}

//! The table's shape and the statements for it, found at first contact and again when they fail.

use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use shedlock_core::{Error, ErrorKind, Moment, StoreClock};

use crate::deadline::Deadline;
use crate::dialect::{Dialect, Statements};
use crate::driver::{Class, Connections, Driver, Failure, Wanted};
use crate::explain::explain;
use crate::options::Options;
use crate::shape::{Column, Shape};
use crate::verdict::instant;

/// A shape with its statements.
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
    clock: StoreClock,
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

    /// The server's clock, as it was last seen.
    pub(crate) fn clock(&self) -> &StoreClock {
        &self.clock
    }

    /// The plan in use, if there was any contact.
    pub(crate) fn known(&self) -> Option<Arc<Plan>> {
        self.plan
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The plan in use; looks at the table if there is none yet, or if its columns may have come
    /// in the meantime.
    pub(crate) async fn get<B: Driver>(
        &self,
        connections: &Connections<B>,
        options: &Options,
        deadline: &Deadline<'_>,
    ) -> Result<Arc<Plan>, Error> {
        match self.known() {
            Some(plan) if !plan.is_stale(options) => Ok(plan),
            _ => self.look(connections, options, deadline).await,
        }
    }

    /// Looks at the table now.
    pub(crate) async fn look<B: Driver>(
        &self,
        connections: &Connections<B>,
        options: &Options,
        deadline: &Deadline<'_>,
    ) -> Result<Arc<Plan>, Error> {
        let columns = probe(connections, options, deadline)
            .await
            .map_err(|failure| explain::<B>(failure, options, false))?;
        let dialect = B::dialect();
        let Some(first) = columns.first() else {
            self.forget();
            return Err(missing::<B>(options));
        };
        self.clock.observe(instant(first.server_time));
        let shape = dialect.shape(options, &columns)?;
        Ok(self.keep(dialect, options, shape))
    }

    fn keep(&self, dialect: &dyn Dialect, options: &Options, shape: Shape) -> Arc<Plan> {
        let known = self.known();
        let is_new = known.as_ref().is_none_or(|plan| plan.shape != shape);
        if is_new {
            let known = known.as_ref();
            let said = known.map_or_else(Vec::new, |plan| dialect.warnings(options, &plan.shape));
            for warning in dialect.warnings(options, &shape) {
                if !said.contains(&warning) {
                    tracing::warn!(table = %options.table, "{warning}");
                }
            }
        }
        let statements = match known {
            Some(plan) if !is_new => plan.statements.clone(),
            _ => dialect.statements(options, &shape),
        };
        let plan = Arc::new(Plan {
            statements,
            shape,
            found_at: options.clock.now(),
        });
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&plan));
        plan
    }

    fn forget(&self) {
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Plan {
    fn is_stale(&self, options: &Options) -> bool {
        !self.shape.is_complete()
            && options.clock.now().saturating_since(self.found_at) >= LOOK_AGAIN
    }
}

/// The table's columns as they are now; none where there is no table.
pub(crate) async fn probe<B: Driver>(
    connections: &Connections<B>,
    options: &Options,
    deadline: &Deadline<'_>,
) -> Result<Vec<Column>, Failure> {
    let statement = B::dialect().probing(options);
    let mut wanted = Wanted::Any;
    loop {
        let mut held = connections.acquire(wanted, deadline).await?;
        let answer = {
            let columns = B::columns(&mut held, &statement);
            deadline.answer(pin!(columns)).await
        };
        let failure = match answer {
            Some(Ok(columns)) => {
                held.finished();
                return Ok(columns);
            }
            Some(Err(error)) => B::running(error),
            None => Failure::silent(),
        };
        if wanted == Wanted::Proven || failure.class != Class::ReplyLost {
            return Err(failure);
        }
        wanted = Wanted::Proven;
    }
}

fn missing<B: Driver>(options: &Options) -> Error {
    let ddl = B::dialect().create_table(options);
    Error::new(
        ErrorKind::Configuration,
        format!(
            "there is no table {}: create it with `shedlock migrate --store …` or with: {}",
            options.table,
            ddl.text()
        ),
    )
}

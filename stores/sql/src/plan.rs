//! The table's shape and the statements for it, read on first contact and again after they fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shedlock_core::{Moment, SETTINGS, StoreClock};
use tokio::sync::watch;

use crate::dialect::{Dialect, Statements};
use crate::identifier::Identifier;
use crate::options::Options;
use crate::shape::Shape;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) statements: Statements,
    /// Which table this is, as the dialect's probe reports it.
    pub(crate) place: String,
    found_at: Moment,
}

/// The plan in use. It describes the table, never its rows (law 7).
#[derive(Debug)]
pub(crate) struct Plans {
    plan: watch::Sender<Option<Arc<Plan>>>,
    /// The schema in which the table was found first, if the options name none.
    schema: Mutex<Option<Identifier>>,
    /// The server's clock, as last observed.
    pub(crate) clock: StoreClock,
}

/// How long the shape of a bare table is used before it is read again. After that time a `migrate` by another process
/// takes effect here without a restart.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl Plans {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            plan: watch::Sender::new(None),
            schema: Mutex::default(),
            clock: StoreClock::with_clock(Arc::clone(&options.clock)),
        }
    }

    pub(crate) fn known(&self) -> Option<Arc<Plan>> {
        self.plan.borrow().clone()
    }

    pub(crate) fn schema(&self) -> Option<Identifier> {
        self.schema_found().clone()
    }

    /// Settles the schema of the table, which was looked for in `asked` and found in `found`. Returns false if it is to be
    /// looked for again: it has gone from there, or another call has found it elsewhere meanwhile.
    pub(crate) fn settles(&self, asked: Option<&Identifier>, found: Option<Identifier>) -> bool {
        let mut known = self.schema_found();
        if known.as_ref() != asked {
            return false;
        }
        *known = found;
        asked.is_none() || known.is_some()
    }

    fn schema_found(&self) -> MutexGuard<'_, Option<Identifier>> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The known plan, unless it lacks our columns and is old enough that they may have been added since.
    pub(crate) fn fresh(&self, now: Moment) -> Option<Arc<Plan>> {
        self.known().filter(|plan| {
            plan.shape.is_complete || now.saturating_since(plan.found_at) < LOOK_AGAIN
        })
    }

    /// Discards the plan: there is no table.
    pub(crate) fn forget(&self) {
        self.plan.send_replace(None);
    }

    /// Follows the plan in use.
    pub(crate) fn follow(&self) -> watch::Receiver<Option<Arc<Plan>>> {
        self.plan.subscribe()
    }

    pub(crate) fn keep(
        &self,
        dialect: &Dialect,
        options: &Options,
        shape: Shape,
        place: &str,
    ) -> Arc<Plan> {
        let known = self.known();
        let statements = match &known {
            Some(plan) if plan.shape == shape => plan.statements.clone(),
            _ => dialect.statements(options, &shape),
        };
        let said = known.map_or_else(Vec::new, |plan| dialect.warnings(options, &plan.shape));
        for warning in dialect.warnings(options, &shape) {
            if !said.contains(&warning) {
                let remedy = warning.remedy.unwrap_or_default();
                tracing::warn!(target: SETTINGS, table = %options.table, "{}; {remedy}", warning.message);
            }
        }
        let plan = Arc::new(Plan {
            statements,
            shape,
            place: place.to_owned(),
            found_at: options.clock.now(),
        });
        self.plan.send_replace(Some(Arc::clone(&plan)));
        plan
    }
}

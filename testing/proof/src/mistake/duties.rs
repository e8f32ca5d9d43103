//! Mistakes of what extends a lease while its task blocks its thread.

use std::future::ready;
use std::sync::Arc;

use shedlock_core::{BoxFuture, Error, LockProvider};
use shedlock_provider::MemoryProvider;

use super::about::{About, Known};
use super::site::Site;

/// Duties are declared, and there is nothing for them but the task's runtime.
pub(super) struct DutiesOnTheTasksRuntime;

impl Known for DutiesOnTheTasksRuntime {
    const ABOUT: About =
        About::new("duties-on-the-tasks-runtime").caught_by(EXTENDS_THE_SAME_LEASE);

    fn for_duties(_site: &Site) -> Opened<'_> {
        None
    }
}

/// What is opened for duties sees other records, as behind another search path.
pub(super) struct DutyLooksElsewhere;

impl Known for DutyLooksElsewhere {
    const ABOUT: About = About::new("duty-looks-elsewhere").caught_by(EXTENDS_THE_SAME_LEASE);

    fn for_duties(_site: &Site) -> Opened<'_> {
        let elsewhere: Arc<dyn LockProvider> = Arc::new(MemoryProvider::new());
        Some(Box::pin(ready(Ok(elsewhere))))
    }
}

/// What a provider opens for duties, if it can.
pub(super) type Opened<'a> = Option<BoxFuture<'a, Result<Arc<dyn LockProvider>, Error>>>;

const EXTENDS_THE_SAME_LEASE: &[&str] =
    &["declared::what_is_opened_for_duties_extends_the_same_lease"];

//! A test case of a law.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::BoxFuture;

use crate::{Tag, TestContext, Verdict};

type Run = dyn for<'a> Fn(&'a TestContext) -> BoxFuture<'a, Verdict> + Send + Sync;

/// One named test case.
#[derive(Clone)]
pub struct Case {
    name: Cow<'static, str>,
    run: Arc<Run>,
    tags: &'static [Tag],
    limit: Duration,
}

impl Case {
    /// The default time limit. A case that takes longer counts as hanging;
    /// [`with_limit`](Self::with_limit) changes the limit.
    pub const LIMIT: Duration = Duration::from_secs(120);

    /// Creates a case. Its name contains the law and what is checked.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        run: impl for<'a> Fn(&'a TestContext) -> BoxFuture<'a, Verdict> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Arc::new(run),
            tags: &[],
            limit: Self::LIMIT,
        }
    }

    /// Sets how long the case may take. Creating and removing its namespace may take as long each, and at most
    /// [`LIMIT`](Self::LIMIT).
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets what the case is about. A case without tags runs only on harnesses that run all cases.
    #[must_use]
    pub const fn about(mut self, tags: &'static [Tag]) -> Self {
        self.tags = tags;
        self
    }

    /// Returns the law and what is checked: "law03_ownership::unlock_after_expiry_is_lost".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how long the case may take.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns what the case is about.
    pub fn tags(&self) -> &'static [Tag] {
        self.tags
    }

    /// Runs the case in this context, which must be a fresh one.
    ///
    /// [`run_case`](crate::run_case) also makes the context and cleans up.
    pub fn run<'a>(&self, context: &'a TestContext) -> BoxFuture<'a, Verdict> {
        (self.run)(context)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// Lists the cases of a module, each named after the law and its function. The brackets after a law
/// hold the tags of all its cases; the brackets after a case hold its additional tags.
macro_rules! cases {
    ($($law:literal $tags:tt: $($name:ident $([$($more:ident),+])?),* $(,)?);* $(;)?) => {
        /// The cases of this module.
        pub fn cases() -> Vec<$crate::Case> {
            vec![$($($crate::Case::new(
                concat!($law, "::", stringify!($name)),
                |context| Box::pin($name(context)),
            )
            .about($crate::case::tags!($tags $([$($more),+])?))),*),*]
        }
    };
}
pub(crate) use cases;

macro_rules! tags {
    ([$($tag:ident),+] $([$($more:ident),+])?) => {
        &[$($crate::Tag::$tag,)+ $($($crate::Tag::$more),+)?]
    };
}
pub(crate) use tags;

//! A law as something that runs.

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
    /// A case that takes longer than this hangs, unless [it says so](Self::with_limit).
    pub const LIMIT: Duration = Duration::from_secs(120);

    /// A case of this name, which says the law and what is checked.
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

    /// The same, which may take this long.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The same, about this. A case without tags runs only where all do.
    #[must_use]
    pub const fn about(mut self, tags: &'static [Tag]) -> Self {
        self.tags = tags;
        self
    }

    /// The law and what is checked: "law03_ownership::unlock_after_expiry_is_lost".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long it may take.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// What it is about.
    pub fn tags(&self) -> &'static [Tag] {
        self.tags
    }

    /// Runs it in this context, which must be a fresh one.
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

/// The list of a module's cases, each named after the law and its function. In brackets what all of
/// a law's cases are about, and what one of them is about besides.
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

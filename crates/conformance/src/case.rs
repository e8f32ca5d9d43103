//! A law as something that runs.

use std::fmt;

use shedlock_core::BoxFuture;

use crate::{TestContext, Verdict};

/// One named test case.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    run: for<'a> fn(&'a TestContext) -> BoxFuture<'a, Verdict>,
}

impl Case {
    pub(crate) const fn new(
        name: &'static str,
        run: for<'a> fn(&'a TestContext) -> BoxFuture<'a, Verdict>,
    ) -> Self {
        Self { name, run }
    }

    /// The law and what is checked: "law03_ownership::unlock_after_expiry_is_lost".
    pub fn name(&self) -> &'static str {
        self.name
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

/// The list of a module's cases, each named after the law and its function.
macro_rules! cases {
    ($($law:literal: $($name:ident),* $(,)?);* $(;)?) => {
        /// The cases of this module.
        pub fn cases() -> Vec<$crate::Case> {
            vec![$($($crate::Case::new(
                concat!($law, "::", stringify!($name)),
                |context| Box::pin($name(context)),
            )),*),*]
        }
    };
}
pub(crate) use cases;

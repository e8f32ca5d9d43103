//! The attributes in a crate that forbids lints, so that no expansion may allow them, and whose constants have the names
//! of variables. It compiles, with rustc and with clippy.
#![cfg(all(feature = "macros", feature = "scheduler"))]
#![forbid(
    non_camel_case_types,
    unreachable_code,
    unused_imports,
    unused_variables,
    clippy::diverging_sub_expression,
    clippy::empty_enums,
    clippy::empty_loop,
    clippy::let_unit_value,
    clippy::let_with_type_underscore,
    clippy::literal_string_with_formatting_args,
    clippy::needless_pass_by_value,
    clippy::needless_return,
    clippy::redundant_locals,
    clippy::type_complexity,
    clippy::used_underscore_binding
)]
#![forbid(unused, clippy::all)]

use std::sync::Arc;

use functions::*;
use shedlock::{Error, Executor, LockConfig, MemoryProvider, with_provider};

/// Defines constants with these names, and uses them.
macro_rules! constants {
    ($($name:ident)*) => {
        $(
            #[allow(non_upper_case_globals, reason = "as in bindings that a tool wrote")]
            const $name: u8 = 1;
        )*

        pub(crate) fn constants() -> [u8; 26] {
            [$($name),*]
        }
    };
}

mod functions {
    use std::collections::HashMap;
    use std::convert::Infallible;
    use std::sync::Arc;

    use shedlock::scheduler::JobRun;
    use shedlock::{Error, Outcome, scheduled, scheduler_lock};

    constants! {
        output value error config call run job task ended argument_0 argument_1 failure executor
        name schedule provider returned result outcome lock held this inner body grid state
    }

    pub(crate) type Nested = Result<Option<HashMap<String, Vec<Arc<Result<u8, Error>>>>>, Error>;

    #[scheduler_lock(name = "a", lock_at_most_for = "1m")]
    pub(crate) async fn fails() -> Result<(), Error> {
        Ok(())
    }

    #[scheduler_lock(name = "b", lock_at_most_for = "1m")]
    pub(crate) async fn unit() {}

    #[scheduler_lock(name = "c", lock_at_most_for = "1m")]
    pub(crate) async fn complex()
    -> Result<Option<HashMap<String, Vec<Arc<Result<u8, Error>>>>>, Error> {
        Ok(None)
    }

    #[scheduler_lock(name = "d", lock_at_most_for = "1m")]
    pub(crate) fn blocking() -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    #[scheduler_lock(name = "e", lock_at_most_for = "1m")]
    pub(crate) fn nested() -> Nested {
        Ok(None)
    }

    #[scheduler_lock(name = "f", lock_at_most_for = "1m")]
    pub(crate) async fn without_text() -> Outcome<Result<Infallible, Vec<u8>>> {
        Err(Vec::new())
    }

    #[scheduler_lock(name = "g", lock_at_most_for = "1m")]
    pub(crate) async fn never_ends() -> Option<Infallible> {
        loop {
            tokio::task::yield_now().await;
        }
    }

    #[scheduler_lock(name = "h-{a}", lock_at_most_for = "1m")]
    pub(crate) async fn of_parts(a: u8, (_, kept): (String, String), _: String) -> Option<usize> {
        Some(kept.len() + usize::from(a))
    }

    #[scheduler_lock(name = "i", lock_at_most_for = "1m")]
    pub(crate) async fn of_parts_that_never_ends((_, kept): (String, String)) -> Result<(), Error> {
        loop {
            drop(kept.clone());
            tokio::task::yield_now().await;
        }
    }

    #[scheduler_lock(name = "j-{id}", lock_at_most_for = "1m")]
    pub(crate) fn of_parts_blocking(id: String, [first, ..]: [String; 3]) -> Option<usize> {
        Some(first.len())
    }

    #[scheduler_lock(name = "k", lock_at_most_for = "1m", keep_alive)]
    pub(crate) fn future(given: Vec<u8>) -> impl Future<Output = Outcome<Vec<u8>>> {
        async move { given }
    }

    #[scheduler_lock(name = "l", lock_at_most_for = "1m")]
    pub(crate) async fn generic<T: Clone + Send, const N: usize>(
        of: [T; N],
    ) -> Result<Option<T>, Error> {
        Ok(of.first().cloned())
    }

    #[scheduler_lock(name = "m", lock_at_most_for = "1m")]
    pub(crate) async fn of_underscored(_guard: Arc<String>, _: u8) {}

    #[scheduler_lock(crate = ::shedlock, name = "s", lock_at_most_for = "1m")]
    pub(crate) async fn renamed((_, kept): (String, String)) -> Result<(), Error> {
        loop {
            drop(kept.clone());
            tokio::task::yield_now().await;
        }
    }

    pub(crate) struct Service;

    impl Service {
        #[scheduler_lock(name = "n", lock_at_most_for = "1m")]
        pub(crate) async fn method(&self) -> Result<(), Error> {
            Ok(())
        }

        #[scheduler_lock(name = "o", lock_at_most_for = "1m")]
        pub(crate) fn by_value(self, _left: Vec<u8>) -> Option<u8> {
            None
        }
    }

    #[scheduled(
        every = "1h",
        anchor = "2026-01-01T00:00:00Z",
        late = "5m",
        overlap = "skip"
    )]
    #[scheduler_lock(name = "p-{tenant}", lock_at_most_for = "1m", keep_alive)]
    pub(crate) async fn scheduled_job(
        tenant: String,
        clients: Arc<Vec<u8>>,
        tick: JobRun,
    ) -> Result<(), Error> {
        drop((clients, tick));
        Ok(())
    }

    #[scheduled(
        cron = "0 * * * *",
        must_not_be_lost,
        max_attempts = 2,
        backoff = "1s",
        run_at_start = true
    )]
    #[scheduler_lock(name = "q", lock_at_most_for = "1m")]
    pub(crate) fn scheduled_blocking(text: String) {
        assert!(text.is_empty());
    }

    #[scheduled(fixed_delay = "1m")]
    #[scheduler_lock(name = "r", lock_at_most_for = "1m")]
    pub(crate) fn scheduled_without_arguments() {}
}

#[test]
fn attributes_need_no_lint_to_be_allowed() -> Result<(), Error> {
    let executor = Executor::new(Arc::new(MemoryProvider::new()));
    let all = async {
        fails().await?;
        unit().await;
        assert!(complex().await?.is_none());
        assert!(without_text().await.is_executed());
        let kept = || (String::new(), "kept".to_owned());
        assert_eq!(of_parts(3, kept(), String::new()).await, Some(7));
        assert_eq!(future(vec![1]).await.value(), Some(vec![1]));
        assert_eq!(generic([1]).await?, Some(1));
        of_underscored(Arc::default(), 0).await;
        Service.method().await?;
        Ok(())
    };
    drop((
        never_ends(),
        of_parts_that_never_ends((String::new(), String::new())),
    ));
    drop(renamed((String::new(), String::new())));
    assert_eq!(constants(), [1; 26]);
    let config = LockConfig::new("all").lock_at_most_for("1m");
    let _functions = (blocking, nested, of_parts_blocking, Service::by_value);
    assert_eq!(
        scheduled_job::job(String::new(), Arc::default()).name(),
        "p-"
    );
    assert_eq!(scheduled_blocking::job(String::new()).name(), "q");
    assert_eq!(scheduled_without_arguments::job().name(), "r");
    let call = with_provider(executor.provider().clone(), executor.execute(&config, all));
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(shedlock::ErrorKind::Internal, error.to_string()))?
        .block_on(call)?
        .value()
        .transpose()
        .map(drop)
}

//! The attribute on async functions, over an in-memory store.
#![allow(clippy::unwrap_used, reason = "a test fails there, and says where")]
#![cfg(feature = "macros")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use shedlock::{
    Attempt, Error, ErrorKind, Executor, LockConfig, LockProvider, LockState, LostReason, Outcome,
    SkipReason, scheduler_lock,
};
use support::{Heard, Log, Store, broken};

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn nothing(executor: &Executor, runs: &mut u32) {
    *runs += 1;
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn option(executor: &Executor, value: Option<&'static str>) -> Option<&'static str> {
    let value = value?;
    Some(value)
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn result(executor: &Executor, text: &str) -> anyhow::Result<()> {
    text.parse::<u32>()?;
    Ok(())
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn result_of_option(executor: &Executor, text: &str) -> anyhow::Result<Option<u32>> {
    Ok(Some(text.parse()?))
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn outcome(executor: &Executor) -> Outcome<u32> {
    7
}

#[scheduler_lock(name = "job", lock_at_most_for = "1m", provider = executor)]
async fn result_of_outcome(executor: &Executor, text: &str) -> anyhow::Result<Outcome<u32>> {
    Ok(text.parse()?)
}

#[tokio::test]
async fn a_free_lock_is_taken_and_given_back() {
    let store = Store::new();
    let executor = &store.executor;
    let mut runs = 0;
    nothing(executor, &mut runs).await;
    nothing(executor, &mut runs).await;
    assert_eq!(runs, 2);
    assert_eq!(option(executor, Some("done")).await, Some("done"));
    assert_eq!(option(executor, None).await, None);
    result(executor, "1").await.unwrap();
    assert_eq!(result_of_option(executor, "2").await.unwrap(), Some(2));
    assert_eq!(outcome(executor).await.value(), Some(7));
    let executed = result_of_outcome(executor, "3").await.unwrap();
    assert!(executed.is_executed());
    assert_eq!(executed.value(), Some(3));
    assert_eq!(store.record("job").await.unwrap().state, LockState::Free);
}

#[tokio::test]
async fn the_bodys_own_errors_pass() {
    let store = Store::new();
    let executor = &store.executor;
    for error in [
        result(executor, "x").await.unwrap_err(),
        result_of_option(executor, "x").await.unwrap_err(),
        result_of_outcome(executor, "x").await.unwrap_err(),
    ] {
        assert!(error.is::<std::num::ParseIntError>(), "{error}");
    }
    assert_eq!(store.record("job").await.unwrap().state, LockState::Free);
}

#[tokio::test]
async fn a_held_lock_skips() {
    let store = Store::new();
    store.hold("job").await;
    let executor = &store.executor;
    let log = Log::start();
    let mut runs = 0;
    nothing(executor, &mut runs).await;
    assert_eq!(runs, 0);
    assert_eq!(option(executor, Some("done")).await, None);
    result(executor, "x").await.unwrap();
    assert_eq!(result_of_option(executor, "x").await.unwrap(), None);
    let skipped = outcome(executor).await;
    assert_eq!(skipped.skip().unwrap().reason, SkipReason::Held);
    assert!(skipped.skip().unwrap().owner.is_some());
    let skipped = result_of_outcome(executor, "x").await.unwrap();
    assert_eq!(skipped.skip().unwrap().reason, SkipReason::Held);
    assert!(log.errors().is_empty(), "a skip is no error");
    assert_eq!(store.heard.events(), ["attempt", "skipped"].repeat(6));
}

#[tokio::test]
async fn a_store_error_is_returned_where_the_type_has_a_place_for_it() {
    let executor = &Executor::new(broken());
    let log = Log::start();
    for error in [
        result(executor, "1").await.unwrap_err(),
        result_of_option(executor, "1").await.unwrap_err(),
        result_of_outcome(executor, "1").await.unwrap_err(),
    ] {
        let error = error.downcast::<Error>().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.lock(), Some("job"));
        assert_eq!(error.store(), Some("broken"));
    }
    assert!(log.errors().is_empty());
}

#[tokio::test]
async fn a_store_error_is_logged_and_reported_to_listeners_where_it_has_none() {
    let heard = Heard::default();
    let executor = &Executor::new(broken()).listener(Arc::new(heard.clone()));
    let expected = [
        "lock=\"job\"",
        "function=\"attribute_async::",
        "connection refused",
        "os error 111",
        "the task did not run",
    ];

    let log = Log::start();
    let mut runs = 0;
    nothing(executor, &mut runs).await;
    assert_eq!(runs, 0);
    log.assert_one_error_with(&expected);
    drop(log);

    let log = Log::start();
    assert_eq!(option(executor, Some("done")).await, None);
    log.assert_one_error_with(&expected);
    drop(log);

    let log = Log::start();
    let never_held = outcome(executor).await;
    assert!(
        never_held.is_lost(),
        "a failing store is never a skip: {never_held:?}"
    );
    log.assert_one_error_with(&expected);

    assert_eq!(heard.events(), ["attempt", "store error"].repeat(3));
}

/// Runs longer than its lease.
async fn outlive(store: &Store) {
    store.clock.advance(Duration::from_secs(61));
    tokio::task::yield_now().await;
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_nothing(store: &Store, finished: &mut bool) {
    outlive(store).await;
    *finished = true;
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_option(store: &Store) -> Option<()> {
    outlive(store).await;
    Some(())
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_result(store: &Store) -> Result<(), Error> {
    outlive(store).await;
    Ok(())
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_result_of_option(store: &Store) -> Result<Option<()>, Error> {
    outlive(store).await;
    Ok(Some(()))
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_outcome(store: &Store) -> Result<Outcome<u8>, Error> {
    outlive(store).await;
    Ok(1)
}

#[tokio::test]
async fn a_task_that_outlives_its_lease_is_stopped_and_that_is_reported() {
    let store = &Store::new();
    let log = Log::start();
    let mut finished = false;
    late_nothing(store, &mut finished).await;
    assert!(!finished);
    log.assert_one_error_with(&["late_nothing", "lease was lost", "stopped"]);
    drop(log);

    let log = Log::start();
    assert_eq!(late_option(store).await, None);
    log.assert_one_error_with(&["late_option", "lease was lost", "stopped"]);
    drop(log);

    let log = Log::start();
    let error = late_result(store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.lock(), Some("late"));
    let error = late_result_of_option(store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(late_outcome(store).await.unwrap().is_lost());
    assert!(log.errors().is_empty(), "the caller got the error");

    let lost = store.heard.events();
    assert_eq!(lost.iter().filter(|event| **event == "lost").count(), 5);
}

#[scheduler_lock(name = "late", lock_at_most_for = "1m", provider = &store.executor)]
async fn late_in_its_last_poll(store: &Store) -> Result<Option<u8>, Error> {
    store.clock.advance(Duration::from_secs(61));
    Ok(Some(9))
}

#[tokio::test]
async fn a_value_that_came_after_the_lease_is_kept() {
    let store = &Store::new();
    let log = Log::start();
    assert_eq!(late_in_its_last_poll(store).await.unwrap(), Some(9));
    log.assert_one_error_with(&[
        "late_in_its_last_poll",
        "lease was lost before the task ended",
    ]);
}

#[scheduler_lock(name = "durations", provider = executor)]
async fn without_durations(executor: &Executor) -> Result<(), Error> {
    Ok(())
}

#[scheduler_lock(name = "durations", lock_at_most_for = at_most, provider = executor)]
async fn computed(executor: &Executor, at_most: &str) -> Result<(), Error> {
    Ok(())
}

#[scheduler_lock(
    name = "durations",
    lock_at_most_for = Duration::from_secs(60),
    lock_at_least_for = "PT30S",
    provider = executor
)]
async fn at_least(executor: &Executor) -> Outcome<()> {}

#[tokio::test]
async fn durations_come_from_the_attribute_or_the_defaults() {
    let store = Store::new();
    let error = without_durations(&store.executor).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("lock_at_most_for is not set"),
        "{error}"
    );
    let defaults = shedlock::LockDefaults::new().lock_at_most_for("1m");
    let executor = store.executor.clone().defaults(defaults);
    without_durations(&executor).await.unwrap();

    computed(&executor, "2m").await.unwrap();
    let error = computed(&executor, "2").await.unwrap_err();
    assert!(error.to_string().contains("cannot read \"2\""), "{error}");

    assert!(at_least(&executor).await.is_executed());
    let skipped = at_least(&executor).await;
    assert_eq!(skipped.skip().unwrap().reason, SkipReason::AtLeast);
    store.clock.advance(Duration::from_secs(31));
    assert!(at_least(&executor).await.is_executed());
}

struct Tenant {
    id: u32,
    region: String,
}

struct Jobs {
    store: Store,
    shards: Vec<&'static str>,
}

impl Jobs {
    const KIND: &'static str = "kind";

    fn region(&self) -> &'static str {
        "eu"
    }

    #[scheduler_lock(
        name = "{Self::KIND}-{self.shards[0]}-{self.region()}-{tenant.id:04}-{tenant.region}-{{x}}",
        lock_at_most_for = "1m",
        provider = &self.store.executor
    )]
    async fn sync(&mut self, tenant: Tenant) -> Option<Tenant> {
        self.shards.push("more");
        Some(tenant)
    }

    #[scheduler_lock(
        name = format!("{}-{extra}", Self::KIND),
        lock_at_most_for = "1m",
        provider = self.store.provider.clone()
    )]
    async fn computed<T: std::fmt::Display>(self: Arc<Self>, extra: T) {}
}

#[tokio::test]
async fn names_take_arguments_and_fields() {
    let store = Store::new();
    let mut jobs = Jobs {
        store: store.clone(),
        shards: vec!["a"],
    };
    let tenant = Tenant {
        id: 7,
        region: "north".to_owned(),
    };
    assert!(jobs.sync(tenant).await.is_some());
    assert_eq!(jobs.shards, ["a", "more"]);
    Arc::new(jobs).computed("extra").await;
    assert_eq!(
        store.names().await,
        ["kind-a-eu-0007-north-{x}", "kind-extra"]
    );
}

#[scheduler_lock(name = "{name}", lock_at_most_for = "1m", provider = executor)]
async fn named(executor: &Executor, name: &str) -> Result<(), Error> {
    Ok(())
}

#[tokio::test]
async fn a_name_that_turns_out_empty_is_refused() {
    let store = Store::new();
    let error = named(&store.executor, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(store.names().await.is_empty());
}

#[scheduler_lock(name = "inside", lock_at_most_for = "1m", provider = executor)]
async fn asserting(executor: &Executor) -> Result<Option<u64>, Error> {
    shedlock::assert_locked()?;
    Ok(shedlock::current_lock().and_then(|lock| lock.fencing_token()))
}

#[tokio::test]
async fn the_body_knows_its_lock() {
    let store = Store::new();
    let first = asserting(&store.executor).await.unwrap();
    let second = asserting(&store.executor).await.unwrap();
    assert!(first.is_some() && first < second, "{first:?} {second:?}");
    assert!(shedlock::assert_locked().is_err());
}

#[tokio::test]
async fn a_future_that_is_dropped_gives_its_lock_back() {
    #[scheduler_lock(name = "dropped", lock_at_most_for = "1m", provider = executor)]
    async fn endless(executor: &Executor) {
        std::future::pending::<()>().await;
    }

    let store = Store::new();
    let mut running = Box::pin(endless(&store.executor));
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    assert!(running.as_mut().poll(&mut context).is_pending());
    assert_eq!(
        store.record("dropped").await.unwrap().state,
        LockState::Held
    );
    drop(running);
    while store.record("dropped").await.unwrap().state == LockState::Held {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
#[should_panic(expected = "in the body")]
async fn a_panic_passes() {
    #[scheduler_lock(name = "panics", lock_at_most_for = "1m", provider = executor)]
    async fn panics(executor: &Executor) {
        panic!("in the body");
    }
    panics(&Store::new().executor).await;
}

#[async_trait::async_trait]
trait Job: Send + Sync {
    async fn run(&self, id: u8) -> Result<Outcome<String>, Error>;
}

#[async_trait::async_trait]
impl Job for Store {
    #[scheduler_lock(name = "boxed-{id}", lock_at_most_for = "1m", provider = &self.executor)]
    async fn run(&self, id: u8) -> Result<Outcome<String>, Error> {
        shedlock::assert_locked()?;
        tokio::task::yield_now().await;
        Ok(id.to_string())
    }
}

#[tokio::test]
async fn methods_of_async_trait_are_locked() {
    let store = Store::new();
    let job: Box<dyn Job> = Box::new(store.clone());
    assert_eq!(job.run(1).await.unwrap().value().as_deref(), Some("1"));
    store.hold("boxed-2").await;
    assert!(job.run(2).await.unwrap().is_skipped());
    assert_eq!(store.names().await, ["boxed-1", "boxed-2"]);
}

#[scheduler_lock(name = "provider", lock_at_most_for = "1m", provider = provider)]
async fn on_a_provider(provider: Arc<dyn LockProvider>) -> Outcome<()> {}

#[tokio::test]
async fn a_provider_by_value_will_do() {
    let store = Store::new();
    assert!(on_a_provider(store.provider.clone()).await.is_executed());
    assert_eq!(store.names().await, ["provider"]);
}

/// Runs for six leases.
async fn run_long(store: &Store) {
    for _ in 0..18 {
        store.clock.advance(Duration::from_secs(20));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[scheduler_lock(name = "long", lock_at_most_for = "1m", keep_alive, provider = &store.executor)]
async fn kept_alive(store: &Store) -> Outcome<&'static str> {
    run_long(store).await;
    "done"
}

#[scheduler_lock(
    name = "long",
    lock_at_most_for = "1m",
    keep_alive = alive,
    max_run_time = "3m",
    provider = &store.executor
)]
async fn bounded(store: &Store, alive: bool) -> Outcome<()> {
    run_long(store).await;
}

#[tokio::test]
async fn keep_alive_outlasts_the_lease_up_to_the_longest_run() {
    let store = Store::new();
    let outcome = kept_alive(&store).await;
    assert!(outcome.is_executed(), "{outcome:?}");
    assert_eq!(outcome.value(), Some("done"));
    for (alive, expected) in [
        (true, LostReason::RanTooLong),
        (false, LostReason::DeadlinePassed),
    ] {
        match bounded(&store, alive).await {
            Outcome::Lost { reason, .. } => assert_eq!(reason, expected),
            other => panic!("{other:?} with keep_alive = {alive}"),
        }
    }
}

#[scheduler_lock(
    name = "busy",
    lock_at_most_for = "1m",
    lock_wait = patience,
    provider = &store.executor
)]
async fn patient(store: &Store, patience: Duration) -> Outcome<()> {}

#[tokio::test]
async fn a_lock_is_waited_for_where_the_attribute_says_so() {
    let store = Store::new();
    let holder = LockConfig::new("busy").lock_at_most_for("1m");
    let Attempt::Acquired(held) = store.executor.lock(&holder).await.unwrap() else {
        panic!("free")
    };
    assert!(patient(&store, Duration::ZERO).await.is_skipped());
    let waiting = patient(&store, Duration::from_secs(10));
    let release = async {
        tokio::task::yield_now().await;
        let _ = held.unlock().await;
        run_long(&store).await;
    };
    let (outcome, ()) = tokio::join!(waiting, release);
    assert!(outcome.is_executed(), "{outcome:?}");
}

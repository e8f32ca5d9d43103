//! Literals and expressions for every key.

use std::sync::Arc;
use std::time::Duration;

use shedlock::{Executor, LockProvider, MemoryProvider, scheduler_lock};

const NAME: &str = "constant";
const AT_MOST: Duration = Duration::from_secs(600);

fn provider() -> Arc<dyn LockProvider> {
    Arc::new(MemoryProvider::new())
}

#[scheduler_lock(name = "a")]
async fn name_alone() {}

#[scheduler_lock(name = "a", lock_at_least_for = "1m",)]
async fn trailing_comma() {}

#[scheduler_lock(name = NAME, lock_at_most_for = AT_MOST, lock_at_least_for = AT_MOST / 2)]
async fn constants() {}

#[scheduler_lock(name = format!("a-{shard}"), lock_at_most_for = format!("{minutes}m"))]
async fn computed(shard: u8, minutes: u8) {}

#[scheduler_lock(name = r#"raw-{shard}"#, lock_at_most_for = "PT1H", lock_at_least_for = "PT1H")]
async fn raw(shard: u8) {}

#[scheduler_lock(name = concat!("a", "-", "b"), lock_at_most_for = "1h 30m")]
async fn concatenated() {}

#[scheduler_lock(name = "a", provider = provider())]
async fn provider_by_value() {}

#[scheduler_lock(name = "a", provider = provider)]
async fn provider_by_argument(provider: &Arc<dyn LockProvider>) {}

#[scheduler_lock(name = "a", provider = provider)]
fn provider_of_a_type(provider: Arc<MemoryProvider>) {}

#[scheduler_lock(name = "a", provider = executor)]
async fn executor(executor: &Executor) {}

struct Jobs {
    executor: Executor,
    shard: u8,
}

impl Jobs {
    #[scheduler_lock(name = "a-{self.shard}", provider = &self.executor)]
    async fn method(&mut self) {
        self.shard += 1;
    }

    #[scheduler_lock(name = "a", lock_at_most_for = "1m", provider = self.executor.clone())]
    fn blocking(self: Arc<Self>) {}
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", keep_alive, max_run_time = "2h")]
async fn kept_alive() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", max_run_time = AT_MOST, keep_alive = long)]
async fn perhaps_kept_alive(long: bool) {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", lock_wait = "30s")]
async fn waits() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", expect_every = "1h")]
async fn is_expected() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", lock_wait = AT_MOST / 10)]
fn waits_blocking() {}

macro_rules! job {
    ($name:literal, $at_most:literal, $with:expr) => {
        #[scheduler_lock(name = $name, lock_at_most_for = $at_most, provider = $with)]
        async fn from_a_macro() {}
    };
}
job!("a", "10m", provider());

fn main() {
    let _ = (name_alone, trailing_comma, constants, computed, raw, concatenated);
    let _ = (provider_by_value, provider_of_a_type, from_a_macro);
    let _ = Jobs::blocking;
}

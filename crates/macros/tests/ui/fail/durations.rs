use shedlock::scheduler_lock;

#[scheduler_lock(name = "a", lock_at_most_for = "10")]
async fn no_unit() {}

#[scheduler_lock(name = "a", lock_at_most_for = 10)]
async fn number() {}

#[scheduler_lock(name = "a", lock_at_most_for = -10)]
async fn negative_number() {}

#[scheduler_lock(name = "a", lock_at_most_for = "-10s")]
async fn negative() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1 month")]
async fn month() {}

#[scheduler_lock(name = "a", lock_at_most_for = "soon")]
async fn nonsense() {}

#[scheduler_lock(name = "a", lock_at_most_for = "0s")]
async fn zero() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", lock_at_least_for = "61s")]
async fn at_least_over_at_most() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", lock_at_least_for = "")]
async fn empty() {}

#[scheduler_lock(name = "a", lock_at_most_for = 5u64.pow(2))]
async fn computed_number() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m", max_run_time = "PT0S")]
async fn never_runs() {}

fn main() {}

use shedlock::{scheduled, scheduler_lock};

#[scheduled(fixed_delay = "1m", must_not_be_lost)]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_slots() {}

#[scheduled(every = "1m", max_attempts = 3, backoff = "10s", max_backoff = "1m")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn attempts_of_nothing() {}

#[scheduled(every = "1m", must_not_be_lost, max_attempts = 0)]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_attempts() {}

#[scheduled(every = "1m", must_not_be_lost, max_attempts = "5", backoff = 10)]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn wrong_literals() {}

#[scheduled(every = "1m", must_not_be_lost, max_attempts = -1)]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn negative() {}

#[scheduled(every = "1m", must_not_be_lost, backoff = "1h", max_backoff = "1m")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn longest_is_shorter() {}

#[scheduled(every = "1m", must_not_be_lost = "yes")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_bool() {}

#[scheduled(every = "1m")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m", must_not_be_lost)]
async fn of_the_lock() {}

fn main() {}

#![deny(dead_code)]

use shedlock::{scheduled, scheduler_lock};

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn never_given_to_a_scheduler() {}

#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
#[scheduled(every = "1h")]
fn neither_is_this(text: String) {
    drop(text);
}

fn main() {}

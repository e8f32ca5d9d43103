//! The compiler reports mistakes in the body as without the attribute.

use shedlock::{Outcome, scheduler_lock};

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn wrong_value() -> Option<u32> {
    Some("text")
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn wrong_blocking_value() -> Result<(), shedlock::Error> {
    Ok(5)
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn outcome_in_the_body() -> Outcome<u32> {
    "text"
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn unknown_name() {
    nothing_of_this_name();
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn not_even_rust() {
    let = ;
}

fn main() {}

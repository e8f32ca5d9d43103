use shedlock::{Outcome, scheduler_lock};

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn number() -> u32 {
    1
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn text() -> &'static str {
    "a"
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn result_of_number() -> Result<u32, shedlock::Error> {
    Ok(1)
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn something() -> impl std::fmt::Display {
    "a"
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn error_without_from() -> Result<(), std::num::ParseIntError> {
    Ok(())
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
async fn error_without_from_and_outcome() -> Result<Outcome<u8>, std::num::ParseIntError> {
    Ok(1)
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn hidden_future() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    let future = Box::pin(async {});
    future
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn never() -> ! {
    loop {}
}

fn main() {}

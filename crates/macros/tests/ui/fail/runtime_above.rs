//! A runtime that is started inside the lock.

use shedlock::scheduler_lock;

#[tokio::main]
#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
async fn job() -> Option<u8> {
    None
}

#[tokio::main(flavor = "current_thread")]
#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
async fn main() {
    job();
}

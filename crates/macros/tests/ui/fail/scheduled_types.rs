use shedlock::{scheduled, scheduler_lock};

struct Pool;

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_clone(pool: Pool) {
    drop(pool);
}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn a_value() -> Option<u8> {
    None
}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn not_send() {
    let local = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(local);
}

#[scheduled(every = "1h", run_at_start = "yes")]
#[scheduler_lock(name = "a", lock_at_most_for = "9m")]
async fn no_bool() {}

fn main() {}

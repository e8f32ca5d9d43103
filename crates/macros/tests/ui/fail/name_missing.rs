use shedlock::scheduler_lock;

#[scheduler_lock(lock_at_most_for = "10m")]
async fn without_a_name() {}

#[scheduler_lock]
async fn without_anything() {}

fn main() {
    let _ = without_a_name();
    let _ = without_anything();
}

use shedlock::scheduler_lock;

#[scheduler_lock(name = "a", lock_at_most = "10m")]
async fn unknown() {}

#[scheduler_lock(name = "a", name = "b", lock_at_most_for = "10m", lock_at_most_for = "20m")]
async fn twice() {}

#[scheduler_lock("a", lock_at_most_for = "10m")]
async fn without_key() {}

#[scheduler_lock(name, lock_at_most_for = "10m")]
async fn without_value() {}

#[scheduler_lock(name = , lock_at_most_for = "10m")]
async fn with_half_a_value() {}

#[scheduler_lock(name = "a" lock_at_most_for = "10m")]
async fn without_comma() {}

#[scheduler_lock(name = "a", lock_at_most_for =)]
async fn unfinished() {}

#[scheduler_lock(name = "", lock_at_most_for = "ten", lock_atleast_for = "1m")]
async fn all_errors_at_once() {}

#[scheduler_lock(name = "a", lock_at_most_for = "10m", keep_alive = "yes")]
async fn no_bool() {}

fn main() {
    let _ = all_errors_at_once();
}

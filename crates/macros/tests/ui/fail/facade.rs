use shedlock::scheduler_lock;

#[scheduler_lock(name = "a", lock_at_most_for = "10m", crate = nowhere)]
async fn unknown_crate() {}

#[scheduler_lock(name = "a", lock_at_most_for = "10m", crate = "the locks")]
async fn text_that_is_no_path() {}

fn main() {}

use shedlock::scheduler_lock;

#[scheduler_lock(name = "a", lock_at_most_for = "10m", crate = nowhere)]
async fn unknown_crate() {}

#[scheduler_lock(name = "a", lock_at_most_for = "10m", crate = "shedlock")]
async fn text_for_a_path() {}

fn main() {}

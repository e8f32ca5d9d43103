use shedlock::{MemoryProvider, scheduler_lock};

#[scheduler_lock(name = "a", lock_at_most_for = "10m", provider = MemoryProvider::new())]
async fn not_in_an_arc() {}

#[scheduler_lock(name = "a", lock_at_most_for = "10m", provider = "postgres://localhost")]
async fn a_url() {}

fn main() {}

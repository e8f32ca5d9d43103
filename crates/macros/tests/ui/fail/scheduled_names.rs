//! A job whose name a module already has.

use shedlock::{scheduled, scheduler_lock};

mod clean {
    pub fn everything() {}
}

#[scheduled(every = "1h")]
#[scheduler_lock(name = "clean", lock_at_most_for = "50m")]
fn clean() {
    clean::everything();
}

fn main() {
    clean();
    drop(clean::job());
}

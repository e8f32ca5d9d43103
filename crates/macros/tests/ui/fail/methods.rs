//! Inside an impl or trait the function is still emitted, so that one mistake causes one error.

use shedlock::{Outcome, scheduler_lock};

struct Jobs(u8);

trait Job {
    #[scheduler_lock(name = "", lock_at_most_for = "10m")]
    fn provided(&self) -> Option<u8> {
        None
    }
}

impl Job for Jobs {}

impl Jobs {
    #[scheduler_lock(lock_at_most_for = "10 minutes and a bit")]
    async fn method(&self) -> Outcome<u8> {
        self.0
    }
}

fn main() {
    #[scheduler_lock(name = "a", lock_at_least_for = "")]
    fn local() {}

    local();
    Jobs(1).provided();
    let _ = Jobs(1).method();
}

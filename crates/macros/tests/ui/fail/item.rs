use shedlock::scheduler_lock;

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
const fn constant() {}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
struct NoFunction;

trait Job {
    #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
    fn run(&self);
}

impl Job for NoFunction {
    fn run(&self) {
        constant();
    }
}

fn main() {}

//! The facade under another name.

mod vendored {
    pub mod locks {
        pub use shedlock::*;
    }
}

/// Hides the crate, as in a program that has a module with this name.
mod shadow {
    #[allow(unused)]
    mod shedlock {}
    #[allow(unused)]
    struct Option;

    pub trait Blanket {
        fn failure(&self) {}
        fn into_result(&self) {}
    }

    impl<T: ?Sized> Blanket for T {}

    #[crate::vendored::locks::scheduler_lock(
        crate = crate::vendored::locks,
        name = "a-{id}",
        lock_at_most_for = "1m",
        lock_at_least_for = "1s"
    )]
    pub async fn renamed(id: u8) {}

    #[crate::vendored::locks::scheduled(crate = crate::vendored::locks, every = "1h", late = "skip")]
    #[crate::vendored::locks::scheduler_lock(
        crate = crate::vendored::locks,
        name = "b-{id}",
        lock_at_most_for = "1m",
        keep_alive
    )]
    pub async fn job_of_both(id: u8) {}

    #[crate::vendored::locks::scheduler_lock(
        crate = "crate::vendored::locks",
        name = "c",
        lock_at_most_for = "1m"
    )]
    #[crate::vendored::locks::scheduled(
        crate = "crate::vendored::locks",
        every = "1h",
        run_at_start,
        overlap = "skip"
    )]
    pub fn job_of_one(_run: crate::vendored::locks::scheduler::JobRun) {}
}

fn main() {
    drop(shadow::renamed(1));
    assert_eq!(shadow::job_of_both::job(1).name(), "b-1");
    assert_eq!(shadow::job_of_one::job().name(), "c");
}

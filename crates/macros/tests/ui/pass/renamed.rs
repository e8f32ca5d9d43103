//! The facade under another name.

mod vendored {
    pub mod locks {
        pub use shedlock::*;
    }
}

/// Hides the crate, as a program does that has a module of this name.
mod shadow {
    #[allow(unused)]
    mod shedlock {}
    #[allow(unused)]
    struct Option;

    #[crate::vendored::locks::scheduler_lock(
        crate = crate::vendored::locks,
        name = "a-{id}",
        lock_at_most_for = "1m",
        lock_at_least_for = "1s"
    )]
    pub async fn renamed(id: u8) {}
}

fn main() {
    drop(shadow::renamed(1));
}

//! Every return type, async and blocking, and through aliases.

use shedlock::{Outcome, scheduler_lock};

#[derive(Debug)]
struct Failed;

impl From<shedlock::Error> for Failed {
    fn from(_: shedlock::Error) -> Self {
        Self
    }
}

type Done<T = ()> = Result<T, Failed>;

macro_rules! every {
    ($($fn:tt)*) => {
        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* nothing() {}

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* unit() -> () {}

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* option() -> Option<u32> {
            let one = Some(1)?;
            Some(one)
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* result() -> Result<(), Failed> {
            if false {
                return Err(Failed);
            }
            Ok(())
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* boxed() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            "1".parse::<u32>()?;
            Err("text becomes a box")?
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* result_of_option() -> Result<Option<u32>, Failed> {
            Ok(Some(1))
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* outcome() -> Outcome<u32> {
            1
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* result_of_outcome() -> Result<Outcome<u32>, shedlock::Error> {
            shedlock::parse_duration("1m")?;
            Ok(1)
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* alias() -> Done {
            Ok(())
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* alias_of_option() -> Done<Option<Vec<u8>>> {
            Ok(Some(vec![]))
        }

        #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
        $($fn)* something() -> Option<impl std::fmt::Display> {
            Some("text")
        }
    };
}

mod asynchronous {
    use super::*;
    every!(pub(super) async fn);
}

mod blocking {
    use super::*;
    every!(pub(super) fn);
}

fn main() {
    let _ = (asynchronous::nothing, blocking::nothing);
}

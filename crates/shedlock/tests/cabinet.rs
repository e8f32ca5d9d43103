//! Runs the example store of the manual (`docs/writing_a_provider`) through the conformance kit, so that
//! the documented code keeps the laws.
#![allow(clippy::unwrap_used, reason = "as brief as the text needs it")]

use std::process::ExitCode;
use std::time::Duration;

use shedlock::{BoxFuture, ManualClock};
use shedlock_conformance::{BoxError, Harness, Namespace, OptionalAction, Provider, action};
use shedlock_provider::Versioned;

include!("../docs/writing_a_provider/cabinet.rs");

fn main() -> ExitCode {
    let harness: Arc<dyn Harness> = Arc::new(Cabinets);
    shedlock_conformance::main([harness])
}

struct Cabinets;

impl Harness for Cabinets {
    fn name(&self) -> &str {
        "cabinet"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let space = Room {
                cabinet: Cabinet::default(),
                clock: ManualClock::new(),
            };
            Ok(Arc::new(space) as Arc<dyn Namespace>)
        })
    }
}

struct Room {
    cabinet: Cabinet,
    clock: ManualClock,
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async {
            let store =
                Versioned::new(self.cabinet.clone()).with_clock(Arc::new(self.clock.clone()));
            Ok(Arc::new(store.provider()) as Provider)
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            self.cabinet.0.lock().unwrap().papers.remove(name.as_str());
            Ok(())
        })
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.clock.advance(by);
        Some(())
    }
}

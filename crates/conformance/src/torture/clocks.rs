//! Faults of clocks: wrong by hours, or by as much as the store's clients may be apart, and set anew
//! while the processes run.

use std::time::Duration;

use super::tally::Tally;
use crate::troop::Troop;
use crate::wait::{PATIENCE, now, sleep};
use crate::wall_clock::{self, WallClock};
use crate::{Setting, Stop, Verdict};

/// Whose clocks are wrong: one that reaches the store straight, and one that does not.
const WRONG: [usize; 2] = [1, 5];

/// Has one clock be ahead by far more than the clients' clocks may differ. Not applicable without
/// libfaketime.
pub(super) fn apart(troop: &mut Troop, setting: &Setting) -> Verdict {
    let library = WallClock::library().map_err(Stop::not_applicable)?;
    let reach = WallClock::reach(setting).map_err(Stop::not_applicable)?;
    let at_most = i64::try_from(setting.pace().short().as_millis()).unwrap_or(i64::MAX / 2);
    troop.give_clock(WRONG[0], library)?;
    troop.set_clock(WRONG[0], at_most + 4 * reach)
}

/// The workers' wall clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    /// How far ahead or behind they may be, in milliseconds. Zero where none is wrong.
    reach: i64,
}

impl Clocks {
    /// Before the workers start.
    pub(super) fn before(
        troop: &mut Troop,
        setting: &Setting,
        tally: &mut Tally,
    ) -> Result<Self, Stop> {
        let possible = WallClock::library().and_then(|library| {
            let reach = WallClock::reach(setting)?;
            Ok((library, reach))
        });
        let (library, reach) = match possible {
            Ok(possible) => possible,
            Err(why) => {
                tally.not_done.push(format!("no wrong clocks ({why})"));
                return Ok(Self { reach: 0 });
            }
        };
        tally.clocks_wrong_by_millis = reach;
        let clocks = Self { reach };
        for number in WRONG {
            troop.give_clock(number, library.clone())?;
            clocks.set(troop, number)?;
        }
        Ok(clocks)
    }

    /// Whether any can be wrong.
    pub(super) fn are_wrong(&self) -> bool {
        self.reach > 0
    }

    /// Sets one of them.
    pub(super) fn jump(&self, troop: &mut Troop, tally: &mut Tally) -> Verdict {
        let number = *troop.chance.pick(&WRONG);
        self.set(troop, number)?;
        tally.count("clocks set");
        Ok(())
    }

    /// How much that moves the ends of leases, where the clients' clocks judge.
    pub(super) fn apart(&self, setting: &Setting) -> Duration {
        let apart = Duration::from_millis(2 * self.reach.unsigned_abs());
        let tolerated = wall_clock::tolerated(setting.capabilities().clock);
        tolerated.map_or(Duration::ZERO, |_| apart)
    }

    fn set(&self, troop: &mut Troop, number: usize) -> Verdict {
        let reach = self.reach.unsigned_abs();
        let ahead = troop.chance.next() % (2 * reach + 1);
        troop.set_clock(number, i64::try_from(ahead).unwrap_or(0) - self.reach)
    }

    /// Waits until each has been seen to be as wrong as it was set: a fault without any effect proves
    /// nothing.
    pub(super) async fn took_effect(&self, troop: &mut Troop) -> Verdict {
        let started = now();
        while let Some(still_right) = troop.clock_without_effect() {
            if now().saturating_since(started) > PATIENCE {
                return Err(Stop::failed(still_right));
            }
            sleep(Duration::from_millis(20)).await;
            troop.read_logs()?;
            troop.all_run().await?;
        }
        Ok(())
    }
}

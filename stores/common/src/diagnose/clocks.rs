//! The round trip to the store, and the offset between its clock and that of this host.

use std::time::Duration;

use shedlock_core::{Capabilities, ClockOffset, ClockSource, ErrorKind, Finding};

use shedlock_support::text;

use crate::errors::Result;
use crate::provider::StoreProvider;
use crate::store::Store;

const SAMPLES: usize = 5;
/// Each step of a lock takes a round trip, and a lease is extended at a third of its length.
const SLOW: Duration = Duration::from_secs(1);
/// One clock, or two that differ by less than anyone has to know.
const AGREES: Duration = Duration::from_millis(10);
/// The default tolerance for slots that are ahead of the store's clock.
const FAR_OFF: Duration = Duration::from_secs(60);

/// The round trip that was shortest, because its reply shows the store's time most exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    round_trip: Duration,
    clocks: Option<ClockOffset>,
}

pub(super) async fn measure<S: Store>(provider: &StoreProvider<S>) -> Result<Sample> {
    let store = provider.backend();
    let clock = &**store.clock();
    let mut best: Option<Sample> = None;
    for _ in 0..SAMPLES {
        let (sent, here) = (clock.now(), clock.system_time());
        let time = provider.bounded(ErrorKind::Unavailable, store.server_time());
        let there = time.await?;
        let round_trip = clock.now().saturating_since(sent);
        let sample = Sample {
            round_trip,
            clocks: there.map(|there| ClockOffset::new(here, there, round_trip)),
        };
        best = best
            .filter(|best| best.round_trip <= round_trip)
            .or(Some(sample));
    }
    best.ok_or_else(|| crate::errors::internal("no sample was taken"))
}

impl Sample {
    pub(super) fn findings(self, capabilities: &Capabilities) -> [Finding; 2] {
        [self.reply(), self.offset(capabilities)]
    }

    fn reply(self) -> Finding {
        let took = rounded(self.round_trip);
        if self.round_trip < SLOW {
            let message = format!("the store replies within {took} (the fastest of {SAMPLES})");
            return Finding::ok("reachable", message);
        }
        Finding::warning(
            "reachable",
            format!("the store is slow: the fastest of {SAMPLES} replies took {took}"),
            "check the load of the server and the network; until then, use a long lock_at_most_for",
        )
    }

    fn offset(self, capabilities: &Capabilities) -> Finding {
        let check = "clock";
        let skew = match capabilities.clock {
            ClockSource::Clients { tolerated_skew } => Some(tolerated_skew),
            _ => None,
        };
        let Some(clocks) = self.clocks else {
            return Finding::ok(
                check,
                match skew {
                    Some(skew) => format!(
                        "leases end by the hosts' own clocks, which the store cannot check: keep \
                         them within {} of each other (NTP)",
                        text::duration(skew)
                    ),
                    None => "leases end by the store's own clock, whose time it does not report"
                        .to_owned(),
                },
            );
        };
        let (offset, exactness) = (clocks.by(), clocks.exactness);
        let found = shown(clocks);
        let remedy = "synchronize the clocks of this host and of the store's server (NTP)";
        let is_off = match skew {
            Some(skew) => offset > skew.saturating_add(exactness),
            None => clocks.is_off(),
        };
        if !is_off {
            return Finding::ok(check, found);
        }
        if let Some(skew) = skew {
            let message = format!(
                "{found}: leases end by the hosts' own clocks, and two hosts whose clocks differ \
                 by more than {} can hold one lock",
                text::duration(skew)
            );
            return Finding::error(check, message, remedy);
        }
        if offset > FAR_OFF.saturating_add(exactness) {
            let message = format!(
                "{found}: slots of schedules are refused, or run at the wrong time, although \
                 leases are safe"
            );
            return Finding::error(check, message, remedy);
        }
        let message = format!("{found}: leases are safe, but slots of schedules are late or early");
        Finding::warning(check, message, remedy)
    }
}

/// What the clocks show.
fn shown(clocks: ClockOffset) -> String {
    let (offset, exactness) = (clocks.by(), clocks.exactness);
    let side = if clocks.is_ahead() {
        "ahead of"
    } else {
        "behind"
    };
    let at_most = offset + exactness;
    if offset <= exactness || at_most < AGREES {
        format!(
            "the clock of this host agrees with the store's to within {}",
            rounded(at_most)
        )
    } else {
        format!(
            "the clock of this host is {} {side} the store's, give or take {}",
            rounded(offset),
            rounded(exactness)
        )
    }
}

/// To the unit that people read.
fn rounded(duration: Duration) -> String {
    let unit: u64 = match duration.as_micros() {
        0..1_000 => 1_000,
        1_000..10_000_000 => 1_000_000,
        _ => 1_000_000_000,
    };
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    text::duration(Duration::from_nanos(nanos / unit * unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::Level;
    use std::time::{SystemTime, UNIX_EPOCH};

    /// `here` is the time of this host halfway between request and reply.
    fn sample(round_trip: u64, there: SystemTime, here: SystemTime) -> Sample {
        let round_trip = Duration::from_millis(round_trip);
        Sample {
            round_trip,
            clocks: Some(ClockOffset::new(here - round_trip / 2, there, round_trip)),
        }
    }

    #[test]
    fn a_clock_that_is_off_is_found_despite_the_round_trip() {
        let store = Capabilities::new(ClockSource::Store);
        let tolerated_skew = Duration::from_secs(5);
        let clients = Capabilities::new(ClockSource::Clients { tolerated_skew });
        let here = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (round_trip, offset, capabilities, level) in [
            (10, 900, &store, Level::Ok),
            (10, -900, &store, Level::Ok),
            (4_000, 2_900, &store, Level::Ok),
            (10, 1_100, &store, Level::Warning),
            (10, -30_000, &store, Level::Warning),
            (10, 61_000, &store, Level::Error),
            (10, 4_900, &clients, Level::Ok),
            (10, -5_100, &clients, Level::Error),
        ] {
            let by = Duration::from_millis(i64::unsigned_abs(offset));
            let there = if offset > 0 { here - by } else { here + by };
            let sample = sample(round_trip, there, here);
            let finding = sample.offset(capabilities);
            assert_eq!(finding.level, level, "{finding:?}");
        }
        for (round_trip, offset, says) in [
            (2, 6, "agrees with the store's to within 8ms"),
            (16, 6, "agrees with the store's to within 15ms"),
            (16, 9, "agrees with the store's to within 18ms"),
            (16, 20, "is 20ms ahead of the store's, give or take 9ms"),
        ] {
            let sample = sample(round_trip, here - Duration::from_millis(offset), here);
            let message = sample.offset(&store).message;
            assert_eq!(message, format!("the clock of this host {says}"));
        }
        let sample = Sample {
            round_trip: 2 * SLOW,
            clocks: None,
        };
        let [reply, clock] = sample.findings(&store);
        assert_eq!((reply.level, clock.level), (Level::Warning, Level::Ok));
    }

    #[test]
    fn times_are_as_exact_as_people_read_them() {
        for (nanos, text) in [
            (123_456, "123us"),
            (1_234_567, "1ms"),
            (1_234_567_890, "1s 234ms"),
            (61_234_567_890, "1m 1s"),
        ] {
            assert_eq!(rounded(Duration::from_nanos(nanos)), text);
        }
    }
}

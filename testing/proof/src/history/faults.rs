//! The faults that affected processes, network and store while the history was written.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, What};

/// The time from the beginning to the end of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// All faults with their times.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// When processes were stopped from outside.
    stops: BTreeMap<u32, Vec<Span>>,
    /// When the connections of processes to the store were disturbed.
    ways: BTreeMap<u32, Vec<Span>>,
    /// When the store had a fault.
    troubles: Vec<Span>,
    /// From when the store was killed until it was back.
    crashes: Vec<Span>,
    /// The processes that run an earlier version.
    old: BTreeSet<u32>,
    /// When the wall clocks of processes jumped forward, and by how much.
    jumps: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// A wall clock that is ahead of the other clock by this much more than before has jumped.
const JUMP: u64 = 100_000_000;

impl Faults {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut faults = Self::default();
        let mut delays: BTreeMap<u32, u64> = BTreeMap::new();
        let mut ahead: BTreeMap<u32, i128> = BTreeMap::new();
        for Event {
            at, process, what, ..
        } in events
        {
            match what {
                What::Stopped => begin(faults.stops.entry(*process).or_default(), *at),
                What::GoesOn => end(faults.stops.entry(*process).or_default(), *at),
                What::WayDisturbed { delay } => {
                    begin(faults.ways.entry(*process).or_default(), *at);
                    delays.insert(*process, *delay);
                }
                What::WayRestored => {
                    let delay = delays.remove(process).unwrap_or(0);
                    let over = at.saturating_add(delay);
                    end(faults.ways.entry(*process).or_default(), over);
                }
                What::StoreTroubled => begin(&mut faults.troubles, *at),
                What::StoreRecovered => end(&mut faults.troubles, *at),
                // Ends at once, unless a later event records that the store was started again.
                What::StoreKilled => faults.crashes.push(Span { from: *at, to: *at }),
                What::StoreStarted => {
                    if let Some(crash) = faults.crashes.last_mut() {
                        crash.to = *at;
                    }
                }
                What::IsOld => drop(faults.old.insert(*process)),
                What::WallClock { shows } => {
                    let now_ahead = i128::from(*shows) - i128::from(*at);
                    let before = ahead.insert(*process, now_ahead).unwrap_or(now_ahead);
                    let jumped = u64::try_from(now_ahead - before).unwrap_or(0);
                    if jumped > JUMP {
                        faults
                            .jumps
                            .entry(*process)
                            .or_default()
                            .push((*at, jumped));
                    }
                }
                _ => {}
            }
        }
        faults
    }

    /// The latest end of a lease of this length that would otherwise end at `over`, as known at
    /// `by`. A lease that runs during a crash may last its whole length again, starting when the
    /// store is back.
    pub(super) fn over_after_crashes(&self, over: u64, length: u64, by: u64) -> u64 {
        let crashes = self.crashes.iter().filter(|crash| crash.to <= by);
        crashes.fold(over, |over, crash| match crash.from <= over {
            true => over.max(crash.to.saturating_add(length)),
            false => over,
        })
    }

    /// The deadline of a task whose lease counts from `since` and ends at `until`: a jump of the wall
    /// clock brings it closer, but not to less than `notice` after the jump.
    pub(super) fn closer(&self, process: u32, since: u64, until: u64, notice: u64) -> u64 {
        let jumps = self.jumps.get(&process).map_or(&[][..], Vec::as_slice);
        let counted = jumps.iter().filter(|(at, _)| *at > since);
        counted.fold(until, |until, (at, by)| {
            let noticed = at.saturating_add(notice);
            until.min(noticed.max(until.saturating_sub(*by)))
        })
    }

    /// The crashes of the store.
    pub(super) fn crashes(&self) -> &[Span] {
        &self.crashes
    }

    /// Whether this process runs an earlier version.
    pub(super) fn is_old(&self, process: u32) -> bool {
        self.old.contains(&process)
    }

    /// The latest moment at which a request that this process sent at `sent` has reached the store:
    /// after its flight time, unless a fault holds it up.
    pub(super) fn landing(&self, process: u32, sent: u64, flight: u64) -> u64 {
        let mut lands = sent.saturating_add(flight);
        loop {
            let held_up = self
                .in_the_way_of(process)
                .filter(|span| span.from <= lands && sent <= span.to)
                .map(|span| span.to.saturating_add(flight))
                .max();
            match held_up {
                Some(later) if later > lands => lands = later,
                _ => return lands,
            }
        }
    }

    /// Whether a fault between this process and the store may hold up its requests in this period.
    pub(super) fn hold_up(&self, process: u32, from: u64, to: u64) -> bool {
        let mut spans = self.in_the_way_of(process);
        spans.any(|span| span.from <= to && from <= span.to)
    }

    /// How long this process was stopped in this period.
    pub(super) fn stopped_between(&self, process: u32, from: u64, to: u64) -> u64 {
        let overlap = |span: &Span| span.to.min(to).saturating_sub(span.from.max(from));
        self.stops_of(process).iter().map(overlap).sum()
    }

    /// Whether this process was stopped at this moment.
    pub(super) fn cover(&self, process: u32, moment: u64) -> bool {
        let covers = |stop: &Span| (stop.from..=stop.to).contains(&moment);
        self.stops_of(process).iter().any(covers)
    }

    /// Whether a stop of this process ended in this period.
    pub(super) fn stop_ends_between(&self, process: u32, from: u64, to: u64) -> bool {
        let ends = |stop: &Span| (from..=to).contains(&stop.to);
        self.stops_of(process).iter().any(ends)
    }

    fn stops_of(&self, process: u32) -> &[Span] {
        self.stops.get(&process).map_or(&[], Vec::as_slice)
    }

    fn in_the_way_of(&self, process: u32) -> impl Iterator<Item = &Span> {
        let ways = self.ways.get(&process).map_or(&[][..], Vec::as_slice);
        ways.iter()
            .chain(self.stops_of(process))
            .chain(&self.troubles)
            .chain(&self.crashes)
    }
}

/// A fault that has begun continues until its end is recorded.
fn begin(spans: &mut Vec<Span>, at: u64) {
    spans.push(Span {
        from: at,
        to: u64::MAX,
    });
}

fn end(spans: &mut [Span], at: u64) {
    if let Some(span) = spans.last_mut() {
        span.to = span.to.min(at);
    }
}

//! What was done to processes, network and store while the history was written.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, What};

/// When something was not as it should be, from and to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// All that was done, and when.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// When processes were stopped from outside.
    stops: BTreeMap<u32, Vec<Span>>,
    /// When the ways of processes to the store were disturbed.
    ways: BTreeMap<u32, Vec<Span>>,
    /// When the store was in trouble.
    troubles: Vec<Span>,
    /// From when the store was killed to when it was back.
    crashes: Vec<Span>,
    /// Those that run an earlier version.
    old: BTreeSet<u32>,
}

impl Faults {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut faults = Self::default();
        let mut delays: BTreeMap<u32, u64> = BTreeMap::new();
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
                // Over at once, where no event says that it was started again.
                What::StoreKilled => faults.crashes.push(Span { from: *at, to: *at }),
                What::StoreStarted => {
                    if let Some(crash) = faults.crashes.last_mut() {
                        crash.to = *at;
                    }
                }
                What::IsOld => drop(faults.old.insert(*process)),
                _ => {}
            }
        }
        faults
    }

    /// When a lease of this length that would be over then is over at the latest, by what is known at
    /// `by`: one that runs in a crash may have its whole length once more, from when the store is up.
    pub(super) fn over_after_crashes(&self, over: u64, length: u64, by: u64) -> u64 {
        let crashes = self.crashes.iter().filter(|crash| crash.to <= by);
        crashes.fold(over, |over, crash| match crash.from <= over {
            true => over.max(crash.to.saturating_add(length)),
            false => over,
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

    /// When a request of this process, that was sent then, has reached the store at the latest:
    /// after its flight, unless it meets a fault that holds it up.
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

    /// For how long this process was stopped in this time.
    pub(super) fn stopped_between(&self, process: u32, from: u64, to: u64) -> u64 {
        let overlap = |span: &Span| span.to.min(to).saturating_sub(span.from.max(from));
        self.stops_of(process).iter().map(overlap).sum()
    }

    /// Whether it was stopped then.
    pub(super) fn cover(&self, process: u32, moment: u64) -> bool {
        let covers = |stop: &Span| (stop.from..=stop.to).contains(&moment);
        self.stops_of(process).iter().any(covers)
    }

    /// Whether a stop of it was over in this time.
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

/// What has begun goes on until it is said to be over.
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

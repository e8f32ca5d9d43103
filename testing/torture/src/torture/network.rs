//! Faults of the network between workers and their store, through a proxy for each worker.

use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::Stop;
use shedlock_conformance::proxy::{Fault, Matcher, Proxy, Strike, Trap};
use shedlock_conformance::wait::now;
use shedlock_core::Moment;

use super::OPERATOR;
use super::tally::Tally;
use crate::Arena;
use crate::worker_pool::{WorkerPool, patience};

/// The connections of those workers that do not reach the store directly.
pub(super) struct Network {
    ways: Vec<Way>,
    /// A connection that fell silent is cut when it is repaired.
    resets: bool,
}

/// One worker's connection to the store.
struct Way {
    /// The worker's number.
    of: usize,
    proxy: Proxy,
    fault: Option<Ongoing>,
}

struct Ongoing {
    until: Moment,
    /// The armed trap that waits for a request, and the text under which it is counted.
    trap: Option<(Trap, &'static str)>,
}

/// The kinds of faults.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Refused,
    CutBeforeRequest,
    CutBeforeReply,
    SilentFromRequest,
    SilentFromReply,
    Silent,
    LateRequest,
    LateAfterCut,
    LateReply,
    Slow,
}

pub(super) const KINDS: [Kind; 10] = [
    Kind::Refused,
    Kind::CutBeforeRequest,
    Kind::CutBeforeReply,
    Kind::SilentFromRequest,
    Kind::SilentFromReply,
    Kind::Silent,
    Kind::LateRequest,
    Kind::LateAfterCut,
    Kind::LateReply,
    Kind::Slow,
];

/// A strike waits for one of the next requests, at most for this one.
const LATEST: u64 = 4;

/// How much a slow line delays each packet.
const SLOW: Duration = Duration::from_millis(30);

impl Network {
    /// Puts a proxy in front of two out of three of the workers that will be started, and of the
    /// operator; in front of none if the store cannot be reached through a proxy.
    pub(super) async fn before(
        worker_pool: &mut WorkerPool,
        workers: usize,
        resets: bool,
        context: &Arena,
    ) -> Result<Self, Stop> {
        let mut ways = Vec::new();
        if let Some(store) = context.namespace().store_addr() {
            for number in (0..workers).filter(|it| it % 3 != 0 || *it == OPERATOR) {
                let proxy = Proxy::start(store).await?;
                if context.tortured().child_spec_via(proxy.addr()).is_none() {
                    break;
                }
                worker_pool.send_through(number, proxy.addr());
                ways.push(Way {
                    of: number,
                    proxy,
                    fault: None,
                });
            }
        }
        Ok(Self { ways, resets })
    }

    /// Whether there is a connection that could be disturbed.
    pub(super) fn is_there(&self) -> bool {
        !self.ways.is_empty()
    }

    /// Begins a fault of these kinds on a connection that has none, if there is one.
    pub(super) async fn disturb(
        &mut self,
        kinds: &[Kind],
        worker_pool: &mut WorkerPool,
        at_most: Duration,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let well: Vec<_> = (0..self.ways.len())
            .filter(|number| self.ways[*number].fault.is_none())
            .collect();
        if well.is_empty() {
            return Ok(());
        }
        let rng = &mut worker_pool.rng;
        let way = &mut self.ways[*rng.pick(&well)];
        let kind = *rng.pick(kinds);
        let nth = usize::try_from(1 + rng.number() % LATEST).unwrap_or(1);
        let is_late = matches!(kind, Kind::LateRequest | Kind::LateAfterCut);
        let delay = if is_late && rng.one_in(2) {
            // When it arrives, no caller waits for a reply any more, and the store refuses it.
            let patience = patience(at_most);
            patience + rng.up_to(patience / 2)
        } else if rng.one_in(3) {
            // The lease has expired when it arrives.
            at_most + rng.up_to(at_most / 2)
        } else {
            rng.up_to(at_most)
        };
        let until = now() + rng.up_to(at_most + at_most / 2);
        worker_pool.way_disturbed(way.of, delay)?;
        let trap = match kind.strike(delay) {
            Some(strike) => Some((way.proxy.on_request(any(), nth, strike), kind.word())),
            None => {
                way.proxy.set(kind.fault()).await?;
                tally.count(kind.word());
                None
            }
        };
        way.fault = Some(Ongoing { until, trap });
        Ok(())
    }

    /// Repairs the connections that are due; all of them if no instant is given. A connection that
    /// was cut or fell silent stays that way, unless it is reset.
    pub(super) async fn repair(
        &mut self,
        by: Option<Moment>,
        worker_pool: &mut WorkerPool,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        for way in &mut self.ways {
            let due = way
                .fault
                .take_if(|fault| by.is_none_or(|by| fault.until <= by));
            let Some(fault) = due else { continue };
            if self.resets {
                way.proxy.set(Fault::Refuse).await?;
            }
            way.proxy.heal().await?;
            worker_pool.way_restored(way.of)?;
            if let Some((_, word)) = fault.trap.filter(|(trap, _)| trap.has_struck()) {
                tally.count(word);
            }
        }
        Ok(())
    }
}

impl Kind {
    /// The text under which the fault is counted.
    fn word(self) -> &'static str {
        match self {
            Self::Refused => "connections refused",
            Self::CutBeforeRequest => "cuts before the request",
            Self::CutBeforeReply => "cuts before the reply",
            Self::SilentFromRequest => "half-open before the request",
            Self::SilentFromReply => "half-open before the reply",
            Self::Silent => "half-open for all",
            Self::LateRequest => "late requests",
            Self::LateAfterCut => "late requests of cut connections",
            Self::LateReply => "late replies",
            Self::Slow => "slow lines",
        }
    }

    /// The strike, if the fault strikes once.
    fn strike(self, delay: Duration) -> Option<Strike> {
        match self {
            Self::CutBeforeRequest => Some(Strike::CutBeforeRequest),
            Self::CutBeforeReply => Some(Strike::CutBeforeReply),
            Self::SilentFromRequest => Some(Strike::SwallowRequest),
            Self::SilentFromReply => Some(Strike::SwallowReply),
            Self::LateRequest => Some(Strike::DelayRequest(delay)),
            Self::LateAfterCut => Some(Strike::CutThenDeliver(delay)),
            Self::LateReply => Some(Strike::DelayReply(delay)),
            Self::Refused | Self::Silent | Self::Slow => None,
        }
    }

    /// The fault, if it lasts for a while.
    fn fault(self) -> Fault {
        match self {
            Self::Refused => Fault::Refuse,
            Self::Silent => Fault::Swallow,
            Self::Slow => Fault::Delay {
                to_store: SLOW,
                to_client: SLOW,
            },
            _ => Fault::None,
        }
    }
}

/// Matches any request, including what a client sends before it attempts a lock.
fn any() -> Matcher {
    Arc::new(|_| true)
}

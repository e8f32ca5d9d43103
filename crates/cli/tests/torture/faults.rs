//! What happens to a run.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::proxy::{Matcher, Proxy, Strike, Trap, contains};
use shedlock_core::AttemptRequest;
use shedlock_proof::SeededRng;
use tokio::runtime::Runtime;
use url::Url;

use crate::arena::AT_MOST;

/// What happens to the process of `shedlock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It is killed this long after its start, wherever it is then.
    KilledEarly(Duration),
    /// It is killed this long after its command has started.
    Killed(Duration),
    /// It is stopped this long after its command has started, for longer than its lease.
    Stopped(Duration),
    /// The same, and then its wall clock jumps past its lease, which only its watchdog can notice.
    StoppedAndJump(Duration),
    /// Its wall clock jumps forward by this much.
    Jump(Duration, Duration),
}

impl Fault {
    pub(crate) fn draw(rng: &mut SeededRng, has_clocks: bool) -> Self {
        match rng.below(12) {
            0 => Self::KilledEarly(rng.up_to(Duration::from_millis(120))),
            1 | 2 => Self::Killed(rng.heavy(Duration::from_millis(1), AT_MOST / 3)),
            3 if has_clocks && rng.flip() => Self::StoppedAndJump(rng.up_to(AT_MOST / 8)),
            3 => Self::Stopped(rng.up_to(AT_MOST / 3)),
            4 if has_clocks => {
                let by = rng.between(AT_MOST / 4, AT_MOST * 2);
                Self::Jump(rng.up_to(AT_MOST / 4), by)
            }
            _ => Self::None,
        }
    }

    /// How long its command runs if it is not stopped.
    pub(crate) fn lasts(self, rng: &mut SeededRng) -> Duration {
        match self {
            // Longer than the lease, so that only the watchdog ends it in time.
            Self::Stopped(_) | Self::StoppedAndJump(_) | Self::Jump(..) => AT_MOST * 2,
            Self::None if rng.one_in(10) => AT_MOST * 3 / 2,
            _ => rng.heavy(Duration::from_millis(1), AT_MOST / 4),
        }
    }

    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::KilledEarly(_) | Self::Killed(_) => Some("kills"),
            Self::Stopped(_) => Some("stops"),
            Self::StoppedAndJump(_) => Some("jumps while stopped"),
            Self::Jump(..) => Some("jumps"),
        }
    }
}

/// The way of one contender to the store.
pub(crate) struct Way {
    proxy: Proxy,
    pub(crate) url: String,
}

impl Way {
    /// A proxy before the store with this URL. `None` for a file.
    pub(crate) fn to(url: &str, runtime: &Runtime) -> Option<Self> {
        let mut url = Url::parse(url).ok()?;
        let port = url.port().or(match url.scheme() {
            "redis" => Some(6379),
            "postgres" | "postgresql" => Some(5432),
            _ => Some(3306),
        });
        let addresses = (url.host_str()?, port?).to_socket_addrs().ok()?;
        let store = addresses.into_iter().find(SocketAddr::is_ipv4)?;
        let proxy = runtime.block_on(Proxy::start(store)).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(proxy.addr().port())).unwrap();
        if url.scheme() == "mysql" {
            url.query_pairs_mut().append_pair("ssl-mode", "disabled");
        }
        let url = url.into();
        Some(Self { proxy, url })
    }

    /// One fault of the connections of the next run with this lock, in half of all cases. A late request of a cut
    /// connection if there was none yet.
    pub(crate) fn disturb(
        &self,
        rng: &mut SeededRng,
        lock: &str,
        is_first: bool,
    ) -> Option<Disturbance> {
        if rng.flip() {
            return None;
        }
        let delay = match rng.one_in(5) {
            // No one waits for it any more, and the store refuses it.
            true => AttemptRequest::DEFAULT_TIMEOUT + rng.up_to(AT_MOST),
            false => rng.between(AT_MOST / 10, AT_MOST),
        };
        let (word, strike) = *rng.pick(&[
            ("cuts before the request", Strike::CutBeforeRequest),
            ("cuts before the reply", Strike::CutBeforeReply),
            ("half-open before the request", Strike::SwallowRequest),
            ("half-open before the reply", Strike::SwallowReply),
            ("late requests", Strike::DelayRequest(delay)),
            ("late replies", Strike::DelayReply(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
        ]);
        let (word, strike) = match is_first {
            true => (LATE_AFTER_CUT, Strike::CutThenDeliver(delay)),
            false => (word, strike),
        };
        // Mostly a request for the lock, and sometimes what a client sends before.
        let (matcher, latest): (Matcher, _) = match rng.one_in(4) {
            true => (Arc::new(|_| true), 10),
            false => (contains(lock), 2),
        };
        let nth = usize::try_from(1 + rng.below(latest)).unwrap();
        let trap = self.proxy.on_request(matcher, nth, strike);
        Some(Disturbance { trap, word })
    }

    /// Removes what did not strike.
    pub(crate) fn heal(&self, runtime: &Runtime) {
        runtime.block_on(self.proxy.heal()).unwrap();
    }
}

pub(crate) const LATE_AFTER_CUT: &str = "late requests of cut connections";

/// A fault of the network that waits for its request.
pub(crate) struct Disturbance {
    trap: Trap,
    word: &'static str,
}

impl Disturbance {
    /// What it was, if it met its request.
    pub(crate) fn struck(&self) -> Option<&'static str> {
        self.trap.has_struck().then_some(self.word)
    }
}

/// The wall clock of one run, which libfaketime sets.
pub(crate) struct WallClock(PathBuf);

impl WallClock {
    /// The library, which `cargo xtask test` installs.
    pub(crate) fn library() -> Option<String> {
        let path = std::env::var("SHEDLOCK_TEST_FAKETIME").ok()?;
        Path::new(&path).exists().then_some(path)
    }

    pub(crate) fn of(command: &mut Command, library: &str, file: PathBuf) -> Self {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let clock = Self(file);
        clock.is_ahead_by(Duration::ZERO);
        clock
    }

    pub(crate) fn is_ahead_by(&self, by: Duration) {
        // Atomically: a partial file would be read as a different time.
        let new = self.0.with_extension("new");
        fs::write(&new, format!("+{}\n", by.as_secs_f64())).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }
}

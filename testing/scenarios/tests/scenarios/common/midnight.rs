//! Scenarios that begin at midnight, whenever they run.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use shedlock::{Clock as _, SystemClock};

use super::{Replica, Scene, Store, say};

/// A midnight that replicas reach shortly, because their calendars are behind. The store's calendar
/// is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Midnight {
    /// The last real midnight.
    at: Timestamp,
    behind: Duration,
}

/// How long before midnight replicas have to be ready.
const READY: SignedDuration = SignedDuration::from_millis(300);

impl Midnight {
    /// A midnight that replicas with its arguments reach after `lead`.
    pub(crate) fn after(lead: Duration) -> Self {
        let now = Timestamp::try_from(SystemClock.system_time()).unwrap();
        let second = now.as_second() - now.as_second().rem_euclid(24 * 3_600);
        let at = Timestamp::from_second(second).unwrap();
        let passed = now.duration_since(at).unsigned_abs();
        Self {
            at,
            behind: passed + lead,
        }
    }

    /// The arguments of a replica whose calendar is this much further behind.
    pub(crate) fn args(&self, further: Duration) -> Vec<String> {
        let behind = (self.behind + further).as_millis();
        vec!["--clock-behind".to_owned(), format!("{behind}ms")]
    }

    /// The arguments of a replica that is busy for this long from midnight on.
    pub(crate) fn args_of_busy(&self, lasts: Duration) -> Vec<String> {
        let mut args = self.args(Duration::ZERO);
        args.extend(["--busy-from".to_owned(), self.at.to_string()]);
        args.extend(["--busy-for".to_owned(), format!("{}ms", lasts.as_millis())]);
        args
    }

    /// This many seconds after midnight, as a slot is written.
    pub(crate) fn slot(&self, seconds: i64) -> String {
        (self.at + SignedDuration::from_secs(seconds)).to_string()
    }

    /// Whether these replicas are all ready before midnight, by their calendars.
    pub(crate) fn is_awaited_by(&self, scene: &Scene, replicas: &[&Replica]) -> bool {
        let ready = |replica| scene.ready(replica).at;
        replicas
            .iter()
            .all(|replica| self.at.duration_since(ready(replica)) > READY)
    }
}

/// The result of a scenario that depends on time.
#[derive(Debug)]
pub(crate) enum Shown {
    /// The scenario was shown.
    Yes,
    /// The machine was too slow for it, and how.
    TooSlow(&'static str),
}

/// Repeats a scenario until the machine is fast enough for it, with more and more time to get
/// ready.
pub(crate) fn until_shown(title: &str, store: Store, story: impl Fn(&Scene, Midnight) -> Shown) {
    for lead in [2, 4, 8, 16, 32] {
        let scene = Scene::open(title, store);
        let midnight = Midnight::after(Duration::from_secs(lead));
        scene.history.set_behind(midnight.behind);
        match story(&scene, midnight) {
            Shown::Yes => return,
            Shown::TooSlow(how) => {
                say(&format!("this machine was too slow, trying again: {how}"));
            }
        }
    }
    panic!("this machine is too slow for the story");
}

//! A host whose clock is wrong, on each store: what is printed there says whose clock is off and by how much, and what it
//! advises works.

use std::time::UNIX_EPOCH;

use serde_json::Value;
use shedlock_rig::wait::eventually;

use crate::common::{Done, Sandbox, calendar, done};
use crate::places::Place;
use crate::prune::LIBRARY;

/// These stores report their time, and judge by it.
const OWN_CLOCK: [&str; 4] = ["postgres", "mysql", "redis", "mongodb"];

const AHEAD: &str = "+180";
const BEHIND: &str = "-180";

struct Fleet {
    sandbox: Sandbox,
    url: String,
}

impl Fleet {
    fn on(&self, clock: &str, arguments: &[&str]) -> Done {
        let mut command = self.sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", &self.url);
        if clock != "right" {
            let library = std::env::var(LIBRARY).unwrap_or_default();
            let library = command.env("LD_PRELOAD", library).env("FAKETIME", clock);
            library.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        done(&mut command)
    }

    fn run(&self, clock: &str, name: &str, options: &[&str]) -> Done {
        let run = ["run", "-n", name, "--lock-at-most-for", "10s"];
        self.on(clock, &[&run[..], options, &["--", "echo", "ran"]].concat())
    }
}

pub(crate) fn a_wrong_clock_is_named(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let url = place.locks(&sandbox.path(""))?.url;
    let fleet = Fleet { sandbox, url };
    let has_own_clock = OWN_CLOCK.contains(&place.kind());
    let migrate = match has_own_clock {
        true => &["migrate"][..],
        false => &["migrate", "--no-journal"],
    };
    assert_eq!(fleet.on("right", migrate).code, 0);
    if !has_own_clock {
        return judged_by_hosts(&fleet);
    }
    ahead(&fleet);
    behind(&fleet);
    a_little_behind(&fleet);
    poisoned(&fleet);
    overdue(&fleet);
    Ok(())
}

const MINUTELY: [&str; 2] = ["--schedule", "* * * * *"];

#[track_caller]
fn is_not_run(refused: &Done, words: &[&str]) {
    assert_eq!(refused.code, 76, "{refused:?}");
    assert_eq!(refused.stdout, "", "{refused:?}");
    for word in words {
        assert!(refused.stderr.contains(word), "{word}: {refused:?}");
    }
}

fn ahead(fleet: &Fleet) {
    for options in [&MINUTELY[..], &["--every", "1m", "--must-not-be-lost"]] {
        let refused = fleet.run(AHEAD, "ahead", options);
        is_not_run(
            &refused,
            &[" is 3m ahead of the store's", "set this host's clock (NTP)"],
        );
        assert!(!refused.stderr.contains("reset"), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    }
    let set = fleet.run("right", "ahead", &MINUTELY);
    assert_eq!((set.code, &*set.stdout), (0, "ran\n"), "{set:?}");
}

fn behind(fleet: &Fleet) {
    // A run shortly before a minute takes the slot of that minute, which a reset then finds ahead of the clock.
    eventually("the first seconds of a minute", || {
        let since = calendar().duration_since(UNIX_EPOCH);
        since.unwrap().as_secs() % 60 < 40
    });
    for (name, options) in [
        ("behind", &MINUTELY[..]),
        ("behind-open", &["--every", "1m", "--must-not-be-lost"]),
    ] {
        assert_eq!(fleet.run("right", name, options).stdout, "ran\n");
        let refused = fleet.run(BEHIND, name, options);
        is_not_run(
            &refused,
            &[" is 3m behind the store's", "set this host's clock (NTP)"],
        );
        assert!(!refused.stderr.contains("slot reset"), "{refused:?}");
        let set = fleet.run("right", name, options);
        assert_eq!(set.code, 0, "{set:?}");
    }
    // Not advised, but done all the same.
    let reset = fleet.on(BEHIND, &["slot", "reset", "behind"]);
    assert_eq!(reset.code, 1, "{reset:?}");
    let words = " is 3m behind the store's";
    assert!(reset.stderr.contains(words), "{reset:?}");
}

fn a_little_behind(fleet: &Fleet) {
    let options = ["--every", "1s"];
    assert_eq!(fleet.run("right", "little", &options).stdout, "ran\n");
    let skipped = fleet.run("-30", "little", &options);
    assert_eq!((skipped.code, &*skipped.stdout), (0, ""), "{skipped:?}");
    for words in ["too late", " is 30s behind the store's", "(NTP)"] {
        assert!(skipped.stderr.contains(words), "{skipped:?}");
    }
}

/// A host whose clock was ahead, and whose tolerance let it, has taken a slot that is not due.
fn poisoned(fleet: &Fleet) {
    let far = ["--every", "1s", "--slot-tolerance", "10m"];
    assert_eq!(fleet.run("+540", "poisoned", &far).stdout, "ran\n");
    let options = ["--every", "1s"];
    let reset = "`shedlock slot reset poisoned";
    let both = fleet.run(BEHIND, "poisoned", &options);
    let off = [reset, " is 3m behind the store's", ": set it, too (NTP)"];
    is_not_run(&both, &off);
    let refused = fleet.run("right", "poisoned", &options);
    is_not_run(&refused, &[reset, " is ahead of the store's clock ("]);
    assert!(!refused.stderr.contains("NTP"), "{refused:?}");
    let reset = fleet.on("right", &["slot", "reset", "poisoned"]);
    assert_eq!(reset.code, 0, "{reset:?}");
    eventually("a slot runs", || {
        fleet.run("right", "poisoned", &options).stdout == "ran\n"
    });
}

/// Its deadline is the next slot, the lease and the tolerance away: at most 130 s.
fn overdue(fleet: &Fleet) {
    assert_eq!(fleet.run("right", "job", &MINUTELY).stdout, "ran\n");
    let jobs = ["jobs", "-o", "json", "--filter", "job"];
    for clock in ["right", AHEAD] {
        let shown = fleet.on(clock, &jobs);
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(json["jobs"][0]["is_overdue"], false, "{clock}: {shown:?}");
        assert_eq!(json["jobs"][0]["state"], "ok", "{clock}: {shown:?}");
    }
}

/// Without the time of a store, only the slot shows that a clock is wrong.
fn judged_by_hosts(fleet: &Fleet) -> Result<(), String> {
    assert_eq!(fleet.run("right", "behind", &MINUTELY).stdout, "ran\n");
    let refused = fleet.run(BEHIND, "behind", &MINUTELY);
    let words = [
        "is ahead of this host's clock (",
        "does not report its time; set this clock if it is wrong (NTP)",
    ];
    is_not_run(&refused, &words);
    let set = fleet.run("right", "behind", &MINUTELY);
    assert_eq!(set.code, 0, "{set:?}");
    Ok(())
}

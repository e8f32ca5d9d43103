//! Everything that the command can do, once on each store.

use std::sync::Arc;
use std::time::Duration;

use shedlock::{
    Attempt, AttemptRequest, Clock, JobChange, JournalEntry, LockName, LockProvider, Owner, RunEnd,
    RunOutcome, RunRecord, Slot, SystemClock, UnlockRequest,
};
use tokio::runtime::Runtime;

use crate::common::{Sandbox, calendar};
use crate::places::{Locks, Place};
use crate::screen::{FIXED, Screen};

/// What is left of it is shown as `99d23h`, for half an hour.
const LONG: Duration = Duration::from_secs(100 * 86_400 - 1_800);

pub(crate) fn story(place: &Place, columns: usize) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let mut screen = Screen::new(place, &sandbox, &locks, columns);
    prepared(&mut screen);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(filled(&locks));
    looked_at(&mut screen);
    run(&mut screen);
    changed(&mut screen);
    remembered(&mut screen);
    screen.compare()
}

fn prepared(screen: &mut Screen<'_>) {
    screen.types("migrate", &["migrate"]);
    screen.types("migrate", &["migrate"]);
    screen.types("metrics", &["metrics"]);
    screen.types("journal", &["migrate", "--journal"]);
    screen.types("journal", &["migrate", "--journal"]);
    screen.types("doctor", &["doctor"]);
    screen.types("config", &["config"]);
    screen.types("list", &["list"]);
    screen.types("list", &["list", "--held"]);
    screen.types("prune", &["prune", "--idle-for", "90d"]);
}

/// Locks of other hosts, which are the same in every run.
async fn filled(locks: &Locks) {
    let provider = shedlock::connect(&locks.url).await.unwrap();
    let slot = FIXED[0].parse::<jiff::Timestamp>().unwrap();
    let slot = Slot::at(slot.into()).unwrap();
    held(
        &provider,
        "nightly",
        "web-3/4711/5f0c9b1d7e3a4c28",
        Some(slot),
    )
    .await;
    held(&provider, "busy", "web-4/815/91b6e0c2a7d4f358", None).await;
    // So that ends in whole milliseconds differ.
    SystemClock
        .sleep_until(SystemClock.now() + Duration::from_millis(5))
        .await;
    for (name, owner, at_least) in [
        ("report", "web-4/812/0a1b2c3d4e5f6071", Duration::ZERO),
        ("expire-a", "web-3/4712/1b2c3d4e5f607182", Duration::ZERO),
        ("expire-b", "web-3/4713/2c3d4e5f60718293", LONG),
    ] {
        let lease = attempt(&provider, name, owner, None, at_least).await;
        provider
            .unlock(&lease, &UnlockRequest::new())
            .await
            .unwrap();
    }
    let Some(journal) = provider.journal() else {
        return;
    };
    let now = calendar();
    let ago = |seconds: u64| now - Duration::from_secs(seconds);
    let mut scheduled = JobChange::new("report");
    scheduled.schedule = Some("0 3 * * *".to_owned());
    scheduled.zone = Some("Europe/Berlin".to_owned());
    let mut succeeded = RunRecord::new(
        "report",
        "report",
        "web-4/810/0a1b2c3d4e5f6071",
        ago(90_005),
    );
    succeeded.end = Some(RunEnd::new(
        Duration::from_millis(1_500),
        RunOutcome::Succeeded,
        None,
    ));
    let mut failed = RunRecord::new(
        "report",
        "report",
        "web-3/4710/1b2c3d4e5f607182",
        ago(3_605),
    );
    failed.slot = Some(slot);
    let error = "exit code 3: the bank did not answer, see http://bank.example.org/status for more";
    failed.end = Some(RunEnd::new(
        Duration::from_secs(192),
        RunOutcome::Failed,
        Some(error.to_owned()),
    ));
    let entries = [
        JournalEntry::Job(scheduled),
        JournalEntry::run(succeeded, None),
        JournalEntry::run(failed, None),
    ];
    journal.record(&entries).await.unwrap();
}

async fn held(provider: &Arc<dyn LockProvider>, name: &str, owner: &str, slot: Option<Slot>) {
    let _ = attempt(provider, name, owner, slot, Duration::ZERO).await;
}

async fn attempt(
    provider: &Arc<dyn LockProvider>,
    name: &str,
    owner: &str,
    slot: Option<Slot>,
    at_least: Duration,
) -> shedlock::Lease {
    let (name, owner) = (LockName::new(name).unwrap(), Owner::parse(owner).unwrap());
    let mut request = AttemptRequest::new(name, owner, LONG).with_lock_at_least_for(at_least);
    if let Some(slot) = slot {
        request = request.with_slot(slot);
    }
    match provider.attempt(&request).await.unwrap() {
        Attempt::Acquired(lease) => lease,
        other => panic!("{other:?}"),
    }
}

fn looked_at(screen: &mut Screen<'_>) {
    screen.types("pause", &["pause", "backup", "--reason", "moving"]);
    screen.types("list", &["list"]);
    screen.types("list", &["list", "--held"]);
    screen.types("list", &["list", "--state", "paused"]);
    screen.types(
        "list",
        &[
            "list", "--filter", "expire-*", "--state", "free", "--state", "at-least",
        ],
    );
    screen.types("list", &["list", "--sort", "left", "--reverse"]);
    screen.types("list", &["list", "--filter", "nosuch*"]);
    for name in ["nightly", "report", "expire-b", "backup", "nosuch"] {
        screen.types("show", &["show", name]);
    }
    screen.types("metrics", &["metrics"]);
}

fn run(screen: &mut Screen<'_>) {
    let at_most = ["--lock-at-most-for", "1h"];
    let mut run = |name: &str, options: &[&str], command: &[&str]| {
        let arguments = [
            &["run", "--name", name][..],
            &at_most,
            options,
            &["--"],
            command,
        ];
        screen.types("run", &arguments.concat());
    };
    run("job", &[], &["echo", "ran"]);
    run("job", &[], &["false"]);
    run("nightly", &[], &["echo", "ran"]);
    run(
        "nightly",
        &["--skip-exit-code", "9", "-q"],
        &["echo", "ran"],
    );
    run("expire-b", &[], &["echo", "ran"]);
    run("backup", &[], &["echo", "ran"]);
    run("job", &[], &["nosuch-command"]);
    let yearly = ["--schedule", "0 0 1 1 *"];
    run("slotted", &yearly, &["echo", "ran"]);
    run("slotted", &yearly, &["echo", "ran"]);

    let hold = |name| ["hold", name, "--lock-at-most-for", "1h", "--for", "100ms"];
    screen.types("hold", &hold("window"));
    screen.types("hold", &hold("nightly"));
    screen.types("hold", &hold("backup"));
}

fn changed(screen: &mut Screen<'_>) {
    screen.types("extend", &["extend", "nightly", "--for", "200d"]);
    screen.types("extend", &["extend", "report", "--for", "1h"]);
    screen.types("extend", &["extend", "nosuch", "--for", "1h"]);

    for name in ["nightly", "nightly", "expire-b", "backup", "nosuch"] {
        screen.types("unlock", &["unlock", name, "--force"]);
    }

    screen.types(
        "pause",
        &[
            "pause",
            "report",
            "--for",
            "1h",
            "--reason",
            "the bank is down",
        ],
    );
    screen.types("pause", &["pause", "expire-*", "--until", FIXED[1]]);
    screen.types("pause", &["pause", "busy", "--wait", "0s"]);
    screen.types("pause", &["pause", "busy", "--now", "--for", "1h"]);
    screen.types("pause", &["pause", "nosuch-*"]);
    screen.types("resume", &["resume", "report"]);
    screen.types("resume", &["resume", "report"]);
    screen.types("resume", &["resume", "nosuch"]);
    screen.types("resume", &["resume", "--all"]);
    screen.types("resume", &["resume", "--all"]);

    screen.types("slot-reset", &["slot", "reset", "slotted"]);
    screen.types(
        "slot-reset",
        &["slot", "reset", "slotted", "--to", FIXED[0]],
    );
    screen.types(
        "slot-reset",
        &["slot", "reset", "slotted", "--to", FIXED[1]],
    );
    screen.types("slot-reset", &["slot", "reset", "report"]);
    screen.types("slot-reset", &["slot", "reset", "nosuch"]);
}

fn remembered(screen: &mut Screen<'_>) {
    screen.types("jobs", &["jobs", "--filter", "report"]);
    screen.types("jobs", &["jobs", "--filter", "nosuch"]);
    screen.types("history", &["history", "report"]);
    screen.types("history", &["history", "nightly"]);
    screen.types("history", &["history", "report", "--failed"]);
    screen.types("history", &["history", "nosuch"]);

    screen.types("metrics", &["metrics"]);
    for names in [&[][..], &["busy", "slotted"], &["nosuch"], &["nosuch*"]] {
        let arguments = [&["prune"], names, &["--idle-for", "90d", "--yes"]];
        screen.types("prune", &arguments.concat());
    }
}

//! Everything that the command can do, once on each store: `story.md`, whose scenes continue each other. What differs
//! between the stores has a scene for each. `SHEDLOCK_TRANSCRIPTS=record` writes what is printed.

use std::path::Path;
use std::time::Duration;

use shedlock::__stores::STORES;
use shedlock::{
    AttemptRequest, JobChange, JournalEntry, LockName, Owner, RunEnd, RunOutcome, RunRecord, Slot,
    UnlockRequest,
};
use shedlock_transcripts::{Home, Mode, parse_duration, replay_story};
use tokio::runtime::Runtime;

use crate::common::{calendar, pause};
use crate::places::Place;

/// The program that a step of the story calls.
pub(crate) const FILL: &str = "fill";

const NO_JOURNAL: [&str; 4] = ["nats", "zookeeper", "etcd", "consul"];

pub(crate) fn story(place: &Place) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let this = std::env::current_exe().map_err(words)?;
    let shedlock = Path::new(env!("CARGO_BIN_EXE_shedlock"));
    let programs = [("shedlock", shedlock), (FILL, &*this)];
    let home = Home::new(&programs, env!("CARGO_PKG_VERSION")).map_err(words)?;
    let locks = place.locks(&home.path(""))?;
    let server = locks.url.split('?').next().unwrap_or_default();
    let product = match place.name {
        "valkey" => "Valkey",
        _ => "Redis",
    };
    let home = home
        .named("url", &locks.url)
        .named("place", server)
        .named("store", place.kind())
        .named("server", product)
        .named("namespace", &locks.name)
        .with("SHEDLOCK_STORE", &locks.url)
        .with("USER", "alice");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/story.md");
    replay_story(&page, Mode::from_environment()?, &home, |settings| {
        let is_meant = |words: &str| words.split(", ").any(|word| is_one(place, word));
        settings.get("stores").is_none_or(is_meant)
    })
}

/// Whether this word of a scene is the name of the place or of its store, or says whether that has a journal.
fn is_one(place: &Place, word: &str) -> bool {
    let has_journal = !NO_JOURNAL.contains(&place.kind());
    match word {
        "journal" => has_journal,
        "no-journal" => !has_journal,
        _ => {
            let is_known = STORES.iter().any(|store| store.name == word);
            assert!(is_known, "story.md: no store is named {word:?}");
            word == place.kind()
        }
    }
}

/// Its arguments are for how long it takes locks, and how long ago the runs were that it records.
pub(crate) fn fill() {
    let durations = std::env::args()
        .skip(1)
        .map(|it| parse_duration(&it).unwrap());
    let durations: Vec<_> = durations.collect();
    let [lease, before, long_before] = durations[..] else {
        panic!("fill LEASE AGO LONG_AGO");
    };
    let filled = filled(lease, [long_before, before]);
    Runtime::new().unwrap().block_on(filled);
}

/// Locks of other hosts, which are the same in every run.
async fn filled(lease: Duration, [long_ago, ago]: [Duration; 2]) {
    let url = std::env::var("SHEDLOCK_STORE").unwrap();
    let provider = shedlock::connect(&url).await.unwrap();
    let slot = "2020-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
    let slot = Slot::at(slot.into()).unwrap();
    for (name, owner) in [
        ("nightly", "web-3/4711/5f0c9b1d7e3a4c28"),
        ("busy", "web-4/815/91b6e0c2a7d4f358"),
        ("report", "web-4/812/0a1b2c3d4e5f6071"),
        ("expire-a", "web-3/4712/1b2c3d4e5f607182"),
        ("expire-b", "web-3/4713/2c3d4e5f60718293"),
    ] {
        let (word, owner) = (LockName::new(name).unwrap(), Owner::parse(owner).unwrap());
        let mut request = AttemptRequest::new(word, owner, lease);
        request = match name {
            "nightly" => request.with_slot(slot),
            "expire-b" => request.with_lock_at_least_for(lease),
            _ => request,
        };
        let taken = provider.attempt(&request).await.unwrap();
        if !["nightly", "busy"].contains(&name) {
            let (taken, request) = (taken.acquired().unwrap(), UnlockRequest::new());
            provider.unlock(&taken, &request).await.unwrap();
        }
        // So that ends in whole milliseconds differ.
        pause(Duration::from_millis(5));
    }
    let Some(journal) = provider.journal() else {
        return;
    };
    let now = calendar();
    let run = |owner: &str, ago: Duration, took: Duration, error: Option<&str>| {
        let mut run = RunRecord::new("report", "report", owner, now - ago);
        let outcome = error.map_or(RunOutcome::Succeeded, |_| RunOutcome::Failed);
        run.end = Some(RunEnd::new(took, outcome, error.map(str::to_owned)));
        run.slot = error.map(|_| slot);
        JournalEntry::run(run, None)
    };
    let mut scheduled = JobChange::new("report");
    scheduled.schedule = Some("0 3 * * *".to_owned());
    scheduled.zone = Some("Europe/Berlin".to_owned());
    let (owner, took) = ("web-4/810/0a1b2c3d4e5f6071", Duration::from_millis(1_500));
    let succeeded = run(owner, long_ago, took, None);
    let error = "exit code 3: the bank did not answer, see http://bank.example.org/status for more";
    let (owner, took) = ("web-3/4710/1b2c3d4e5f607182", Duration::from_secs(192));
    let failed = run(owner, ago, took, Some(error));
    let entries = [JournalEntry::Job(scheduled), succeeded, failed];
    journal.record(&entries).await.unwrap();
}

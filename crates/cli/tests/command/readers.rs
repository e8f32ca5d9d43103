//! After each kind of end, all that show a run or a job show the same, and change nothing.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use rustix::process::Signal;
use serde_json::Value;

use super::common::{Sandbox, calendar, done, end, eventually, query, signal, watchdog_of};
use super::server::Server;

const JOURNAL: &str = "SHEDLOCK_JOURNAL_STORE";

/// Reports its shell, and runs until there is a file `go`.
const UNTIL_GO: &str = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

/// What everything that shows the job `a` says: the states of the job and of its last run.
fn shown(sandbox: &Sandbox) -> (String, String) {
    let before = query(sandbox, ROWS);
    let word = |value: &Value| value.as_str().unwrap_or("null").to_owned();
    let printed = |arguments: &[&str]| {
        let printed = done(&mut sandbox.shedlock(arguments));
        assert_eq!(printed.code, 0, "{printed:?}");
        printed.stdout
    };
    let job = json(&printed(&["jobs", "-o", "json"]))["jobs"][0].clone();
    let (state, last) = (word(&job["state"]), word(&job["last_outcome"]));
    let both = format!("{state:?} {last:?}");

    let history = json(&printed(&["history", "a", "-o", "json"]));
    assert_eq!(word(&history["runs"][0]["outcome"]), last);
    let table = printed(&["jobs"]);
    assert!(
        table.contains(&state) && table.contains(&last),
        "{both} {table}"
    );
    let table = printed(&["history", "a"]);
    assert!(table.contains(&format!("  {last}  ")), "{both} {table}");

    let server = Server::start(sandbox, &[]);
    let body = |path: &str| {
        let reply = server.get(path, "");
        reply.split_once("\r\n\r\n").expect("a reply").1.to_owned()
    };
    assert_eq!(json(&body("/api/jobs"))["jobs"][0], job);
    let runs = json(&body("/api/runs?job=a"));
    assert_eq!(word(&runs["runs"][0]["outcome"]), last);
    let badge = |word: &str| format!("\">{word}</span>");
    for page in ["/jobs", "/job?name=a"] {
        let page = body(page);
        assert!(page.contains(&badge(&state)), "{both} {page}");
    }
    for page in ["/runs?job=a", "/job?name=a"] {
        let page = body(page);
        assert!(page.contains(&badge(&last)), "{both} {page}");
    }
    let now = body("/now");
    let needs_attention = !["ok", "cancelled", "running"].contains(&&*state);
    assert_eq!(
        now.contains(&badge(&state)),
        needs_attention,
        "{both} {now}"
    );
    assert!(server.stop().code == 0);

    let metrics = printed(&["metrics"]);
    let value = |metric: &str| {
        let start = format!("shedlock_job_{metric}{{job_name=\"a\",store=\"");
        let line = metrics.lines().find(|line| line.starts_with(&start));
        line.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
    };
    let is_unknown = value("end_unknown") == Some(1.0);
    assert_eq!(is_unknown, last == "end unknown", "{both} {metrics}");
    let failed = value("last_failure_timestamp_seconds");
    let has_failed = failed > value("last_success_timestamp_seconds");
    let is_failure = ["failed", "lost"].contains(&&*last);
    assert_eq!(has_failed, is_failure, "{both} {metrics}");

    assert_eq!(query(sandbox, ROWS), before, "reading changes nothing");
    (state, last)
}

/// All that a journal keeps of jobs and runs.
const ROWS: &str = "SELECT group_concat(quote(outcome) || quote(ran_for_us) || quote(error)) FROM shedlock_run \
                    UNION ALL SELECT group_concat(quote(last_outcome) || quote(last_failed_us) || \
                    quote(last_succeeded_us)) FROM shedlock_job";

fn is(shown: &(String, String), state: &str, last: &str) {
    assert_eq!((&*shown.0, &*shown.1), (state, last));
}

/// A run that is in the journal.
fn started(sandbox: &Sandbox, at_most: &str, options: &[&str]) -> Child {
    let run = sandbox.run_with("a", at_most, options, UNTIL_GO).spawn();
    sandbox.await_lines("pids", 1);
    eventually("the start in the journal", || {
        query(
            sandbox,
            "SELECT CAST(count(*) AS text) FROM shedlock_run WHERE outcome IS NULL",
        ) == "1"
    });
    run.unwrap()
}

fn journal() -> Sandbox {
    let sandbox = Sandbox::new();
    let migrated = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    sandbox
}

/// As if its host had died.
#[test]
fn a_run_whose_host_died_is_end_unknown_everywhere() {
    let sandbox = journal();
    let succeeded = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!(succeeded.code, 0, "{}", succeeded.stderr);
    is(&shown(&sandbox), "ok", "succeeded");
    let child = started(&sandbox, "15s", &[]);
    let pids = sandbox.pids("pids");
    is(&shown(&sandbox), "running", "running");
    let until = sandbox.locked_until("a");
    // It must not stop the command itself.
    signal(child.id(), Signal::STOP);
    signal(watchdog_of(&pids), Signal::KILL);
    signal(pids[0], Signal::KILL);
    signal(child.id(), Signal::KILL);
    end(child);
    eventually("the end of the lease", || calendar() > until);
    is(&shown(&sandbox), "end unknown", "end unknown");
    // The job goes on with its next run.
    std::fs::write(sandbox.path("go"), "").unwrap();
    let next = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!(next.code, 0, "{}", next.stderr);
    is(&shown(&sandbox), "ok", "succeeded");
}

#[test]
fn a_run_that_was_killed_alone_has_failed_everywhere() {
    let sandbox = journal();
    let mut child = started(&sandbox, "10m", &[]);
    child.kill().unwrap();
    let ended = end(child);
    assert!(ended.stderr.contains("was killed"), "{}", ended.stderr);
    is(&shown(&sandbox), "failed", "failed");
}

#[test]
fn a_run_that_was_cut_has_failed_everywhere() {
    let sandbox = journal();
    let ended = end(started(&sandbox, "9s", &[]));
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    is(&shown(&sandbox), "failed", "failed");
}

#[test]
fn a_run_that_a_signal_ends_is_cancelled_everywhere() {
    let sandbox = journal();
    let child = started(&sandbox, "10m", &[]);
    signal(child.id(), Signal::TERM);
    let ended = end(child);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
    is(&shown(&sandbox), "cancelled", "cancelled");
}

#[test]
fn a_run_whose_lock_was_freed_is_without_it_and_then_lost_everywhere() {
    let sandbox = journal();
    let child = started(&sandbox, "10m", &[]);
    let forced = done(&mut sandbox.shedlock(&["unlock", "a", "--force"]));
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    is(&shown(&sandbox), "without its lock", "without its lock");
    std::fs::write(sandbox.path("go"), "").unwrap();
    let ended = end(child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    is(&shown(&sandbox), "failed", "lost");
}

#[test]
fn a_paused_job_is_paused_everywhere() {
    let sandbox = journal();
    let ran = done(&mut sandbox.run("a", "1m", "exit 3"));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(done(&mut sandbox.shedlock(&["pause", "a"])).code, 0);
    is(&shown(&sandbox), "paused", "failed");
}

/// A journal in a store of its own, which can be read and not written when the run of a sandbox ends.
struct Busy {
    sandbox: Sandbox,
    journal: String,
    child: Child,
    writer: super::unused_slots::Writer,
}

impl Busy {
    fn begin() -> Self {
        let sandbox = Sandbox::new();
        let journal = format!("sqlite:{}", sandbox.path("journal.db").display());
        let with_journal = |command: &mut Command| done(command.env(JOURNAL, &journal));
        let migrated = with_journal(&mut sandbox.shedlock(&["migrate"]));
        assert_eq!(migrated.code, 0, "{}", migrated.stderr);
        let mut run = sandbox.run("a", "9s", UNTIL_GO);
        let child = run.env(JOURNAL, &journal).spawn().unwrap();
        sandbox.await_lines("pids", 1);
        eventually("the start in the journal", || {
            outcome(&sandbox, &journal) == "running"
        });
        let writer = super::unused_slots::Writer::begin(&journal);
        std::fs::write(sandbox.path("go"), "").unwrap();
        Self {
            sandbox,
            journal,
            child,
            writer,
        }
    }
}

/// The outcome of the latest run in this journal.
fn outcome(sandbox: &Sandbox, journal: &str) -> Value {
    let mut history = sandbox.shedlock(&["history", "a", "-o", "json"]);
    let printed = done(history.env(JOURNAL, journal)).stdout;
    json(&printed)["runs"][0]["outcome"].clone()
}

/// What could not be recorded by then is kept too.
#[test]
fn a_success_that_a_signal_keeps_from_being_recorded_is_delivered_later() {
    // The signal must arrive after the reply to the unlock, and within two seconds of it.
    let arrives_in_time = || {
        let Busy {
            sandbox,
            journal,
            child,
            writer,
        } = Busy::begin();
        eventually("the unlock", || sandbox.lock("a")["state"] == "free");
        signal(child.id(), Signal::TERM);
        let ended = end(child);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let said = "shedlock: a: could not write to the journal before SIGTERM arrived: \
                    the end of this run is kept in";
        writer.end();
        let is_said = ended.stderr.starts_with(said);
        if is_said {
            assert_eq!(outcome(&sandbox, &journal), "succeeded");
        }
        is_said
    };
    assert!((0..5).any(|_| arrives_in_time()), "the machine is too slow");
}

#[test]
fn a_success_that_could_not_be_recorded_is_delivered_later() {
    let Busy {
        sandbox,
        journal,
        child,
        writer: busy,
    } = Busy::begin();
    let outcome = || outcome(&sandbox, &journal);
    let ended = end(child);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let spool = sandbox.path(".local/state/shedlock/spool");
    let said = format!(
        "shedlock: a: could not write to the journal within 2s: the end of this run is kept in {}, \
         and the next `shedlock` of this user on this host that reaches the journal records it\n",
        spool.display()
    );
    assert_eq!(ended.stderr, said);
    let files = || {
        std::fs::read_dir(&spool)
            .unwrap()
            .map(|it| it.unwrap().path())
    };
    for path in files().chain([spool.clone()]) {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path:?}");
    }
    assert_eq!(files().count(), 1);
    eventually("the end of the lease", || outcome() == "end unknown");
    assert_eq!(files().count(), 1, "what cannot be delivered stays");
    busy.end();

    // Not to the journal of another environment.
    let migrated = done(&mut sandbox.shedlock(&["migrate"]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    assert_eq!(done(&mut sandbox.shedlock(&["jobs"])).stdout, "no jobs\n");
    assert_eq!(files().count(), 1);
    assert_eq!(outcome(), "succeeded");
    assert_eq!(files().count(), 0);
}

/// Others could make this user write what they want into the journal.
#[test]
fn a_spool_that_others_may_write_is_not_used() {
    let sandbox = journal();
    let spool = sandbox.path(".local/state/shedlock/spool");
    std::fs::create_dir_all(&spool).unwrap();
    std::fs::set_permissions(&spool, PermissionsExt::from_mode(0o777)).unwrap();
    let identity = query(&sandbox, "SELECT identity FROM shedlock_journal");
    let started = calendar()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_micros();
    let run = format!(
        "[{{\"job\":\"a\",\"name\":\"a\",\"owner\":\"h/1/ff\",\"started\":{started},\
         \"end\":{{\"ran_for\":1,\"outcome\":\"failed\",\"error\":null}}}}]"
    );
    std::fs::write(spool.join(format!("{identity}.00.run")), &run).unwrap();
    assert_eq!(done(&mut sandbox.shedlock(&["jobs"])).stdout, "no jobs\n");
    std::fs::set_permissions(&spool, PermissionsExt::from_mode(0o700)).unwrap();
    assert!(
        done(&mut sandbox.shedlock(&["jobs"]))
            .stdout
            .contains("failed")
    );
    let is_empty = || std::fs::read_dir(&spool).unwrap().next().is_none();
    assert!(is_empty());
    // What is not ours or too old is removed.
    let torn = &run[..run.len() - 9];
    for text in [
        "",
        torn,
        "[{\"job\":1}]",
        &run.replace(&started.to_string(), "1"),
    ] {
        std::fs::write(spool.join(format!("{identity}.00.run")), text).unwrap();
        assert_eq!(done(&mut sandbox.shedlock(&["jobs"])).code, 0);
        assert!(is_empty(), "{text}");
    }
    // What cannot be read keeps no other from being delivered, whichever the system lists first.
    let named = |name: &str| spool.join(format!("{identity}.{name}.run"));
    let pipe = rustix::fs::FileType::Fifo;
    let made = rustix::fs::mknodat(rustix::fs::CWD, named("pipe"), pipe, 0o600.into(), 0);
    made.unwrap();
    std::fs::create_dir(named("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", named("link")).unwrap();
    for at in 0..30 {
        let run = run.replace("h/1/ff", &format!("h/1/{at}"));
        std::fs::write(named(&at.to_string()), run).unwrap();
    }
    assert_eq!(done(&mut sandbox.shedlock(&["jobs"])).code, 0);
    let left = std::fs::read_dir(&spool).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert!(
        left.iter()
            .all(|it| it.to_string_lossy().contains(".folder.")
                || it.to_string_lossy().contains(".link.")),
        "{left:?}"
    );
}

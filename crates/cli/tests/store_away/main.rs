//! Commands with keep-alive over a real store that becomes unavailable. After a short outage, nothing happens. After a
//! longer one, the command is gone before its lease ends in the store.

#![allow(
    clippy::unwrap_used,
    reason = "the lint's own allowance for tests covers functions marked as tests, not their helpers"
)]

#[path = "../command/common.rs"]
mod common;
#[cfg(feature = "ui")]
#[path = "../command/server.rs"]
mod server;
#[path = "../torture/stores.rs"]
mod stores;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Child;
use std::time::Duration;

use common::{FAMILY, Sandbox, all_gone_before, await_said, end, eventually, is_alive, now, pause};
use libtest_mimic::{Arguments, Trial};
use rustix::process::Signal;
use shedlock_conformance::proxy::{Delivery, Fault, Proxy, Strike, contains};
use tokio::runtime::Runtime;
use url::Url;

/// Extended when a third of it has passed. The command is stopped when a third of it is left.
const LEASE: Duration = Duration::from_secs(9);
/// The same for a command that is to survive: more time for a busy machine.
const LONG_LEASE: Duration = Duration::from_secs(24);
/// How long a withheld copy of an attempt can take the lock, less what a busy machine needs to look.
const COPY_IS_VALID: Duration = Duration::from_secs(8);
/// How many tests run at once. They wait more than they work, but a copy does not stay valid while all start processes.
const AT_ONCE: usize = 16;

/// A store behind a proxy, and a command under a lock in it.
struct Scene {
    runtime: Runtime,
    proxy: Proxy,
    sandbox: Sandbox,
    /// The store's URL without the proxy.
    direct: String,
    name: String,
    child: Child,
}

impl Scene {
    /// Starts the script, and waits until its lease was extended for the first time.
    fn of(direct: String, case: &str, lease: Duration, script: &str, processes: usize) -> Self {
        let runtime = runtime();
        let mut url = Url::parse(&direct).unwrap();
        let proxy = runtime.block_on(Proxy::start(address(&url))).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(proxy.addr().port())).unwrap();

        let sandbox = Sandbox::new();
        let migrated = common::done(&mut sandbox.bare(&["migrate", "--store", &direct]));
        assert_eq!(migrated.code, 0, "{}", migrated.stderr);
        let at_most = format!("{}s", lease.as_secs());
        let child = sandbox
            .run_with(case, &at_most, &["--keep-alive"], script)
            .env("SHEDLOCK_STORE", url.as_str())
            .spawn()
            .unwrap();
        sandbox.await_lines("pids", processes);
        let scene = Self {
            runtime,
            proxy,
            sandbox,
            direct,
            name: case.to_owned(),
            child,
        };
        let first = scene.locked_until();
        eventually("an extension", || scene.locked_until() > first);
        scene
    }

    fn locked_until(&self) -> std::time::SystemTime {
        self.sandbox.locked_until_in(&self.direct, &self.name)
    }

    fn set(&self, fault: Fault) {
        self.runtime.block_on(self.proxy.set(fault)).unwrap();
    }
}

fn address(url: &Url) -> SocketAddr {
    let default = if url.scheme().starts_with("postgres") {
        5432
    } else {
        3306
    };
    let place = (url.host_str().unwrap(), url.port().unwrap_or(default));
    place
        .to_socket_addrs()
        .unwrap()
        .find(SocketAddr::is_ipv4)
        .unwrap()
}

/// Down for longer than the lease.
fn the_command_is_gone_in_time(direct: String, case: &str, fault: Fault) {
    let scene = Scene::of(direct, case, LEASE, FAMILY, 3);
    let pids = scene.sandbox.pids("pids");
    scene.set(fault);
    let until = scene.locked_until();
    all_gone_before(until, &pids);
    assert_eq!(scene.locked_until(), until, "no process could extend it");
    let ended = end(scene.child);
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    let said = "its lease could not be extended in time";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// Down for a while.
fn the_command_goes_on(direct: String, case: &str, fault: Fault) {
    let script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done; echo done";
    let scene = Scene::of(direct, case, LONG_LEASE, script, 1);
    let pids = scene.sandbox.pids("pids");
    // A hanging call is given up after a sixth of the lease, and everything that connects in the meantime hangs
    // forever. So a silent store may be unavailable for less than that, a refusing one for longer.
    let outage = if fault == Fault::Swallow {
        LONG_LEASE / 8
    } else {
        LONG_LEASE / 4
    };
    // Across the instant at which the next extension is due.
    let due = now() + LONG_LEASE / 3;
    wait_until(due - outage / 2);
    scene.set(fault);
    let before = scene.locked_until();
    wait_until(due + outage / 2);
    scene.runtime.block_on(scene.proxy.heal()).unwrap();
    eventually("an extension", || {
        assert!(is_alive(pids[0]), "the command was stopped");
        scene.locked_until() > before
    });
    std::fs::write(scene.sandbox.path("go"), "").unwrap();
    let ended = end(scene.child);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ended.stderr
    );
}

/// The dashboard and its metrics do not depend on the store that they watch.
#[cfg(feature = "ui")]
fn the_dashboard_starts_without_its_store(direct: &str, case: &str, fault: Fault) {
    let (runtime, sandbox, mut url) = searchable(direct);
    another_owner_comes_and_goes(&sandbox, direct, case);
    let proxy = proxied(&runtime, &mut url);
    runtime.block_on(proxy.set(fault)).unwrap();
    let options = ["--metrics-listen", "127.0.0.1:0", "--store-name", "main"];
    let store = ["--store", url.as_str()];
    let server = server::Server::without_store(&sandbox, &[&options[..], &store].concat());
    let said = &server.said;
    let goes_on = "the dashboard starts without main, and each request tries again";
    assert!(said.contains(goes_on), "{said}");
    let is_down = || {
        let jobs = server.get("/jobs", "");
        assert_eq!(server::status(&jobs), "503", "{jobs}");
        let now = server.get("/now", "");
        assert!(now.contains("the store cannot be read"), "{now}");
        let stores = server.get("/stores", "");
        assert!(stores.contains("It did not reply."), "{stores}");
        let metrics = server.metrics();
        assert!(metrics.contains("shedlock_store_up 0\n"), "{metrics}");
        [jobs, stores]
    };
    is_down();
    runtime.block_on(proxy.heal()).unwrap();
    eventually("the page of the jobs", || {
        server.get("/jobs", "").contains(case)
    });
    let metrics = server.metrics();
    assert!(metrics.contains("shedlock_store_up 1\n"), "{metrics}");
    assert!(metrics.contains(case), "{metrics}");
    runtime.block_on(proxy.set(fault)).unwrap();
    // A proxy that waits for 5 s would know less.
    for page in is_down() {
        let reason = "cannot read main: no reply within 4s";
        assert_eq!(page.contains(reason), fault == Fault::Swallow, "{page}");
    }
    let ended = server.stop();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let reached = "shedlock: main has been reached\n";
    assert_eq!(ended.stderr.matches(reached).count(), 1, "{}", ended.stderr);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A migrated store whose requests name the lock as a proxy can find it, the URL by which they do, and a sandbox.
fn searchable(direct: &str) -> (Runtime, Sandbox, Url) {
    let mut url = Url::parse(direct).unwrap();
    if url.scheme() == "mysql" {
        url.query_pairs_mut().append_pair("ssl-mode", "disabled");
    }
    let sandbox = Sandbox::new();
    let migrated = common::done(&mut sandbox.bare(&["migrate", "--store", direct]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    (runtime(), sandbox, url)
}

/// A proxy in front of the store of this URL, which leads through it from now on.
fn proxied(runtime: &Runtime, url: &mut Url) -> Proxy {
    let proxy = runtime.block_on(Proxy::start(address(url))).unwrap();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.addr().port())).unwrap();
    proxy
}

/// Another owner comes and goes, so that the record no longer shows that the first one has ended.
fn another_owner_comes_and_goes(sandbox: &Sandbox, direct: &str, name: &str) {
    let other = common::done(
        sandbox
            .run_with(name, "1h", &[], "true")
            .env("SHEDLOCK_STORE", direct),
    );
    assert_eq!(other.code, 0, "{}", other.stderr);
}

/// Asked to end while an attempt has no reply: it does not leave the lock without an owner.
fn an_attempt_without_an_answer_is_withdrawn_before_the_end(direct: &str, case: &str) {
    let (runtime, sandbox, to_store) = searchable(direct);
    // Any of the first requests that name the lock may be the one that takes it. Redis gets two more requests whenever
    // another test has flushed its scripts, which may change between two attempts: after the fifth, start over.
    for (attempt, nth) in (1..=5).cycle().enumerate().take(15) {
        let mut url = to_store.clone();
        let proxy = proxied(&runtime, &mut url);
        let name = format!("{case}_{attempt}");
        let trap = proxy.on_request(contains(&name), nth, Strike::SwallowReply);
        let mut child = sandbox
            .run_with(&name, "60s", &[], "echo ran")
            .env("SHEDLOCK_STORE", url.as_str())
            .spawn()
            .unwrap();
        eventually("a request without an answer", || {
            trap.has_struck() || child.try_wait().unwrap().is_some()
        });
        let is_held = || sandbox.lock_in(direct, &name)["state"] == "held";
        let deadline = now() + Duration::from_secs(2);
        while !is_held() && now() < deadline {
            pause(Duration::from_millis(20));
        }
        let was_held = is_held();
        if child.try_wait().unwrap().is_none() {
            common::signal(child.id(), Signal::TERM);
        }
        let ended = end(child);
        if was_held {
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (143, ""),
                "{}",
                ended.stderr
            );
            let said = "the store did not reply to an attempt";
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
            assert_eq!(sandbox.lock_in(direct, &name)["state"], "free");
            return;
        }
    }
    panic!("no attempt took the lock");
}

/// `run` is killed while it tries to release the lock of a command that has ended. Its watchdog goes on.
fn the_watchdog_releases_what_a_killed_run_could_not(direct: String, case: &str, fault: Fault) {
    let script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done";
    let mut scene = Scene::of(direct, case, LONG_LEASE, script, 1);
    let until = scene.locked_until();
    scene.set(fault);
    std::fs::write(scene.sandbox.path("go"), "").unwrap();
    await_said(&mut scene.child, "cannot release the lock yet, retrying");
    scene.child.kill().unwrap();
    scene.runtime.block_on(scene.proxy.heal()).unwrap();
    eventually("the watchdog's release", || {
        scene.sandbox.lock_in(&scene.direct, &scene.name)["state"] == "free"
    });
    assert!(common::calendar() < until, "the lease ended by itself");
    let ended = end(scene.child);
    let said = "was killed; its command has ended, ";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

/// The watchdog ends a lease that another process was granted.
fn kill_9_of_run_does_not_keep_the_lock(store: &str, case: &str) {
    let sandbox = Sandbox::new();
    let migrated = common::done(&mut sandbox.bare(&["migrate", "--store", store]));
    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let script = "echo $$ > pids; exec sleep 60";
    let options = ["--every", "10m", "--must-not-be-lost"];
    let mut child = sandbox
        .run_with(case, "10m", &options, script)
        .env("SHEDLOCK_STORE", store)
        .spawn()
        .unwrap();
    sandbox.await_lines("pids", 1);
    child.kill().unwrap();
    let ended = end(child);
    let lock = sandbox.lock_in(store, case);
    assert_eq!(lock["state"], "free", "{}", ended.stderr);
    assert_eq!(lock["slot_attempts"], 1, "{lock}");
    let said = "released the lock\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
}

/// The copy is of the attempt that won.
fn the_watchdog_withdraws_what_a_late_copy_takes(direct: &str, case: &str) {
    the_watchdog_withdraws_copies(direct, case, false);
}

/// The copy is of an earlier attempt, which found the lock taken when it was repeated.
fn the_watchdog_withdraws_what_a_late_copy_of_the_wait_takes(direct: &str, case: &str) {
    the_watchdog_withdraws_copies(direct, case, true);
}

fn the_watchdog_withdraws_copies(direct: &str, case: &str, has_waited: bool) {
    in_time(|round| the_watchdog_withdraws_a_copy(direct, &format!("{case}_{round}"), has_waited));
}

/// Repeats a test of a copy until the copy arrives while it is valid.
fn in_time(is_withdrawn: impl FnMut(u32) -> bool) {
    assert!((0..5).any(is_withdrawn), "the machine is too slow");
}

/// Redis gets its script with the second request, if it does not have it.
fn has_scripts(sandbox: &Sandbox, store: &str, case: &str) {
    let mut warm = sandbox.run_with(&format!("{case}_warm"), "1m", &[], "true");
    let _ = common::done(warm.env("SHEDLOCK_STORE", store));
}

/// Starts a run that holds the lock until there is a file `go`.
fn holds_until_go(sandbox: &Sandbox, store: &str, name: &str) -> Child {
    let script = "echo $$ > before; while [ ! -e go ]; do sleep 0.05; done";
    let mut before = sandbox.run_with(name, "1h", &[], script);
    let before = before.env("SHEDLOCK_STORE", store).spawn().unwrap();
    sandbox.await_lines("before", 1);
    before
}

/// It has waited since a copy of its attempt was left without a reply, and is asked to end.
fn a_wait_that_a_signal_ends_withdraws_its_copies(direct: &str, case: &str) {
    in_time(|round| a_wait_withdraws_a_copy(direct, &format!("{case}_{round}")));
}

fn a_wait_withdraws_a_copy(direct: &str, case: &str) -> bool {
    let (runtime, sandbox, mut url) = searchable(direct);
    let proxy = proxied(&runtime, &mut url);
    has_scripts(&sandbox, url.as_str(), case);
    let before = holds_until_go(&sandbox, direct, case);
    let trap = proxy.on_request(contains(case), 1, Strike::CutAndWithholdRequest);
    let began = now();
    let mut child = sandbox
        .run_with(case, "1h", &["--lock-wait", "1m"], "echo ran")
        .env("SHEDLOCK_STORE", url.as_str())
        .spawn()
        .unwrap();
    await_said(&mut child, ": waiting: held by ");
    assert!(trap.has_struck());
    common::signal(child.id(), Signal::TERM);
    std::fs::write(sandbox.path("go"), "").unwrap();
    assert_eq!(end(before).code, 0);
    assert_eq!(runtime.block_on(trap.deliver()), Delivery::Answered);
    let state = || sandbox.lock_in(direct, case)["state"].clone();
    let has_taken = state() == "held";
    let is_in_time = now() - began < COPY_IS_VALID;
    let ended = end(child);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
    if !has_taken && !is_in_time {
        return false;
    }
    assert!(has_taken, "the copy was refused: {}", ended.stderr);
    assert_eq!(state(), "free", "{}", ended.stderr);
    true
}

/// `run` would have withdrawn what a copy of its attempt takes after the unlock. Once it is killed, its watchdog does.
/// Returns `false` if all took so long that the copy was no longer valid.
fn the_watchdog_withdraws_a_copy(direct: &str, case: &str, has_waited: bool) -> bool {
    let (runtime, sandbox, mut url) = searchable(direct);
    let proxy = proxied(&runtime, &mut url);
    has_scripts(&sandbox, url.as_str(), case);
    let before = has_waited.then(|| holds_until_go(&sandbox, direct, case));
    let trap = proxy.on_request(contains(case), 1, Strike::CutAndWithholdRequest);
    let script = "echo $$ > pids; exec sleep 60";
    let began = now();
    let mut child = sandbox
        .run_with(case, "1h", &["--lock-wait", "1m"], script)
        .env("SHEDLOCK_STORE", url.as_str())
        .spawn()
        .unwrap();
    if let Some(before) = before {
        // The request without an answer was repeated.
        await_said(&mut child, ": waiting: held by ");
        std::fs::write(sandbox.path("go"), "").unwrap();
        assert_eq!(end(before).code, 0);
    }
    sandbox.await_lines("pids", 1);
    assert!(trap.has_struck());
    child.kill().unwrap();
    let state = || sandbox.lock_in(direct, case)["state"].clone();
    eventually("the watchdog's release", || state() == "free");
    another_owner_comes_and_goes(&sandbox, direct, case);
    assert_eq!(runtime.block_on(trap.deliver()), Delivery::Answered);
    let has_taken = state() == "held";
    let is_in_time = now() - began < COPY_IS_VALID;
    let ended = end(child);
    if !has_taken && !is_in_time {
        return false;
    }
    assert!(has_taken, "the copy was refused: {}", ended.stderr);
    // The watchdog has ended, so no one else would withdraw.
    assert_eq!(state(), "free", "{}", ended.stderr);
    let said = "released the lock\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
    true
}

/// Before the watchdog unlocks a lease, it repeats the attempt that won it. This is a claim too.
fn the_watchdog_withdraws_what_a_late_copy_of_its_own_takes(direct: &str, case: &str) {
    let (runtime, sandbox, mut url) = searchable(direct);
    let proxy = proxied(&runtime, &mut url);
    // Which of its requests is the attempt depends on the store. A machine that is too slow for the copy gets more rounds.
    for (round, nth) in (1..=6).cycle().enumerate().take(18) {
        let name = format!("{case}_{round:02}");
        let mut child = sandbox
            .run_with(&name, "1h", &[], "echo $$ >> pids; exec sleep 60")
            .env("SHEDLOCK_STORE", url.as_str())
            .spawn()
            .unwrap();
        sandbox.await_lines("pids", round + 1);
        let trap = proxy.on_request(contains(&name), nth, Strike::CutAndWithholdRequest);
        child.kill().unwrap();
        let state = || sandbox.lock_in(direct, &name)["state"].clone();
        eventually("the watchdog's release", || state() == "free");
        another_owner_comes_and_goes(&sandbox, direct, &name);
        let is_late = trap.has_struck() && runtime.block_on(trap.deliver()) == Delivery::Answered;
        let has_taken = is_late && state() == "held";
        let ended = end(child);
        assert!(ended.stderr.contains("was killed"), "{}", ended.stderr);
        if has_taken {
            // The watchdog has ended, so no one else would withdraw.
            assert_eq!(state(), "free", "{}", ended.stderr);
            return;
        }
    }
    panic!("no late request of the watchdog took the lock");
}

/// Another owner takes the lock of a running command, and the connection breaks when that one ends: without its reply, the
/// unlock is repeated, which must not pass for a success.
fn an_overlapped_run_is_lost_although_its_connection_was_cut(direct: &str, case: &str) {
    // Whether the unlock has arrived makes no difference: the lock was another owner's by then.
    let strikes = [Strike::CutBeforeRequest, Strike::CutBeforeReply];
    let takes: [&[&[&str]]; 2] = [
        &[&["unlock", "--force"]],
        &[&["pause", "--now"], &["resume", "--catch-up"]],
    ];
    for (strike, takes) in strikes
        .into_iter()
        .flat_map(|strike| takes.map(|takes| (strike, takes)))
    {
        let (runtime, sandbox, mut url) = searchable(direct);
        let proxy = proxied(&runtime, &mut url);
        let name = format!("{case}_{strike:?}_{}", takes[0][0]).to_lowercase();
        let journal = format!("sqlite:{}", sandbox.path("journal.db").display());
        let shedlock = |store: &str, arguments: &[&str]| {
            let mut command = sandbox.bare(arguments);
            let command = command.env("SHEDLOCK_STORE", store);
            common::done(command.env("SHEDLOCK_JOURNAL_STORE", &journal))
        };
        assert_eq!(shedlock(direct, &["migrate"]).code, 0);
        let slot = [
            "--every",
            "1d",
            "--slot-tolerance",
            "1m",
            "--must-not-be-lost",
        ];
        let script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done";
        let first = sandbox
            .run_with(&name, "10m", &slot, script)
            .env("SHEDLOCK_STORE", url.as_str())
            .env("SHEDLOCK_JOURNAL_STORE", &journal)
            .spawn()
            .unwrap();
        sandbox.await_lines("pids", 1);
        for take in takes {
            let taken = shedlock(direct, &[take, &[&*name][..]].concat());
            assert_eq!(taken.code, 0, "{}", taken.stderr);
        }
        let run = ["run", "-n", &name, "--lock-at-most-for", "10m"];
        let other = shedlock(
            direct,
            &[&run[..], &slot, &["--", "echo", "other"]].concat(),
        );
        assert_eq!(&*other.stdout, "other\n", "{}", other.stderr);

        let trap = proxy.on_request(contains(&name), 1, strike);
        std::fs::write(sandbox.path("go"), "").unwrap();
        let ended = end(first);
        assert!(trap.has_struck());
        assert_eq!(ended.code, 75, "{}", ended.stderr);
        let said = "another run may have overlapped this one";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        let history = shedlock(direct, &["history", &name, "-o", "json"]);
        let history: serde_json::Value = serde_json::from_str(&history.stdout).unwrap();
        let outcomes = history["runs"].as_array().unwrap().iter();
        let outcomes: Vec<_> = outcomes
            .map(|run| run["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, ["succeeded", "lost"], "{history}");
        let doctor = shedlock(direct, &["doctor", "-o", "json"]);
        let findings: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
        let mut findings = findings["findings"].as_array().unwrap().iter();
        let twice = findings
            .find(|it| it["check"] == "slots-run-twice")
            .unwrap();
        assert_eq!(twice["level"], "warning", "{twice}");
        assert!(
            twice["message"].as_str().unwrap().contains(&name),
            "{twice}"
        );
    }
}

fn wait_until(moment: Duration) {
    while now() < moment {
        pause(Duration::from_millis(20));
    }
}

/// Over the store of this URL, as the case of this name.
type Test = fn(&str, &str);

fn main() {
    let mut arguments = Arguments::from_args();
    let mut trials = Vec::new();
    // A file does not become unavailable.
    for store in stores::all()
        .into_iter()
        .filter(|store| store.name() != "sqlite")
    {
        let store = std::sync::Arc::new(store);
        let cases: [(&str, Test); 7] = [
            (
                "withdrawn",
                an_attempt_without_an_answer_is_withdrawn_before_the_end,
            ),
            ("killed", kill_9_of_run_does_not_keep_the_lock),
            ("copied", the_watchdog_withdraws_what_a_late_copy_takes),
            (
                "waited",
                the_watchdog_withdraws_what_a_late_copy_of_the_wait_takes,
            ),
            (
                "interrupted",
                a_wait_that_a_signal_ends_withdraws_its_copies,
            ),
            (
                "claimed",
                the_watchdog_withdraws_what_a_late_copy_of_its_own_takes,
            ),
            (
                "overlapped",
                an_overlapped_run_is_lost_although_its_connection_was_cut,
            ),
        ];
        for (what, test) in cases {
            let case = format!("{what}_{}", store.name());
            let store = store.clone();
            trials.push(Trial::test(case.clone(), move || {
                test(&store.url(&std::env::temp_dir())?, &case);
                Ok(())
            }));
        }
        for (how, fault) in [("refused", Fault::Refuse), ("swallowed", Fault::Swallow)] {
            let mut add = |what: &str, test: fn(String, &str, Fault)| {
                let case = format!("{what}_{how}_{}", store.name());
                let (name, store) = (case.clone(), store.clone());
                trials.push(Trial::test(case, move || {
                    let folder = std::env::temp_dir();
                    test(store.url(&folder)?, &name, fault);
                    Ok(())
                }));
            };
            add("gone_in_time", the_command_is_gone_in_time);
            add("goes_on", the_command_goes_on);
            add(
                "unreleased",
                the_watchdog_releases_what_a_killed_run_could_not,
            );
            #[cfg(feature = "ui")]
            add("dashboard", |direct, case, fault| {
                the_dashboard_starts_without_its_store(&direct, case, fault);
            });
        }
    }
    arguments.test_threads.get_or_insert(AT_ONCE);
    libtest_mimic::run(&arguments, trials).exit();
}

//! `docs/moving.md`: its commands on two servers, while jobs run.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use shedlock_rig::PostgresServer;
use shedlock_rig::given::server_if_any;
use shedlock_rig::wait::{eventually, pause};

use super::common::{Done, Sandbox, blocks, done, page, path_before};

const JOBS: [&str; 2] = ["report", "mail"];

struct Move {
    sandbox: Sandbox,
    old: PostgresServer,
    new: PostgresServer,
}

/// The hosts of a service, each with the URL that it has now.
struct Hosts {
    urls: Mutex<[String; 3]>,
    is_over: AtomicBool,
}

impl Move {
    fn start(settings: &[&str]) -> Option<Self> {
        server_if_any("postgres")?;
        let start = || PostgresServer::start(settings).unwrap();
        let (old, new) = thread::scope(|scope| {
            let other = scope.spawn(start);
            (start(), other.join().unwrap())
        });
        let sandbox = Sandbox::new();
        let this = Self { sandbox, old, new };
        assert_eq!(this.shedlock(this.old.url(), &["migrate"]).code, 0);
        Some(this)
    }

    fn shedlock(&self, store: &str, arguments: &[&str]) -> Done {
        done(
            &mut self
                .sandbox
                .bare(&[arguments, &["--store", store]].concat()),
        )
    }

    /// Runs commands of the page.
    fn follow(&self, commands: &str) {
        let programs = PostgresServer::programs().unwrap();
        let mut others = programs.into_os_string();
        others.push(":/usr/bin:/bin");
        let path = path_before(&others);
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", commands])
            .current_dir(self.sandbox.path("."))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.sandbox.path("."))
            .env("OLD", self.old.url())
            .env("NEW", self.new.url());
        let followed = done(&mut bash);
        assert_eq!(followed.code, 0, "{commands}: {followed:?}");
    }

    /// The slots that ran, each with its token, in the order of their starts.
    fn ran(&self) -> Vec<(String, i64)> {
        let lines = self.sandbox.read("ran");
        let words = lines.lines().map(|line| line.split_once(' ').unwrap());
        words
            .map(|(slot, token)| (slot.to_owned(), token.parse().unwrap()))
            .collect()
    }

    /// Waits until each job has run once more.
    fn await_runs(&self) {
        let before = self.ran().len();
        eventually("a run of each job", || {
            let ran = &self.ran()[before..];
            JOBS.iter()
                .all(|job| ran.iter().any(|(slot, _)| slot.starts_with(job)))
        });
    }

    /// Lets three hosts start both jobs each second, while something is done.
    fn with_hosts(&self, act: impl FnOnce(&Hosts)) {
        let hosts = Hosts {
            urls: Mutex::new([(); 3].map(|()| self.old.url().to_owned())),
            is_over: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            for host in 0..3 {
                for job in JOBS {
                    let hosts = &hosts;
                    scope.spawn(move || self.host(hosts, host, job));
                }
            }
            let over = Over(&hosts.is_over);
            self.await_runs();
            act(&hosts);
            self.await_runs();
            drop(over);
        });
    }

    fn host(&self, hosts: &Hosts, host: usize, job: &str) {
        let every = [
            "--schedule",
            "* * * * * *",
            "--lock-at-most-for",
            "5s",
            "--name",
            job,
        ];
        let script = "echo $SHEDLOCK_NAME-$SHEDLOCK_SLOT $SHEDLOCK_FENCING_TOKEN >>ran";
        while !hosts.is_over.load(Relaxed) {
            let store = hosts.urls.lock().unwrap()[host].clone();
            let options = [&["run", "-q"], &every[..], &["--store", &store]].concat();
            let mut run = self.sandbox.bare(&options);
            // A server that is away, or a standby, is one of the things that are tested.
            let _ = done(run.args(["--", "sh", "-c", script]));
            pause(Duration::from_millis(300));
        }
    }

    /// The slots that ran more than once.
    fn doubles(&self) -> Vec<String> {
        let mut runs: BTreeMap<String, u32> = BTreeMap::new();
        for (slot, _) in self.ran() {
            *runs.entry(slot).or_default() += 1;
        }
        runs.retain(|_, count| *count > 1);
        runs.into_keys().collect()
    }

    /// No slot ran twice, and no token was lower than the one before it of its job.
    fn check(&self) {
        let ran = self.ran();
        assert_eq!(self.doubles(), Vec::<String>::new(), "{ran:?}");
        for job in JOBS {
            let of_job = ran.iter().filter(|(slot, _)| slot.starts_with(job));
            let mut of_job: Vec<_> = of_job.collect();
            of_job.sort();
            assert!(of_job.is_sorted_by_key(|(_, token)| *token), "{of_job:?}");
        }
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Hosts {
    fn switch(&self, host: usize, store: &PostgresServer) {
        self.urls.lock().unwrap()[host] = store.url().to_owned();
    }

    fn switch_all(&self, store: &PostgresServer) {
        (0..3).for_each(|host| self.switch(host, store));
    }
}

/// The commands below this heading, one text for each block.
fn commands(heading: &str) -> Vec<String> {
    let page = page("moving.md");
    let mut sections = page.split("\n## ").filter(|it| it.starts_with(heading));
    let section = sections.next().unwrap();
    assert!(sections.next().is_none(), "{heading}");
    blocks(section, "sh")
}

#[test]
fn a_move_with_a_dump_runs_no_slot_twice() {
    let Some(this) = Move::start(&[]) else { return };
    let blocks = commands("To another server, with a dump");
    let (resume, before) = blocks.split_last().unwrap();
    assert_eq!(before.len(), 3);
    this.with_hosts(|hosts| {
        before.iter().for_each(|block| this.follow(block));
        let paused = this.ran().len();
        hosts.switch(0, &this.new);
        pause(Duration::from_secs(2));
        assert_eq!(
            this.ran().len(),
            paused,
            "all jobs are paused on both servers"
        );
        this.follow(resume);
        // Two hosts still have the old URL.
        this.await_runs();
        hosts.switch_all(&this.new);
    });
    this.check();
}

/// What the page warns of, and what the other tests would find.
#[test]
fn without_a_pause_slots_run_on_both_servers() {
    let Some(this) = Move::start(&[]) else { return };
    let blocks = commands("To another server, with a dump");
    this.with_hosts(|hosts| {
        this.follow(&blocks[1]);
        hosts.switch(0, &this.new);
        eventually("a slot that runs twice", || !this.doubles().is_empty());
    });
}

#[test]
fn a_move_with_a_subscription_runs_no_slot_twice_and_doctor_knows_it() {
    let Some(this) = Move::start(&["-cwal_level=logical"]) else {
        return;
    };
    assert_eq!(this.shedlock(this.new.url(), &["migrate"]).code, 0);
    // The subscriber gets all rows from the publisher.
    let emptied = "TRUNCATE shedlock, shedlock_journal, shedlock_job, shedlock_run, shedlock_audit";
    this.new.sql(emptied).unwrap();
    this.old
        .sql("CREATE PUBLICATION moving FOR ALL TABLES")
        .unwrap();
    let subscribe = format!(
        "CREATE SUBSCRIPTION moving CONNECTION '{}' PUBLICATION moving",
        this.old.url()
    );
    this.new.sql(&subscribe).unwrap();
    let warns = |url: &str| {
        let doctor = this.shedlock(url, &["doctor"]).stdout;
        let mut lines = doctor
            .lines()
            .filter(|line| line.contains(" subscription "));
        lines.next().unwrap().starts_with("warning")
    };
    assert!(warns(this.new.url()) && !warns(this.old.url()));
    let blocks = commands("To another server, with logical replication");
    assert_eq!(blocks.len(), 1);
    this.with_hosts(|hosts| {
        this.follow(&blocks[0]);
        hosts.switch_all(&this.new);
    });
    this.check();
    assert!(!warns(this.new.url()));
}

#[test]
fn a_switchover_to_a_standby_needs_no_pause() {
    let Some(this) = Move::start(&[]) else { return };
    this.new.stop().unwrap();
    this.new.follow(&this.old).unwrap();
    let blocks = commands("A planned switchover to a standby");
    assert_eq!(blocks.len(), 1);
    this.with_hosts(|hosts| {
        this.old.end().unwrap();
        this.follow(&blocks[0]);
        hosts.switch_all(&this.new);
    });
    this.check();
    for heading in ["A failover", "A backup was restored"] {
        for block in commands(heading) {
            this.follow(&block);
        }
    }
}

//! Two replicas of the example on one store. Each second's mails are sent once, and a signal shuts both
//! down cleanly.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// A replica that is killed when the test ends, however it ends.
struct Replica(Child);

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(store: &str, lines: Sender<String>) -> Replica {
    let mut child = Command::new(env!("CARGO_BIN_EXE_example-scheduler"))
        .env("SHEDLOCK_STORE", store)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    Replica(child)
}

#[test]
fn every_tick_runs_on_one_of_two_replicas() {
    let folder = tempfile::tempdir().expect("a folder for the locks");
    let store = format!("sqlite:{}/locks.db", folder.path().display());
    let (lines, heard) = channel();
    let mut replicas = [start(&store, lines.clone()), start(&store, lines)];

    let mut slots = BTreeSet::new();
    let (mut up, mut clean_ups) = (0, 0);
    let mut hear = |line: &str, slots: &mut BTreeSet<String>| {
        if let Some((slot, _)) = line
            .strip_prefix("mails of ")
            .and_then(|l| l.split_once(": "))
        {
            assert!(slots.insert(slot.to_owned()), "{slot} ran twice");
        } else if line.starts_with("cleaned up") {
            clean_ups += 1;
        }
        up += u32::from(line.starts_with("up: "));
        up
    };
    let mut up = 0;
    while slots.len() < 3 || up < 2 {
        up = hear(&heard.recv().expect("a replica is there"), &mut slots);
    }
    for replica in &replicas {
        let id = Pid::from_child(&replica.0);
        kill_process(id, Signal::TERM).expect("it is our child");
    }
    for replica in &mut replicas {
        assert!(replica.0.wait().expect("it is our child").success());
    }
    let mut farewells = 0;
    for line in heard {
        hear(&line, &mut slots);
        farewells += u32::from(line == "cut short: 0");
    }
    assert_eq!(farewells, 2);
    // Both replicas request the run when they start. A second run belongs to an hour that began meanwhile.
    assert!((1..=2).contains(&clean_ups), "{clean_ups}");
}

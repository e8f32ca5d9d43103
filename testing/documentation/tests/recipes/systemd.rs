//! The units of systemd, checked by systemd, and their command run.

use std::fs;
use std::process::Command;

use shedlock_documentation::succeed;

use super::{Site, recipe};

const UNITS: [&str; 2] = ["shedlock-report.service", "shedlock-report.timer"];

/// The value of the only line with this key.
fn value(unit: &str, key: &str) -> String {
    let unit = recipe(unit);
    let key = format!("{key}=");
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(&*key));
    let value = values.next().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(values.next(), None, "{key} twice");
    value.to_owned()
}

fn analyze(arguments: &[&str]) -> String {
    given::needs("systemd");
    let mut command = Command::new("systemd-analyze");
    let output = command.args(arguments).output().unwrap_or_else(|error| {
        panic!("systemd-analyze: {error}; on Debian: apt-get install systemd")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    format!("{said}{}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn systemd_accepts_the_units_without_a_warning() {
    let site = Site::new();
    for unit in UNITS {
        fs::write(site.path(unit), site.adapted(&recipe(unit))).unwrap();
    }
    let paths = UNITS.map(|unit| site.shown(unit));
    let said = analyze(&["verify", &paths[0], &paths[1]]);
    let about: Vec<&str> = said
        .lines()
        .filter(|it| it.contains("shedlock-report"))
        .collect();
    assert!(about.is_empty(), "{said}");
}

#[test]
fn a_wrong_unit_is_not_accepted() {
    let site = Site::new();
    let wrong = site
        .adapted(&recipe(UNITS[0]))
        .replace("KillMode=mixed", "KillMode=gently");
    fs::write(site.path(UNITS[0]), wrong).unwrap();
    let said = analyze(&["verify", &site.shown(UNITS[0])]);
    assert!(said.contains("shedlock-report.service:"), "{said}");
}

#[test]
fn the_service_runs_its_command_once_for_each_slot() {
    let site = Site::new();
    // systemd and the shell read these quotes in the same way.
    let command = site.adapted(&value(UNITS[0], "ExecStart"));
    let variable = value(UNITS[0], "Environment").replace("%d/store", &site.shown("store"));
    let (variable, path) = variable.split_once('=').unwrap();
    for _ in 0..3 {
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().env(variable, path).env("HOME", "/");
        succeed(shell.args(["-c", &command]));
    }
    assert!((1..=2).contains(&site.reports()), "{}", site.reports());
}

#[test]
fn the_timer_fires_at_the_slots_of_the_schedule() {
    let calendar = value(UNITS[1], "OnCalendar");
    let said = analyze(&["calendar", "--iterations=6", &calendar]);
    let times: Vec<&str> = said
        .lines()
        .filter(|it| it.contains("UTC") && it.contains(":"))
        .collect();
    let minutes: Vec<&str> = times
        .iter()
        .filter_map(|line| {
            line.split_whitespace()
                .find(|word| word.matches(':').count() == 2)
        })
        .collect();
    assert!(minutes.len() >= 6, "{said}");
    assert!(minutes.iter().all(|it| it.ends_with("0:00")), "{said}");
    assert!(value(UNITS[0], "ExecStart").contains("--schedule '*/10 * * * *'"));
}

#[test]
fn stopping_gives_the_command_its_time() {
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u32>().unwrap();
    let command = value(UNITS[0], "ExecStart");
    let grace = command.split("--stop-grace ").nth(1).unwrap();
    let grace = grace.split(' ').next().unwrap();
    assert!(seconds(&value(UNITS[0], "TimeoutStopSec")) > seconds(grace));
}

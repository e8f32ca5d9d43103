//! The crontabs of the recipes, run by the shell that cron starts.

use std::process::Command;

use shedlock_documentation::succeed;

use super::{Site, recipe};

const CRONTABS: [&str; 2] = ["crontab", "crontab-secret"];

/// The times of the recipe, which are repeated as its schedule.
const TIMES: &str = "*/10 * * * *";

#[test]
fn a_line_runs_its_command_once_for_each_slot() {
    for name in CRONTABS {
        let site = Site::new();
        let crontab = site.adapted(&recipe(name));
        let lines: Vec<&str> = crontab.lines().filter(|it| !it.starts_with('#')).collect();
        let [variable, line] = lines[..] else {
            panic!("{name}: {lines:?}")
        };
        let (variable, value) = variable.split_once('=').unwrap();
        let command = line.strip_prefix(TIMES).unwrap().trim_start();
        assert!(
            command.contains(&format!("--schedule '{TIMES}'")),
            "{command}"
        );
        // The slot may change between two starts.
        for _ in 0..3 {
            let mut shell = Command::new("/bin/sh");
            shell
                .env_clear()
                .env(variable, value)
                .env("HOME", site.path(""));
            assert_eq!(succeed(shell.args(["-c", command])), "");
        }
        assert!(
            (1..=2).contains(&site.reports()),
            "{name}: {}",
            site.reports()
        );
    }
}

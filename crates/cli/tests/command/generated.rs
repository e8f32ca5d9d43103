//! Shell completions and manual pages, which the command generates.

use std::fs;
use std::process::{Command, Stdio};

use super::common::{Sandbox, done};

const PAGES: &[&str] = &[
    "shedlock.1",
    "shedlock-completions.1",
    "shedlock-config.1",
    "shedlock-doctor.1",
    "shedlock-extend.1",
    "shedlock-history.1",
    "shedlock-hold.1",
    "shedlock-jobs.1",
    "shedlock-list.1",
    "shedlock-man.1",
    "shedlock-metrics.1",
    "shedlock-migrate.1",
    "shedlock-pause.1",
    "shedlock-prune.1",
    "shedlock-resume.1",
    "shedlock-run.1",
    "shedlock-show.1",
    "shedlock-slot.1",
    "shedlock-slot-reset.1",
    "shedlock-ui.1",
    "shedlock-unlock.1",
];

/// Whether this program can be started.
fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

#[test]
fn bash_completes_commands_and_options() {
    let sandbox = Sandbox::new();
    let script = done(&mut sandbox.bare(&["completions", "bash"]));
    assert_eq!((script.code, script.stderr.as_str()), (0, ""));
    fs::write(sandbox.path("completions"), &script.stdout).unwrap();
    let complete = |words: &str, word: &str, previous: &str| {
        let program = format!(
            "set -eu; source completions; COMP_WORDS=({words} '{word}'); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _shedlock shedlock '{word}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &program])
            .current_dir(sandbox.path(""));
        let done = done(&mut bash);
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{words}");
        done.stdout
    };
    assert_eq!(complete("shedlock", "mig", "shedlock"), "migrate\n");
    assert_eq!(complete("shedlock list", "--rev", "list"), "--reverse\n");
    assert_eq!(complete("shedlock list --sort", "to", "--sort"), "token\n");
    let options = complete("shedlock run", "--lock-at", "run");
    assert!(options.contains("--lock-at-most-for\n"), "{options}");
    assert!(!script.stdout.contains("__watchdog"));
}

#[test]
fn other_shells_get_their_completions_too() {
    let sandbox = Sandbox::new();
    for (shell, part) in [
        ("zsh", "#compdef shedlock"),
        ("fish", "complete -c shedlock"),
        ("elvish", "edit:completion:arg-completer[shedlock]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = done(&mut sandbox.bare(&["completions", shell]));
        assert_eq!(script.code, 0);
        assert!(script.stdout.contains(part), "{shell}");
    }
    for wrong in [&["completions"][..], &["completions", "dos"]] {
        let refused = done(&mut sandbox.bare(wrong));
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains("shedlock: "), "{}", refused.stderr);
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    let first = done(&mut sandbox.bare(&["man"]));
    assert_eq!((first.code, first.stderr.as_str()), (0, ""));
    let made = done(&mut sandbox.bare(&["man", "--dir", "man/man1"]));
    assert_eq!(
        (made.code, made.stdout.as_str(), made.stderr.as_str()),
        (0, "", "")
    );
    let folder = fs::read_dir(sandbox.path("man/man1")).unwrap();
    let mut pages: Vec<_> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort_unstable();
    let mut expected = PAGES.to_vec();
    expected.sort_unstable();
    assert_eq!(pages, expected);
    assert_eq!(sandbox.read("man/man1/shedlock.1"), first.stdout);
    let run = sandbox.read("man/man1/shedlock-run.1");
    for part in [
        ".TH shedlock-run 1",
        ".SH NAME",
        ".SH SYNOPSIS",
        ".SH OPTIONS",
        "lock\\-at\\-most\\-for",
    ] {
        assert!(run.contains(part), "{part}: {run}");
    }
    // The pages are the same on every host, whatever is set there.
    let mut set = sandbox.bare(&["man"]);
    let set = done(
        set.env("SHEDLOCK_LOCK_AT_MOST_FOR", "7m")
            .env("SHEDLOCK_LOG_FORMAT", "json"),
    );
    assert_eq!(set.stdout, first.stdout);
    if !exists("man") {
        return;
    }
    for page in pages {
        let mut man = Command::new("man");
        let path = sandbox.path("man/man1").join(&page);
        man.arg("--warnings").arg("-l").arg(path);
        man.env("MANPAGER", "cat")
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8");
        let shown = done(&mut man);
        assert_eq!((shown.code, shown.stderr.as_str()), (0, ""), "{page}");
        assert!(shown.stdout.contains("NAME"), "{page}: {}", shown.stdout);
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "").unwrap();
    let refused = done(&mut sandbox.bare(&["man", "--dir", "file/man1"]));
    assert_eq!(refused.code, 70);
    let said = "shedlock: cannot write the manual pages to file/man1: ";
    assert!(refused.stderr.starts_with(said), "{}", refused.stderr);
}

#[test]
fn a_wrong_file_with_settings_does_not_matter_to_what_is_generated() {
    let sandbox = Sandbox::new();
    for command in [&["completions", "bash"][..], &["man"]] {
        let mut command = sandbox.bare(command);
        let done = done(command.env("SHEDLOCK_CONFIG", "/no/such"));
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
}

/// The commands, as they are typed.
const COMMANDS: [&[&str]; 18] = [
    &["run"],
    &["hold"],
    &["extend"],
    &["list"],
    &["show"],
    &["jobs"],
    &["history"],
    &["pause"],
    &["resume"],
    &["unlock"],
    &["slot"],
    &["slot", "reset"],
    &["prune"],
    &["doctor"],
    &["migrate"],
    &["config"],
    &["completions"],
    &["man"],
];

#[test]
fn no_exit_code_is_missing_in_the_help_or_on_its_page() {
    let sandbox = Sandbox::new();
    let page = include_str!("../../../../docs/exit-codes.md");
    for command in COMMANDS {
        let help = done(sandbox.bare(command).arg("--help")).stdout;
        let (_, codes) = help
            .split_once("Exit codes:\n")
            .unwrap_or_else(|| panic!("{help}"));
        let codes = codes.split("\n\n").next().unwrap().trim_end();
        let name = command.join(" ");
        assert!(codes.contains("\n  2 "), "{name}: {codes}");
        let block = format!("```text\n{codes}\n```");
        let sections: Vec<_> = page.split("\n## ").collect();
        let section = sections
            .iter()
            .find(|section| section.contains(&format!("`{name}`")));
        let section = section.unwrap_or_else(|| panic!("no section for {name}"));
        assert!(section.contains(&block), "{name}: write\n{block}");
    }
    let all = done(&mut sandbox.bare(&["--help"])).stdout;
    assert!(all.contains("Exit codes:\n"), "{all}");
}

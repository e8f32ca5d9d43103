//! Completions and manual pages as bash and man read them, and the pages about exit codes. `transcripts/generated.md`
//! has the rest.

use std::fs;
use std::process::{Command, Stdio};

use super::common::{Sandbox, done};

/// Whether this program can be started.
fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

/// Bash completes commands and options, and after `--` the command to run.
#[test]
fn bash() {
    let sandbox = Sandbox::new();
    let script = done(&mut sandbox.bare(&["completions", "bash"]));
    assert_eq!((script.code, script.stderr.as_str()), (0, ""));
    fs::write(sandbox.path("completions"), &script.stdout).unwrap();
    let complete = |words: &str, word: &str, previous: &str| {
        let program = format!(
            "set -eu; source completions; COMP_WORDS=({words} '{word}'); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _shedlock_or_command shedlock '{word}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
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
    let command = complete("shedlock run -n a --", "printen", "--");
    assert!(command.lines().any(|it| it == "printenv"), "{command}");
    let argument = complete("shedlock run -n a -- cat", "--lock-at", "cat");
    assert_eq!(argument.trim(), "", "options of shedlock");
    assert!(!script.stdout.contains("__watchdog"));
}

/// Fish completes options, and after `--` the command to run and what that takes.
#[test]
fn fish() {
    let sandbox = Sandbox::new();
    let script = done(&mut sandbox.bare(&["completions", "fish"]));
    fs::write(sandbox.path("completions"), &script.stdout).unwrap();
    let complete = |line: &str| {
        let program = format!("source completions; complete -C '{line}'");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &program])
            .env("HOME", sandbox.path(""))
            .current_dir(sandbox.path(""));
        let done = done(&mut fish);
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{line}");
        let words = done
            .stdout
            .lines()
            .map(|it| it.split('\t').next().unwrap().to_owned());
        words.collect::<Vec<_>>()
    };
    assert!(complete("shedlock run --lock-at").contains(&"--lock-at-most-for".to_owned()));
    assert_eq!(complete("shedlock run -n a -- printen"), ["printenv"]);
    assert_eq!(
        complete("shedlock run -n a -- cat complet"),
        ["completions"]
    );
    assert_eq!(complete("shedlock run -n a -- cat --lock-at"), [""; 0]);
}

/// Zsh completes the command to run after `--`, at a terminal.
#[test]
fn zsh() {
    let sandbox = Sandbox::new();
    let script = done(&mut sandbox.bare(&["completions", "zsh"]));
    fs::write(sandbox.path("_shedlock"), &script.stdout).unwrap();
    let complete = |line: &str, expected: &str| {
        let program = format!(
            "zmodload zsh/zpty; zpty shell zsh -f -i; \
             zpty -w shell \"fpath=($PWD \\$fpath); autoload -U compinit; compinit -u -D; echo RE''ADY\"; \
             zpty -r shell said '*READY*'; zpty -w -n shell '{line}'$'\\t'; zpty -r shell said '*{expected}*'; print -r -- $said"
        );
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", &program])
            .current_dir(sandbox.path(""));
        let done = done(zsh.env("HOME", sandbox.path("")));
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.stdout.contains(expected), "{done:?}");
    };
    complete("shedlock run --lock-at-m", "--lock-at-most-for");
    complete("shedlock run -n a -- printen", "-- printenv");
}

/// Man has nothing to object to any manual page.
#[test]
fn man() {
    let sandbox = Sandbox::new();
    let made = done(&mut sandbox.bare(&["man", "--dir", "man/man1"]));
    assert_eq!(made.code, 0, "{made:?}");
    let folder = fs::read_dir(sandbox.path("man/man1")).unwrap();
    let pages = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<_> = pages.collect();
    assert_eq!(pages.len(), 21, "{pages:?}");
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

/// No exit code is missing in the help or on its page.
#[test]
fn exit_codes() {
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

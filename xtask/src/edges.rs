//! Where errors become text. An error is printed once, at the edge: a page, a terminal, a log line. Between the crates it
//! stays an [`Error`](shedlock::Error) with its parts, so that whoever prints it can name operations in the words of its
//! reader, and leave out what the text around it says already.

use crate::messages::sources;

/// What turns an error into text.
const USES: [&str; 8] = [
    ":#}",
    "%error",
    "{error}",
    "error.to_string()",
    ".cause(",
    ".failure()",
    "error.reason()",
    ".steps()",
];

/// The files that print an error of ours, with the reason.
const EDGES: [(&str, &str); 34] = [
    (
        "crates/cli/src/audit.rs",
        "the warning of an action that was done and not recorded",
    ),
    (
        "crates/cli/src/exit.rs",
        "what the command prints before it exits",
    ),
    (
        "crates/cli/src/list.rs",
        "the command prints it between two frames",
    ),
    (
        "crates/cli/src/metrics.rs",
        "the command prints it beside the metrics",
    ),
    (
        "crates/cli/src/run/acquire.rs",
        "the command prints it while it waits",
    ),
    (
        "crates/cli/src/run/events.rs",
        "the command's words for events; two are kept as text until the run has ended",
    ),
    ("crates/cli/src/run/follow.rs", "a log line"),
    (
        "crates/cli/src/run/hold.rs",
        "the command prints it when it stops",
    ),
    (
        "crates/cli/src/run/pings.rs",
        "the command prints it and runs on",
    ),
    (
        "crates/cli/src/run/release.rs",
        "the command prints it after the run",
    ),
    ("crates/cli/src/store/rotating.rs", "a log line"),
    (
        "crates/cli/src/watchdog/orphaned.rs",
        "the watchdog prints it; its own failures have no other form than text",
    ),
    (
        "crates/core/src/contract/error/text.rs",
        "tells a repeated failure from a new one by a hash of its text",
    ),
    (
        "crates/core/src/contract/finding.rs",
        "a finding is for people: its message and its remedy are texts",
    ),
    ("crates/journal/src/merge.rs", "a log line"),
    ("crates/journal/src/writer/background.rs", "log lines"),
    ("crates/core/src/runtime/narrator.rs", "the log of events"),
    ("crates/core/src/contract/record.rs", "a log line"),
    (
        "crates/core/src/contract/task_end.rs",
        "a task's own error, whatever its type, as the journal keeps it",
    ),
    ("crates/core/src/testing/mod.rs", "a panic in a test"),
    (
        "crates/scheduler/src/driver/failing.rs",
        "which log lines were written",
    ),
    ("crates/scheduler/src/driver/missed.rs", "log lines"),
    ("crates/scheduler/src/driver/shared.rs", "log lines"),
    (
        "crates/scheduler/src/tick.rs",
        "`Display` of how a tick ended, for logs",
    ),
    (
        "crates/shedlock/src/http.rs",
        "the body of a health check, and a log line",
    ),
    (
        "crates/shedlock/src/private.rs",
        "a log line of the attribute",
    ),
    (
        "crates/ui/src/act.rs",
        "the page of a refused action, and a log line",
    ),
    ("crates/ui/src/failure.rs", "the page of an error"),
    (
        "crates/ui/src/pages/now.rs",
        "the page of a store that cannot be read",
    ),
    (
        "stores/common/src/list.rs",
        "a finding lists the records that were left out, each with its reason",
    ),
    ("stores/etcd/src/lease.rs", "a log line"),
    ("stores/nats/src/store.rs", "a log line"),
    ("stores/sql/src/others.rs", "a log line"),
    (
        "stores/sql/src/schema.rs",
        "a note in the printed schema, in place of the statements of a journal",
    ),
];

/// The files that print an error of another crate, and which one.
const OF_OTHERS: [(&str, &str); 24] = [
    (
        "crates/cli/src/generate.rs",
        "a file that cannot be written",
    ),
    ("crates/cli/src/journal.rs", "a file that cannot be written"),
    (
        "crates/cli/src/run/job.rs",
        "a process that cannot be started",
    ),
    ("crates/cli/src/run/runner.rs", "signals"),
    (
        "crates/cli/src/settings/file.rs",
        "a file that cannot be read",
    ),
    ("crates/cli/src/signals.rs", "a system call"),
    ("crates/cli/src/spool.rs", "files and their JSON"),
    ("crates/cli/src/store/file.rs", "a file that cannot be read"),
    (
        "crates/cli/src/store/local.rs",
        "a directory that cannot be made",
    ),
    ("crates/cli/src/terminal/mod.rs", "stdout"),
    ("crates/cli/src/ui/auth.rs", "a hash, stdin and a file"),
    ("crates/cli/src/ui/mod.rs", "a socket and signals"),
    ("crates/cli/src/watchdog/mod.rs", "a system call"),
    ("crates/cli/src/watchdog/server.rs", "a pipe"),
    (
        "crates/core/src/runtime/blocking.rs",
        "a thread that cannot be started",
    ),
    (
        "crates/core/src/runtime/duties/thread.rs",
        "a thread that cannot be started",
    ),
    ("crates/ui/src/api.rs", "JSON"),
    (
        "crates/ui/src/standing.rs",
        "the text of a task's error in the journal",
    ),
    ("stores/diesel-async/src/failure.rs", "diesel's clients"),
    ("stores/etcd/src/explain.rs", "etcd's client"),
    ("stores/mongodb/src/explain.rs", "MongoDB's driver"),
    ("stores/redis/src/connections.rs", "Redis' client"),
    ("stores/redis/src/explain.rs", "Redis' client"),
    ("stores/sql/src/url.rs", "the parser of URLs"),
];

/// The lines of the product's code in a text that turn an error into text.
fn uses(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let lines = lines.filter(|(_, line)| USES.iter().any(|of| line.contains(of)));
    lines
        .map(|(at, line)| format!("{}: {}", at + 1, line.trim()))
        .collect()
}

#[test]
fn errors_become_text_only_at_the_edge() {
    let listed = || EDGES.iter().chain(&OF_OTHERS).map(|(file, _)| *file);
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for source in sources().unwrap() {
        let uses = uses(&source.text);
        let is_listed = listed().filter(|file| *file == source.file).count();
        match (uses.is_empty(), is_listed) {
            (true, 0) => continue,
            (false, 1) => {}
            (false, 0) => wrong.extend(uses.iter().map(|line| format!("{}:{line}", source.file))),
            (true, _) => wrong.push(format!("{} prints no error", source.file)),
            (false, _) => wrong.push(format!("{} is listed twice", source.file)),
        }
        found.push(source.file);
    }
    let gone = listed().filter(|file| !found.iter().any(|found| found == file));
    wrong.extend(gone.map(|file| format!("there is no {file}")));
    assert!(
        wrong.is_empty(),
        "pass the error on, as a source or as it is; or list the file here, with the reason:\n{}",
        wrong.join("\n")
    );
}

/// A library's user may not have the command, so its line is named where only the command can do something.
#[test]
fn libraries_do_not_name_the_command() {
    let named = sources().unwrap().into_iter().filter(|source| {
        let is_command = ["crates/cli/", "crates/ui/"]
            .iter()
            .any(|folder| source.file.starts_with(folder));
        let code = source.text.split("#[cfg(test)]\nmod ").next();
        let mut lines = code.unwrap_or_default().lines();
        !is_command
            && lines.any(|line| !line.trim_start().starts_with("//") && line.contains("`shedlock "))
    });
    let named: Vec<_> = named.map(|source| source.file).collect();
    assert_eq!(
        named,
        ["crates/core/src/contract/advice.rs"],
        "use an `Operation`"
    );
}

//! A run that is killed, whose journal is in a store of its own. `transcripts/journal_store.md` has the rest.

use std::process::Command;

use serde_json::Value;

use super::common::{Sandbox, done, end, eventually};

const VARIABLE: &str = "SHEDLOCK_JOURNAL_STORE";

fn json(command: &mut Command) -> Value {
    let shown = done(command.args(["-o", "json"]));
    serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
}

/// The end of a run that was killed is recorded.
#[test]
fn killed() {
    let sandbox = Sandbox::migrated();
    let url = format!("sqlite:{}", sandbox.path("journal.db").display());
    let mut migrate = sandbox.shedlock(&["migrate", "--journal-store", &url]);
    assert_eq!(done(&mut migrate).code, 0);
    let mut run = sandbox.run("a", "10m", "echo x > up; exec sleep 60");
    let mut child = run.env(VARIABLE, &url).spawn().unwrap();
    sandbox.await_lines("up", 1);
    let history = || json(sandbox.shedlock(&["history", "a"]).env(VARIABLE, &url));
    eventually("a running run", || {
        history()["runs"][0]["outcome"] == "running"
    });
    child.kill().unwrap();
    end(child);
    let run = &history()["runs"][0];
    assert_eq!(
        run["error"], "`shedlock run` was killed, and its command was stopped",
        "{run}"
    );
}

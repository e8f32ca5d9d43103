//! What `run` prints when something goes wrong: one line for each event, with its cause, and advice that works.

use super::common::{Sandbox, done};

#[test]
fn the_help_does_not_promise_the_commands_own_code_or_one_run_where_these_can_fail() {
    let sandbox = Sandbox::new();
    let help = done(&mut sandbox.bare(&["run", "--help"])).stdout;
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    for part in [
        "(the start whose last attempt fails exits with the command's own code, or with 75 if the \
         command was stopped)",
        "A command that succeeded may run again if that could not be recorded (its host died, or \
         the store failed): it must be idempotent.",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

//! A command on a terminal, which `script` makes.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use super::common::{Sandbox, eventually};

/// `shedlock run` of this script on a terminal of its own, below a shell with job control.
fn on_terminal(sandbox: &Sandbox, script: &str) -> Child {
    std::fs::write(sandbox.path("job.sh"), script).unwrap();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let line = format!(
        "bash --norc --noprofile -i -c 'set -m; \
         {exe} run -n a --lock-at-most-for 60s -- sh {}; echo code $? > code'",
        sandbox.path("job.sh").display()
    );
    Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK_STORE", sandbox.store())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn type_in(terminal: &mut Child, keys: &str) {
    let stdin = terminal.stdin.as_mut().unwrap();
    stdin.write_all(keys.as_bytes()).unwrap();
    stdin.flush().unwrap();
}

fn close(mut terminal: Child) -> String {
    drop(terminal.stdin.take());
    let mut shown = String::new();
    terminal
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut shown)
        .unwrap();
    terminal.wait().unwrap();
    shown
}

#[test]
fn the_command_can_read_the_terminal() {
    let sandbox = Sandbox::new();
    let mut terminal = on_terminal(
        &sandbox,
        "echo x > up; read first; read second; echo \"$first-$second\" > read",
    );
    sandbox.await_lines("up", 1);
    type_in(&mut terminal, "one\ntwo\n");
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("read"), "one-two\n");
    assert_eq!(sandbox.read("code"), "code 0\n");
    close(terminal);
}

#[test]
fn ctrl_c_reaches_the_command_and_the_shell_has_its_terminal_back() {
    let sandbox = Sandbox::new();
    let mut terminal = on_terminal(&sandbox, "echo x > up; exec sleep 60");
    sandbox.await_lines("up", 1);
    // The terminal is handed over in the instant after the start.
    eventually("the command in the foreground", || {
        type_in(&mut terminal, "\x03");
        !sandbox.read("code").is_empty()
    });
    assert_eq!(sandbox.read("code"), "code 130\n");
    close(terminal);
}

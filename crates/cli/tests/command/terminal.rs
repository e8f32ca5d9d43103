//! A command on a terminal, which `script` creates.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::common::{Sandbox, done, eventually, parent_of, pause};

/// An interactive shell on its own terminal.
fn shell(sandbox: &Sandbox) -> Child {
    Command::new("script")
        .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK_STORE", sandbox.store())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A shell into which `shedlock run` of this script was typed.
fn on_terminal(sandbox: &Sandbox, script: &str) -> Child {
    std::fs::write(sandbox.path("job.sh"), script).unwrap();
    let mut terminal = shell(sandbox);
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let line = format!("{exe} run -n a --lock-at-most-for 60s -- sh job.sh; echo code $? > code\n");
    type_in(&mut terminal, &line);
    sandbox.await_lines("up", 1);
    // The terminal is handed over just after the start. A command that reads before is stopped until then, and a key that
    // stops it would be lost.
    let job = sandbox.pids("up")[0];
    eventually("the command in the foreground", || {
        is_in_foreground(job) && !is_stopped(job)
    });
    terminal
}

/// Whether the terminal's foreground group is that of this process.
fn is_in_foreground(pid: u32) -> bool {
    let fields = stat(pid);
    fields.len() > 5 && fields[2] == fields[5]
}

fn is_stopped(pid: u32) -> bool {
    stat(pid).first().is_some_and(|state| state == "T")
}

/// The fields after the name in `/proc/PID/stat`: state, parent, group, session, terminal and its
/// foreground group.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').map(str::to_owned).collect()
}

fn type_in(terminal: &mut Child, keys: &str) {
    let stdin = terminal.stdin.as_mut().unwrap();
    stdin.write_all(keys.as_bytes()).unwrap();
    stdin.flush().unwrap();
}

fn close(mut terminal: Child) -> String {
    type_in(&mut terminal, "exit\n");
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

/// Any client of a store can write names.
#[test]
fn names_in_metrics_do_not_control_the_terminal() {
    let sandbox = Sandbox::migrated();
    assert_eq!(done(&mut sandbox.shedlock(&["migrate"])).code, 0);
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    super::common::query(
        &sandbox,
        "UPDATE shedlock_job SET job = 'a' || char(27) || '[31m' RETURNING job",
    );
    let mut terminal = shell(&sandbox);
    type_in(
        &mut terminal,
        concat!(env!("CARGO_BIN_EXE_shedlock"), " metrics\n"),
    );
    let shown = close(terminal);
    assert!(shown.contains("job_name=\"a\\u{1b}[31m\""), "{shown}");
    // Programs get it as it is.
    let printed = done(&mut sandbox.shedlock(&["metrics"])).stdout;
    assert!(printed.contains("job_name=\"a\u{1b}[31m\""), "{printed}");
}

#[test]
fn the_command_can_read_the_terminal() {
    let sandbox = Sandbox::new();
    let mut terminal = on_terminal(
        &sandbox,
        "echo $$ > up; read first; read second; echo \"$first-$second\" > read",
    );
    type_in(&mut terminal, "one\ntwo\n");
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("read"), "one-two\n");
    assert_eq!(sandbox.read("code"), "code 0\n");
    close(terminal);
}

#[test]
fn a_command_may_read_the_terminal_in_its_first_instant() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("job.sh"), "read line; echo \"$line\" >> lines").unwrap();
    let mut terminal = shell(&sandbox);
    let exe = env!("CARGO_BIN_EXE_shedlock");
    for round in 1..=10 {
        let line = format!("{exe} run -n a --lock-at-most-for 60s -- sh job.sh\n{round}\n");
        type_in(&mut terminal, &line);
        sandbox.await_lines("lines", round);
    }
    close(terminal);
}

#[test]
fn ctrl_c_reaches_the_command() {
    let sandbox = Sandbox::new();
    let mut terminal = on_terminal(&sandbox, "echo $$ > up; exec sleep 60");
    type_in(&mut terminal, "\x03");
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("code"), "code 130\n");
    close(terminal);
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_a_command_that_ignores_the_first() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo x >> caught' INT; trap '' TERM; echo $$ > up; \
                  while :; do sleep 0.05; done";
    let mut terminal = on_terminal(&sandbox, script);
    let job = sandbox.pids("up")[0];
    eventually("the process that reports keys", || is_reported(job));
    type_in(&mut terminal, "\x03");
    sandbox.await_lines("caught", 1);
    // What comes within 200 ms is one request, and each key takes its time to be reported.
    pause(Duration::from_secs(2));
    type_in(&mut terminal, "\x03");
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("code"), "code 137\n");
    assert_eq!(sandbox.lock("a")["state"], "free");
    let shown = close(terminal);
    let said =
        "the command was killed: it had not ended after the SIGINT when a second signal, SIGINT";
    assert!(shown.contains(said), "{shown}");
}

#[test]
fn ctrl_c_at_a_prompt_does_not_kill_the_program() {
    let sandbox = Sandbox::new();
    // Like an editor of lines: it reads keys, not lines.
    let script = "stty -icanon; trap 'echo x >> caught' INT; echo $$ > up; \
                  until [ -e go ]; do sleep 0.05; done; exit 5";
    let mut terminal = on_terminal(&sandbox, script);
    let job = sandbox.pids("up")[0];
    eventually("the process that reports keys", || is_reported(job));
    for round in 1..=3 {
        type_in(&mut terminal, "\x03");
        sandbox.await_lines("caught", round);
        pause(Duration::from_millis(300));
    }
    std::fs::write(sandbox.path("go"), "").unwrap();
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("code"), "code 5\n");
    close(terminal);
}

/// Whether the process that reports keys is in the group of this one.
fn is_reported(job: u32) -> bool {
    let group = stat(job)[2].clone();
    let mut processes = std::fs::read_dir("/proc").unwrap();
    processes.any(|process| {
        let process = process.unwrap().path();
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        let pid = process.file_name().unwrap().to_str().unwrap().parse();
        name == "lease-keys\n" && pid.is_ok_and(|pid| stat(pid).get(2) == Some(&group))
    })
}

#[test]
fn ctrl_z_returns_to_the_shell_and_fg_continues() {
    let sandbox = Sandbox::new();
    let mut terminal = on_terminal(&sandbox, "echo $$ > up; read line; echo \"$line\" > read");
    let job = sandbox.pids("up")[0];
    let run = parent_of(parent_of(job));
    for round in 0..3 {
        type_in(&mut terminal, "\x1a");
        eventually("both stopped", || is_stopped(job) && is_stopped(run));
        type_in(&mut terminal, &format!("echo here > turn{round}\n"));
        sandbox.await_lines(&format!("turn{round}"), 1);
        type_in(&mut terminal, "fg\n");
        eventually("both going on", || {
            !is_stopped(job) && !is_stopped(run) && is_in_foreground(job)
        });
    }
    type_in(&mut terminal, "done\n");
    sandbox.await_lines("read", 1);
    assert_eq!(sandbox.read("read"), "done\n");
    close(terminal);
}

#[test]
fn a_command_in_the_background_leaves_the_terminal_alone() {
    let sandbox = Sandbox::new();
    let mut terminal = shell(&sandbox);
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let line =
        format!("{exe} run -n a --lock-at-most-for 60s -- sh -c 'echo $$ > up; sleep 0.3' &\n");
    type_in(&mut terminal, &line);
    sandbox.await_lines("up", 1);
    assert!(!is_in_foreground(sandbox.pids("up")[0]));
    type_in(&mut terminal, "wait; echo code $? > code\n");
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("code"), "code 0\n");
    close(terminal);
}

#[test]
fn ctrl_z_works_without_the_terminal_as_input_too() {
    let sandbox = Sandbox::new();
    let mut terminal = shell(&sandbox);
    let exe = env!("CARGO_BIN_EXE_shedlock");
    // Without a child: a shell cannot stop while it waits for one that was stopped before its `exec`.
    let script = "mkfifo go; echo $$ > up; read line < go";
    let line = format!(
        "{exe} run -n a --lock-at-most-for 60s -- sh -c '{script}' < /dev/null; echo code $? > code\n"
    );
    type_in(&mut terminal, &line);
    sandbox.await_lines("up", 1);
    let job = sandbox.pids("up")[0];
    let run = parent_of(parent_of(job));
    type_in(&mut terminal, "\x1a");
    eventually("both stopped", || is_stopped(job) && is_stopped(run));
    type_in(&mut terminal, "rm -f code; fg; echo code $? > code\n");
    eventually("both going on", || !is_stopped(job) && !is_stopped(run));
    std::fs::write(sandbox.path("go"), "x\n").unwrap();
    sandbox.await_lines("code", 1);
    assert_eq!(sandbox.read("code"), "code 0\n");
    close(terminal);
}

#[test]
fn a_script_around_the_command_gets_its_terminal_back() {
    let sandbox = Sandbox::new();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    // No shell with job control in between that would take the terminal back by itself.
    let script = format!(
        "{exe} run -n a --lock-at-most-for 60s -- sh -c 'read first; echo $first > first'\n\
         echo x > between; read second; echo $second > second\n"
    );
    std::fs::write(sandbox.path("script.sh"), script).unwrap();
    let mut terminal = shell(&sandbox);
    type_in(&mut terminal, "sh script.sh\none\n");
    sandbox.await_lines("between", 1);
    type_in(&mut terminal, "two\n");
    sandbox.await_lines("second", 1);
    assert_eq!(
        sandbox.read("first") + &sandbox.read("second"),
        "one\ntwo\n"
    );
    close(terminal);
}

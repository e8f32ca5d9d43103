//! `list`: its columns, order and filters, and the list that is printed again and again.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::common::{Done, Sandbox, done, eventually, signal, sql};
use rustix::process::Signal;

/// Four locks: their name, when they are free, when they were acquired, and their token.
fn filled() -> Sandbox {
    let sandbox = Sandbox::migrated();
    sql(
        &sandbox,
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by, shedlock_fencing_token) VALUES
            ('expire-b', 4102444800000, 1700000000000, 'b/1/ff', 3),
            ('expire-a', 4102444900000, 1700000001000, 'a/1/ff', 1),
            ('payroll', 1000, 1600000000000, 'c/1/ff', 2),
            ('never', 0, 0, 'java', NULL)",
    );
    sandbox
}

fn list(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    done(sandbox.shedlock(&["list"]).args(arguments))
}

fn names(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let table = list(sandbox, arguments);
    assert_eq!(table.code, 0, "{}", table.stderr);
    let words = table.stdout.lines().skip(1);
    let words: Vec<_> = words.map(|line| line.split(' ').next().unwrap()).collect();
    let json = list(sandbox, &[arguments, &["-o", "json"]].concat());
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let locks = json["locks"].as_array().unwrap().iter();
    let same: Vec<_> = locks.map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(words, same, "{arguments:?}");
    words.join(" ")
}

#[test]
fn a_list_is_sorted_and_filtered() {
    let sandbox = filled();
    for (arguments, expected) in [
        (&[][..], "expire-a expire-b never payroll"),
        (&["--reverse"], "payroll never expire-b expire-a"),
        (&["--sort", "token"], "expire-a payroll expire-b never"),
        (
            &["--sort=token", "--reverse"],
            "expire-b payroll expire-a never",
        ),
        (&["--sort", "left"], "expire-b expire-a never payroll"),
        (&["--sort", "age"], "expire-a expire-b payroll never"),
        (&["--sort", "state"], "expire-a expire-b never payroll"),
        (&["--filter", "expire-*"], "expire-a expire-b"),
        (&["--filter", "pay*", "--filter", "*-b"], "expire-b payroll"),
        (&["--filter", "Expire-*"], ""),
        (&["--state", "free"], "never payroll"),
        (
            &["--state", "free", "--state", "held", "--filter", "*a*"],
            "expire-a payroll",
        ),
        (&["--held"], "expire-a expire-b"),
        (&["--state", "at-least"], ""),
    ] {
        assert_eq!(names(&sandbox, arguments), expected, "{arguments:?}");
    }
    for wrong in [
        &["--held", "--state", "free"][..],
        &["--sort", "owner"],
        &["--filter", "[a"],
        &["--watch", "0s"],
        &["--watch", "-1s"],
        &["--width", "3"],
    ] {
        assert_eq!(list(&sandbox, wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn age_and_time_left_are_shown() {
    let sandbox = Sandbox::new();
    assert_eq!(
        done(&mut sandbox.run_with("a", "10m", &["--lock-at-least-for", "5m"], "true")).code,
        0
    );
    let table = list(&sandbox, &[]).stdout;
    let header: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME", "STATE", "OWNER", "AGE", "LEFT", "TOKEN", "LAST", "SLOT"
        ]
    );
    let cells: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..2], ["a", "at-least"]);
    assert!(cells[3].ends_with('s'), "{table}");
    assert!(cells[4].starts_with("4m") || cells[4] == "5m", "{table}");
}

#[test]
fn an_empty_list_says_what_it_lacks() {
    let sandbox = Sandbox::migrated();
    assert_eq!(list(&sandbox, &["--filter", "x"]).stdout, "no locks\n");
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    for (arguments, said) in [
        (&["--held"][..], "no lock is held\n"),
        (&["--filter", "b*"], "no lock matches\n"),
        (&["--held", "--filter", "b*"], "no lock matches\n"),
        (&["--state", "held"], "no lock matches\n"),
    ] {
        assert_eq!(list(&sandbox, arguments).stdout, said, "{arguments:?}");
    }
}

#[test]
fn a_list_fits_its_terminal_and_a_pipe_gets_everything() {
    let sandbox = filled();
    let long = format!("job-{}", "x".repeat(120));
    assert_eq!(done(&mut sandbox.run(&long, "1m", "true")).code, 0);
    assert!(list(&sandbox, &[]).stdout.contains(&long));
    let exe = env!("CARGO_BIN_EXE_shedlock");
    for width in [80, 140] {
        let line = format!("stty cols {width} rows 24; {exe} list");
        let text = width.to_string();
        let both = || {
            let mut terminal = Command::new("script");
            terminal
                .args(["-qec", &line, "/dev/null"])
                .env("SHEDLOCK_STORE", sandbox.store())
                .stdin(Stdio::null());
            let shown = done(&mut terminal).stdout.replace('\r', "");
            (shown, list(&sandbox, &["--width", &text]).stdout)
        };
        // A second may pass in between, and then the ages differ.
        let (mut shown, mut forced) = both();
        for _ in 0..20 {
            if shown == forced {
                break;
            }
            (shown, forced) = both();
        }
        assert_eq!(shown, forced, "{width}");
        let longest = forced.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{forced}");
        assert!(forced.contains("job-xxx"), "{forced}");
        assert!(forced.contains('…'), "{forced}");
    }
}

#[test]
fn one_long_name_does_not_widen_every_line() {
    let sandbox = filled();
    sql(
        &sandbox,
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            VALUES (printf('%.100000c', 'x'), 0, 0, 'java')",
    );
    let table = list(&sandbox, &[]).stdout;
    let longest = table.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(400), "{longest:?}");
}

#[test]
fn a_watched_list_survives_a_store_that_fails_and_ends_with_its_reader() {
    let sandbox = filled();
    let mut watch = sandbox
        .shedlock(&["list", "--watch", "10ms", "--held"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut await_line = |start: &str| {
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(start)));
        assert!(found.is_some(), "{start}");
    };
    await_line("20");
    await_line("expire-a  held");
    sql(&sandbox, "ALTER TABLE shedlock RENAME TO away");
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = errors.next().unwrap().unwrap();
    assert!(said.starts_with("shedlock: sqlite: "), "{said}");
    assert!(said.ends_with("; trying again every 10ms"), "{said}");
    sql(&sandbox, "ALTER TABLE away RENAME TO shedlock");
    sql(
        &sandbox,
        "UPDATE shedlock SET lock_until = 4102444800000 WHERE name = 'payroll'",
    );
    await_line("payroll   held");
    drop(lines);
    drop(errors);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watched_list_does_not_advise_what_it_does_itself() {
    let store = "postgres://u@127.0.0.1:1/d";
    let mut watch = Sandbox::new()
        .bare(&["list", "--watch", "10s", "--store", store])
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = errors.next().unwrap().unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(
        said.ends_with("the host and the port in the URL are right; trying again every 10s"),
        "{said}"
    );
}

#[test]
fn a_watched_list_is_redrawn_on_a_terminal_until_ctrl_c() {
    let sandbox = filled();
    let exe = env!("CARGO_BIN_EXE_shedlock");
    let line =
        format!("stty cols 80 rows 5; echo $$ > pid; exec {exe} list --watch 20ms > /dev/tty");
    let mut terminal = Command::new("script")
        .args(["-qefc", &line, "shown"])
        .current_dir(sandbox.path(""))
        .env("SHEDLOCK_STORE", sandbox.store())
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("three pictures", || {
        sandbox.read("shown").matches("\x1b[H").count() >= 3
    });
    let shown = sandbox.read("shown");
    let picture = shown.split("\x1b[H").nth(1).unwrap();
    assert_eq!(
        picture
            .lines()
            .filter(|line| line.contains("\x1b[K"))
            .count(),
        4,
        "{picture:?}"
    );
    assert!(picture.contains("every 20ms"), "{picture:?}");
    assert!(picture.contains("… 3 more"), "{picture:?}");
    signal(u32::try_from(sandbox.pids("pid")[0]).unwrap(), Signal::INT);
    assert!(terminal.wait().is_ok());
}

#[test]
fn a_watched_list_in_json_is_one_object_after_another() {
    let sandbox = filled();
    let mut watch = sandbox
        .shedlock(&["list", "--watch", "10ms", "-o", "json"])
        .spawn()
        .unwrap();
    let stdout = watch.stdout.take().unwrap();
    let frames = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
    for frame in frames.take(3) {
        assert_eq!(frame.unwrap()["locks"].as_array().unwrap().len(), 4);
    }
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watched_list_of_a_mistyped_store_ends_at_once() {
    let sandbox = Sandbox::new();
    let refused = list(&sandbox, &["--watch"]);
    assert_eq!(refused.code, 69, "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}

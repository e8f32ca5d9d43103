//! The configuration file, and where each value comes from.

use std::fs;

use serde_json::Value;

use super::common::{Done, Sandbox, done};

/// Writes the user's file. Returns its path.
fn write(sandbox: &Sandbox, text: &str) -> String {
    let folder = sandbox.path(".config/shedlock");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("config.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn config(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = sandbox.bare(&["config"]);
    done(command.args(arguments).envs(variables.iter().copied()))
}

/// The row of this setting: its value, and where it comes from.
fn row(table: &Done, name: &str) -> (String, String) {
    assert_eq!(table.code, 0, "{}", table.stderr);
    let row = table
        .stdout
        .lines()
        .find(|line| line.split(' ').next() == Some(name));
    let row = row.unwrap_or_else(|| panic!("{name}: {}", table.stdout));
    let mut cells = row[name.len()..].trim().splitn(2, "  ");
    let value = cells.next().unwrap().to_owned();
    (value, cells.next().unwrap().trim().to_owned())
}

const RUN: [&str; 6] = ["run", "-n", "a", "--", "sh", "-c"];

#[test]
fn a_file_sets_what_is_not_set_elsewhere() {
    let sandbox = Sandbox::new();
    let path = write(
        &sandbox,
        &format!(
            "store = \"{}\"\nlog-format = \"json\"\n\n[run]\nlock-at-most-for = \"10m\"\n\
             lock-at-least-for = \"1h\"\nskip-exit-code = 9\n",
            sandbox.store()
        ),
    );
    let wrong = done(sandbox.bare(&RUN).arg("true"));
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.starts_with("{\"time\""), "{}", wrong.stderr);
    let variable = ("SHEDLOCK_LOCK_AT_LEAST_FOR", "9m");
    let ran = done(sandbox.bare(&RUN).arg("true").env(variable.0, variable.1));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let skipped = done(sandbox.bare(&RUN).arg("true").env(variable.0, variable.1));
    assert_eq!(skipped.code, 9, "{}", skipped.stderr);
    assert_eq!(sandbox.lock("a")["state"], "at-least");

    let table = config(&sandbox, &[], &[variable]);
    for (name, value, from) in [
        ("config", &*path, "the user's file"),
        ("store", &sandbox.store(), &format!("{path}:1")),
        ("log-format", "json", &format!("{path}:2")),
        ("run.lock-at-most-for", "10m", &format!("{path}:5")),
        ("lock-at-least-for", "9m", "SHEDLOCK_LOCK_AT_LEAST_FOR"),
        ("run.skip-exit-code", "9", &format!("{path}:7")),
        ("keep-alive", "false", "default"),
        ("sort", "name", "default"),
        ("stop-grace", "10s", "default"),
    ] {
        assert_eq!(row(&table, name), (value.to_owned(), from.to_owned()));
    }
    let typed = config(
        &sandbox,
        &["--log-format", "text", "--local"],
        &[("SHEDLOCK_STORE", "mysql://h/d")],
    );
    assert_eq!(
        row(&typed, "log-format"),
        ("text".to_owned(), "--log-format".to_owned())
    );
    assert_eq!(row(&typed, "store").1, "--local");
    let typed = config(
        &sandbox,
        &[],
        &[
            ("SHEDLOCK_STORE", "mysql://h/d"),
            ("SHEDLOCK_LOG_FORMAT", "text"),
        ],
    );
    assert_eq!(
        row(&typed, "store"),
        ("mysql://h/d".to_owned(), "SHEDLOCK_STORE".to_owned())
    );
    assert_eq!(
        row(&typed, "log-format"),
        ("text".to_owned(), "SHEDLOCK_LOG_FORMAT".to_owned())
    );
}

#[test]
fn without_a_file_the_defaults_are_shown() {
    let sandbox = Sandbox::new();
    let table = config(&sandbox, &[], &[]);
    assert_eq!(table.stderr, "");
    let file = sandbox.path(".local/state/shedlock/locks.db");
    let local = format!("sqlite:{}", file.display());
    assert_eq!(row(&table, "store"), (local, "default".to_owned()));
    assert_eq!(row(&table, "config").0, "-");
    assert_eq!(
        row(&table, "output"),
        ("table".to_owned(), "default".to_owned())
    );
    assert_eq!(
        row(&table, "listen"),
        ("127.0.0.1:8460".to_owned(), "default".to_owned())
    );
    assert!(!sandbox.path(".local").exists());
}

#[test]
fn a_section_wins_over_the_top_and_a_flag_over_both() {
    let sandbox = Sandbox::migrated();
    let path = write(&sandbox, "output = \"json\"\n[list]\noutput = \"table\"\n");
    assert_eq!(done(&mut sandbox.shedlock(&["list"])).stdout, "no locks\n");
    let migrate = done(&mut sandbox.shedlock(&["migrate"]));
    assert!(migrate.stdout.starts_with('{'), "{}", migrate.stdout);
    let migrate = done(&mut sandbox.shedlock(&["migrate", "-o", "table"]));
    assert_eq!(migrate.stdout, "sqlite: nothing to do\n");
    let table = config(&sandbox, &["-o", "table"], &[]);
    assert_eq!(
        row(&table, "list.output"),
        ("table".to_owned(), format!("{path}:3"))
    );
    assert_eq!(
        row(&table, "slot.output"),
        ("json".to_owned(), format!("{path}:1"))
    );
    write(&sandbox, "quiet = true\n");
    let quiet = done(&mut sandbox.run("a", "1m", "true"));
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    let loud = done(sandbox.shedlock(&["-v"]).args([
        "run",
        "-n",
        "b",
        "--lock-at-most-for=1m",
        "--",
        "true",
    ]));
    assert!(loud.stderr.contains("lock acquired"), "{}", loud.stderr);
}

#[test]
fn the_store_is_chosen_by_the_flag_then_the_variable_then_the_file() {
    let sandbox = Sandbox::new();
    let other = Sandbox::migrated();
    assert_eq!(done(&mut other.run("other", "1m", "true")).code, 0);
    assert_eq!(done(&mut sandbox.run("here", "1m", "true")).code, 0);
    fs::write(sandbox.path("url"), sandbox.store()).unwrap();
    let url = sandbox.path("url").display().to_string();
    for text in [
        format!("store = \"{}\"", sandbox.store()),
        format!("store-file = \"{url}\""),
    ] {
        write(&sandbox, &text);
        let list = done(&mut sandbox.bare(&["list"]));
        assert!(list.stdout.contains("\nhere "), "{}", list.stderr);
        let list = done(sandbox.bare(&["list"]).env("SHEDLOCK_STORE", other.store()));
        assert!(list.stdout.contains("\nother "), "{}", list.stderr);
        let list = done(&mut sandbox.bare(&["list", "--store", &other.store()]));
        assert!(list.stdout.contains("\nother "), "{}", list.stderr);
    }
    write(&sandbox, "local = true");
    let mut pod = sandbox.bare(&["migrate"]);
    let pod = done(pod.env("KUBERNETES_SERVICE_HOST", "10.0.0.1"));
    assert_eq!((pod.code, pod.stderr.as_str()), (0, ""));
    write(&sandbox, "store = \"sqlite:/a\"\nlocal = true");
    let both = done(&mut sandbox.bare(&["list"]));
    assert_eq!(both.code, 2);
    assert!(both.stderr.contains("config.toml:2: "), "{}", both.stderr);
    write(&sandbox, "store = \"wrong://h\"");
    let wrong = done(&mut sandbox.bare(&["list"]));
    assert!(
        wrong.stderr.contains("config.toml:1: unknown URL scheme"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_its_line() {
    let sandbox = Sandbox::migrated();
    for (text, said) in [
        (
            "lock-at-most-fro = \"1m\"",
            ":1: unknown key \"lock-at-most-fro\"; the nearest known key is \"lock-at-most-for\"",
        ),
        (
            "\n[run]\nlock_wait = \"1m\"",
            ":3: unknown key \"lock_wait\" for run; the nearest known key is \"lock-wait\"",
        ),
        (
            "[run]\nsort = \"age\"",
            ":2: \"sort\" is not an option of run; write it in [list]",
        ),
        (
            "[list]\nkeep-alive = true",
            ":2: \"keep-alive\" is not an option of list; write it in [run]",
        ),
        (
            "[run]\nfilter = \"a*\"",
            ":2: \"filter\" is not an option of run, and cannot be set in a file: pass it on the command \
             line of list or jobs",
        ),
        (
            "[list]\nfilter = \"a*\"",
            ":2: \"filter\" cannot be set in a file, because it belongs to a single job or invocation",
        ),
        (
            "\na = ",
            ":2: the key has no value: write key = \"value\", like lock-at-most-for = \"10m\"",
        ),
        ("a = # b", ":1: the key has no value: write key"),
        ("a = [", ":1: a key has one value, not a list or a table: "),
        ("a = {", ":1: a key has one value, not a list or a table: "),
        ("= 3", ":1: there is no key before \"=\": "),
        ("a = \"b\" c", ":1: there is text after the value: "),
        (
            "[rnu]\nsort = \"age\"",
            ":1: unknown section [rnu]; the nearest known section is [run]",
        ),
        (
            "\n[nonsense]",
            ":2: unknown section [nonsense]; a section has the name of a command: run, hold,",
        ),
        (
            "[slot.reset]\noutput = \"json\"",
            ":1: unknown section [slot.reset]; write the options of its commands in [slot]",
        ),
        (
            "[run.more]\noutput = \"json\"",
            ":1: unknown section [run.more]; write its options in [run]",
        ),
        (
            "[run]\nlog-format = \"json\"",
            ":2: \"log-format\" applies to every command: write it at the top of the file",
        ),
        (
            "name = \"a\"",
            ":1: \"name\" cannot be set in a file, because it belongs to a single job or invocation",
        ),
        (
            "xyz = 1",
            ":1: unknown key \"xyz\"; a key is the long name of an option without its dashes, like \
             lock-at-most-for",
        ),
        (
            "[run]\nlock-at-most-for = \"10\"",
            "config.toml:2: lock-at-most-for: invalid value '10': write it with its unit",
        ),
        (
            "log-format = \"xml\"",
            "config.toml:1: log-format: invalid value 'xml'",
        ),
        (
            "[run]\nkeep-alive = \"yes\"",
            ":2: keep-alive: write true or false",
        ),
        (
            "log-format = true",
            ":1: log-format: write the value in quotes",
        ),
        (
            "connect-timeout = 1.5",
            ":1: connect-timeout: write the value in quotes",
        ),
        (
            "a = 1\nstore = \"postgres://u:geheim@h/d",
            ":2: the quotes are not closed on this line",
        ),
        (
            "store = postgres://u:geheim@h/d",
            ":1: a value is not in quotes: write key = \"value\", like lock-at-most-for = \"10m\"",
        ),
        (
            "[run]\nlock-at-most-for = 10m",
            ":2: a value is not in quotes: write key = \"value\", like lock-at-most-for = \"10m\"",
        ),
        (
            "keep-alive",
            ":1: the line has no \"=\": write key = \"value\", like lock-at-most-for = \"10m\"",
        ),
        (
            "[run",
            ":1: the name of a section is not closed with \"]\": write it like [run]",
        ),
        (
            "connect-timeout = \"1s\"\nconnect-timeout = \"2s\"",
            ":2: this key or section is set twice; remove one of the two",
        ),
        (
            "[run]\nlock-at-most-for = 10",
            ":2: lock-at-most-for: a duration needs a unit and quotes, like \"10m\"",
        ),
        (
            "store = [\"postgres://u:geheim@h/d\"]",
            ":1: store: write one value in quotes, not a list",
        ),
        (
            "store = 5",
            ":1: store: write the URL of the store in quotes, like \"postgres://app@db/app\"",
        ),
        (
            "journal-store-file = 5",
            ":1: journal-store-file: write the path of the file in quotes",
        ),
        ("verbose = true", ":1: verbose: write a number, like 1"),
        ("verbose = -1", ":1: verbose: write a number, like 1"),
        (
            "[run]\nzone = \"Mars/Olympus\"",
            ": zone: invalid value 'Mars/Olympus'",
        ),
        (
            "quiet = true\nverbose = 2",
            ":2: quiet and verbose are both set: remove one of them",
        ),
    ] {
        let path = write(&sandbox, text);
        let wrong = done(sandbox.shedlock(&["run", "-n", "a", "--", "true"]).arg("x"));
        assert_eq!(wrong.code, 2, "{text}: {}", wrong.stderr);
        assert!(wrong.stderr.contains(said), "{text}: {}", wrong.stderr);
        assert!(wrong.stderr.contains(&path), "{text}: {}", wrong.stderr);
        assert!(!wrong.stderr.contains("geheim"), "{}", wrong.stderr);
        let shown = config(&sandbox, &["-o", "json"], &[]);
        assert_eq!(shown.code, 2, "{text}: {}", shown.stdout);
        let json: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(json["error"]["kind"], "usage");
    }
    let path = write(
        &sandbox,
        "[run]\nlock-at-most-for = \"1m\"\nlock-at-least-for = \"2m\"",
    );
    let wrong = done(&mut sandbox.shedlock(&["run", "-n", "a", "--", "true"]));
    let said = format!(
        "shedlock: a: lock-at-least-for in {path}:3 (2m) is longer than lock-at-most-for in \
         {path}:2 (1m): lower the first or raise the second\n"
    );
    assert_eq!((wrong.code, wrong.stderr), (2, said));
    // What a file sets wrongly does not matter if the value is set elsewhere, nor to the help.
    write(&sandbox, "[run]\nlock-at-most-for = \"10\"");
    assert_eq!(done(&mut sandbox.run("a", "1m", "true")).code, 0);
    write(&sandbox, "nonsense = 1");
    for help in [&["--help"][..], &["run", "--help"], &["--version"]] {
        assert_eq!(done(&mut sandbox.shedlock(help)).code, 0);
    }
}

/// Of the command `config` alone: no other command of the test would read them.
#[test]
fn the_stores_of_a_file_are_checked_before_they_are_used() {
    let sandbox = Sandbox::new();
    let path = write(
        &sandbox,
        "store = \"sqlite:/a.db\"\n[list]\nstore = \"postgres://u:geheim@h/d\"",
    );
    let shown = config(&sandbox, &[], &[]);
    let store = |value: &str, line| (value.to_owned(), format!("{path}:{line}"));
    assert_eq!(row(&shown, "store"), store("sqlite:/a.db", 1));
    assert_eq!(row(&shown, "list.store"), store("postgres://u:***@h/d", 3));
    for (text, said) in [
        (
            "store = \"postgress://h/d\"",
            "store in PATH:1: unknown URL scheme",
        ),
        (
            "store = \"postgres://h:x/d\"",
            "store in PATH:1: postgres: cannot read",
        ),
        (
            "store = \"sqlite:/a.db\"\n[run]\nstore = \"redis://h?nonsense=1\"",
            "store in PATH:3: redis: ",
        ),
        ("store = \"\"", "store in PATH:1 is set but empty: set it"),
        (
            "store-file = \"/no/such\"",
            "store-file in PATH:1 (/no/such): cannot read",
        ),
    ] {
        write(&sandbox, text);
        let wrong = config(&sandbox, &[], &[]);
        let said = format!("shedlock: {}", said.replace("PATH", &path));
        assert_eq!(wrong.code, 2, "{}", wrong.stdout);
        assert!(wrong.stderr.starts_with(&said), "{text}: {}", wrong.stderr);
    }
}

#[test]
fn another_file_can_be_named_and_must_exist() {
    let sandbox = Sandbox::migrated();
    write(&sandbox, "nonsense = 1");
    fs::write(sandbox.path("other.toml"), "output = \"json\"").unwrap();
    let other = sandbox.path("other.toml").display().to_string();
    let typed = done(&mut sandbox.shedlock(&["list", "--config", &other]));
    assert!(typed.stdout.starts_with('{'), "{}", typed.stderr);
    let variable = done(sandbox.shedlock(&["list"]).env("SHEDLOCK_CONFIG", &other));
    assert_eq!(variable.stdout, typed.stdout);
    let wrong = sandbox.path("wrong.toml").display().to_string();
    fs::write(&wrong, "[run]\nlock-at-most-for = \"10\"").unwrap();
    let before = ["--config", &wrong, "run", "-n", "a", "--", "true"];
    let before = done(sandbox.shedlock(&[]).args(before));
    let place = format!("shedlock: {wrong}:2: lock-at-most-for: invalid value '10': ");
    assert!(before.stderr.starts_with(&place), "{}", before.stderr);
    let none = done(
        sandbox
            .shedlock(&["list"])
            .env("SHEDLOCK_CONFIG", "/dev/null"),
    );
    assert_eq!(none.stdout, "no locks\n");
    let missing = done(&mut sandbox.shedlock(&["--config", "/no/such", "list"]));
    assert_eq!(missing.code, 2);
    assert!(
        missing
            .stderr
            .starts_with("shedlock: --config: cannot read /no/such: "),
        "{}",
        missing.stderr
    );
    let missing = done(sandbox.shedlock(&["list"]).env("SHEDLOCK_CONFIG", ""));
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("SHEDLOCK_CONFIG"),
        "{}",
        missing.stderr
    );
    let home = sandbox.path("xdg");
    fs::create_dir_all(home.join("shedlock")).unwrap();
    fs::copy(&other, home.join("shedlock/config.toml")).unwrap();
    let xdg = done(sandbox.shedlock(&["list"]).env("XDG_CONFIG_HOME", &home));
    assert!(xdg.stdout.starts_with('{'), "{}", xdg.stderr);
}

#[test]
fn a_password_is_hidden_where_settings_are_shown() {
    let sandbox = Sandbox::new();
    let path = write(
        &sandbox,
        "store = \"postgres://u:geheim@h/d?password=geheim\"",
    );
    fs::write(sandbox.path("url"), "redis://u:geheim@h").unwrap();
    let file = sandbox.path("url").display().to_string();
    for (variables, from) in [
        (&[][..], format!("{path}:1")),
        (
            &[("SHEDLOCK_STORE", "nats://geheim@h")],
            "SHEDLOCK_STORE".to_owned(),
        ),
        (
            &[("SHEDLOCK_STORE_FILE", &*file)],
            format!("SHEDLOCK_STORE_FILE ({file})"),
        ),
    ] {
        let table = config(&sandbox, &[], variables);
        assert_eq!(row(&table, "store").1, from);
        let json = config(&sandbox, &["-o", "json"], variables);
        let all = format!(
            "{}{}{}{}",
            table.stdout, table.stderr, json.stdout, json.stderr
        );
        assert!(!all.contains("geheim"), "{all}");
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["file"], path);
        let settings = json["settings"].as_array().unwrap();
        let store = settings
            .iter()
            .find(|setting| setting["name"] == "store")
            .unwrap();
        assert_eq!(store["from"], from);
        let unset = settings
            .iter()
            .find(|setting| setting["name"] == "lock-wait")
            .unwrap();
        assert!(unset["value"].is_null());
    }
}

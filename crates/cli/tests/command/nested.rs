//! A `shedlock` in the command of another one: the same store or a failure, never another store.

use std::fs;

use super::common::{Done, Sandbox, done};

/// Takes the lock that the outer `run` holds.
const NESTED: &str = "exec \"$SHEDLOCK\" run -n x --lock-at-most-for 1m -- echo overlapped";

/// `run` of this script, with these options, in a sandbox without any store.
fn outer(sandbox: &Sandbox, options: &[&str], variables: &[(&str, &str)], script: &str) -> Done {
    let mut command = sandbox.bare(&["run", "-n", "x", "--lock-at-most-for", "1m"]);
    command.args(options).args(["--", "sh", "-c", script]);
    command.env("SHEDLOCK", env!("CARGO_BIN_EXE_shedlock"));
    done(command.envs(variables.iter().copied()))
}

/// A way to choose a store: options, and variables.
type Choice = (Vec<String>, Vec<(&'static str, String)>);

/// Each of them.
fn choices(sandbox: &Sandbox) -> Vec<Choice> {
    let store = sandbox.store();
    let write = |name: &str, text: &str| {
        fs::write(sandbox.path(name), text).unwrap();
        sandbox.path(name).to_str().unwrap().to_owned()
    };
    let secret = write("url", &store);
    let config = write("config.toml", &format!("store = '{store}'"));
    let of_run = write("run.toml", &format!("[run]\nstore-file = '{secret}'"));
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        (own(&["--store", &store]), vec![]),
        (own(&["--store-file", &secret]), vec![]),
        (own(&["--store-file", "url"]), vec![]),
        (own(&["--config", &config]), vec![]),
        (own(&["--config", &of_run]), vec![]),
        (vec![], vec![("SHEDLOCK_STORE", store)]),
        (vec![], vec![("SHEDLOCK_STORE_FILE", secret)]),
        (vec![], vec![("SHEDLOCK_CONFIG", config)]),
    ]
}

fn nested(sandbox: &Sandbox, pass: bool, script: &str) -> Vec<Done> {
    let run = |(options, variables): (Vec<String>, Vec<(&str, String)>)| {
        let pass = pass.then_some("--pass-store");
        let options: Vec<_> = options.iter().map(String::as_str).chain(pass).collect();
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        outer(sandbox, &options, &variables, script)
    };
    choices(sandbox).into_iter().map(run).collect()
}

#[test]
fn a_store_that_is_passed_on_is_used_however_it_was_chosen() {
    let sandbox = Sandbox::new();
    for done in nested(&sandbox, true, &format!("cd /; {NESTED}")) {
        assert_eq!((done.code, &*done.stdout), (0, ""), "{}", done.stderr);
        let said = "shedlock: x: skipped: held by ";
        assert!(done.stderr.starts_with(said), "{}", done.stderr);
    }
    assert!(!sandbox.path(".local").exists());
}

#[test]
fn a_store_that_is_not_passed_on_is_replaced_by_no_other() {
    let sandbox = Sandbox::new();
    let mut ignored = 0;
    for done in nested(&sandbox, false, NESTED) {
        assert_eq!((done.code, &*done.stdout), (2, ""), "{}", done.stderr);
        let start = "the `shedlock run` around this command does not pass its store on, and ";
        let (before, other) = done.stderr.split_once(start).unwrap();
        let advice = "might be a different store; add --pass-store to the outer run, or";
        assert!(other.contains(advice), "{}", done.stderr);
        // A variable with a configuration file reaches the nested command, but not what it names.
        if before == "shedlock: " {
            ignored += 1;
            let said = "config.toml:1 is not used here, because it might be a different store";
            assert!(other.contains(said), "{}", done.stderr);
        } else {
            assert_eq!(before, "shedlock: no store is set: ");
            assert!(other.starts_with("the default might be"), "{}", done.stderr);
        }
    }
    assert_eq!(ignored, 1);
    assert!(!sandbox.path(".local").exists());
}

#[test]
fn the_users_file_is_passed_on() {
    let sandbox = Sandbox::new();
    let config = sandbox.path("config.toml");
    fs::write(&config, "[extend]\nstore = 'sqlite:/no/such.db'").unwrap();
    let config = config.to_str().unwrap();
    let unset = [("SHEDLOCK_CONFIG", config)];
    let another = [("SHEDLOCK_STORE", "sqlite:/no/such.db")];
    for (options, variables) in [
        (&["--local", "-q"][..], &unset[..]),
        (&["--local"], &another),
        (&["--local", "--pass-store"], &another),
    ] {
        let same = outer(&sandbox, options, variables, NESTED);
        let said = "shedlock: x: skipped: held by ";
        assert!(same.stderr.starts_with(said), "{}", same.stderr);
        let extend = "exec \"$SHEDLOCK\" extend --for 10m";
        let extended = outer(&sandbox, options, variables, extend);
        assert_eq!(extended.code, 0, "{}", extended.stderr);
    }
}

/// A secret from `--store-file <(…)` can be read once.
#[test]
fn a_pipe_is_passed_on_as_its_url() {
    let sandbox = Sandbox::new();
    let store = sandbox.store();
    let script = format!(
        "echo '{store}' | \"$SHEDLOCK\" run -n y --lock-at-most-for 1m \
                          --store-file /dev/stdin --pass-store -- \
                          sh -c 'echo $SHEDLOCK_STORE; exec \"$SHEDLOCK\" list'"
    );
    let done = outer(&sandbox, &["--local"], &[], &script);
    assert!(done.stdout.starts_with(&store), "{}", done.stdout);
    assert_eq!((done.code, &*done.stderr), (0, ""));
}

#[test]
fn a_command_with_a_store_passed_on_has_no_mark() {
    let sandbox = Sandbox::new();
    let script = "echo ${SHEDLOCK_STORE_WITHHELD-none}";
    let store = sandbox.store();
    let variables = [("SHEDLOCK_STORE_WITHHELD", "1")];
    let options = ["--store", &store, "--pass-store"];
    assert_eq!(
        outer(&sandbox, &options, &variables, script).stdout,
        "none\n"
    );
    assert_eq!(outer(&sandbox, &options[..2], &[], script).stdout, "1\n");
}

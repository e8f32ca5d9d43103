//! The exit codes in the help of each command. `run` has more, and lists them itself.
//!
//! `docs/exit-codes.md` repeats them, and a test compares the two.

/// The codes of a command that uses a store. `absent` is what code 1 means, if the command has it.
pub(super) fn of_store(absent: Option<&str>) -> String {
    with_store(absent, "the store failed, or does not exist")
}

/// The codes of `migrate`, which creates what does not exist.
pub(super) fn of_migrate() -> String {
    with_store(None, "the store failed, or cannot be created")
}

fn with_store(absent: Option<&str>, store: &str) -> String {
    table(&[
        ("0", Some("success")),
        ("1", absent),
        ("2", Some(USAGE)),
        ("69", Some(store)),
        ("70", Some(INTERNAL)),
    ])
}

/// The codes of `doctor`, for which a store that fails is a result.
pub(super) fn of_doctor() -> String {
    table(&[
        (
            "0",
            Some("no error was found, and with --strict no warning"),
        ),
        ("1", Some("an error was found, or with --strict a warning")),
        ("2", Some(USAGE)),
        ("70", Some(INTERNAL)),
    ])
}

/// The codes of `metrics`, for which a store that fails is a result.
pub(super) fn of_metrics() -> String {
    let codes = table(&[
        (
            "0",
            Some("success; also if the store failed, which the metrics report"),
        ),
        ("2", Some(USAGE)),
        ("70", Some(INTERNAL)),
    ]);
    let line =
        "* * * * *  shedlock metrics --textfile /var/lib/prometheus/node-exporter/shedlock.prom";
    format!("{codes}\n\nExamples:\n  # In a crontab, for node_exporter\n  {line}")
}

/// The codes of a command without a store.
pub(super) fn of_none() -> String {
    table(&[
        ("0", Some("success")),
        ("2", Some(USAGE)),
        ("70", Some(INTERNAL)),
    ])
}

/// The codes of all commands.
pub(super) fn of_all() -> String {
    let run =
        "Not every command has all of them, and `run` has more: see `shedlock COMMAND --help`";
    let codes = of_store(Some(
        "the lock does not exist, or was not changed; or doctor found an error",
    ));
    format!("{codes}\n\n{run}")
}

const USAGE: &str = "the command line, an environment variable or the configuration file is wrong";
const INTERNAL: &str = "shedlock failed, or could not write its output";

fn table(codes: &[(&str, Option<&str>)]) -> String {
    let lines = codes
        .iter()
        .filter_map(|(code, meaning)| Some(format!("\n  {code:<5}{}", (*meaning)?)));
    format!("Exit codes:{}", lines.collect::<String>())
}

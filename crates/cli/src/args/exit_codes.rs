//! The exit codes in the help of each command. `run` has more, and lists them itself.
//!
//! `docs/exit-codes.md` repeats them, and a test compares the two.

/// The codes of a command that uses a store. `absent` is what code 1 means, if the command has it.
pub(super) fn of_store(absent: Option<&str>) -> String {
    let store = "the store failed, or does not exist";
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
        "`run` has more, and passes the code of its command through: see `shedlock run --help`";
    let codes = of_store(Some("what the command was asked about does not exist"));
    format!("{codes}\n\n{run}")
}

const USAGE: &str = "the command line, a variable or the file with settings is wrong";
const INTERNAL: &str = "shedlock failed, or could not write its output";

fn table(codes: &[(&str, Option<&str>)]) -> String {
    let lines = codes
        .iter()
        .filter_map(|(code, meaning)| Some(format!("\n  {code:<5}{}", (*meaning)?)));
    format!("Exit codes:{}", lines.collect::<String>())
}

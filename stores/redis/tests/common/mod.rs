//! What the tests over real servers share.

#![allow(dead_code, reason = "each test target uses a part of it")]

pub(crate) mod own;

/// The URL of a throw-away server.
///
/// Where the run was narrowed to other stores (`cargo xtask test --store …`), which xtask says by
/// the word "unavailable" and in its summary, this ends the test target: all of it is about the one
/// server.
///
/// # Panics
/// Where there is none: a test that needs a server does not pass without.
#[expect(clippy::print_stderr, reason = "what is not tested is said")]
pub(crate) fn server(variable: &str) -> String {
    let asked = variable.trim_end_matches("_URL");
    match std::env::var(variable) {
        Ok(url) => url,
        Err(_) if std::env::var(asked).is_ok_and(|word| word == "unavailable") => {
            eprintln!("NOT TESTED: {asked} is unavailable, or another store was asked for");
            std::process::exit(0)
        }
        Err(_) => panic!("{variable} is not set: run `cargo xtask test`"),
    }
}

/// The URL of a server that need not be there, such as Valkey, which the machine may lack.
///
/// # Panics
/// Where it is neither given nor said to be missing.
pub(crate) fn server_if_any(variable: &str) -> Option<String> {
    match std::env::var(format!("{variable}_URL")) {
        Ok(url) => Some(url),
        Err(_) if std::env::var(variable).is_ok_and(|word| word == "unavailable") => None,
        Err(_) => panic!("{variable}_URL is not set: run `cargo xtask test`"),
    }
}

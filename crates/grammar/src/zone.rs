//! Names of time zones.

/// The names in the IANA database, one a line. A test compares them with the database that is compiled into jiff.
const NAMES: &str = include_str!("zones.txt");

/// Whether the IANA database has a zone of this name, in any case.
pub fn is_known(name: &str) -> bool {
    NAMES.lines().any(|known| known.eq_ignore_ascii_case(name))
}

/// What is wrong with a name that is not known.
pub fn unknown(name: &str) -> String {
    format!("unknown time zone {name:?}")
}

/// What to do about it.
pub const REMEDY: &str = "use a name from the IANA database, like \"Europe/Berlin\" or \"UTC\"";

/// Checks that the IANA database has a zone of this name.
///
/// # Errors
/// That it is unknown, and what to do.
pub fn check(name: &str) -> Result<(), String> {
    match is_known(name) {
        true => Ok(()),
        false => Err(format!("{}; {REMEDY}", unknown(name))),
    }
}

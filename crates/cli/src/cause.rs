//! Errors of the store in the words of a program that retries by itself.

/// Why a call failed, for a message that names the lock already, and whose reader has nothing to retry.
pub(crate) fn of(error: &str, name: &str) -> String {
    const ADVICE: [&str; 5] = [
        ", then retry",
        "; retry later",
        "; retry",
        ": retry later",
        ": retry",
    ];
    let lock = format!("lock {name:?} in ");
    let why = error.strip_prefix(&lock).unwrap_or(error);
    let mut ends = ADVICE.iter().filter_map(|advice| why.strip_suffix(advice));
    let why = ends.next().unwrap_or(why);
    why.replace("; retry later, and look for", "; look for")
        .replace("; retry, and look for", "; look for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_names_no_lock_and_advises_no_retry() {
        for (error, cause) in [
            (
                "lock \"a\" in sqlite: locked; retry later, and look for x",
                "sqlite: locked; look for x",
            ),
            (
                "lock \"b\" in redis: lost; retry",
                "lock \"b\" in redis: lost",
            ),
            ("refused; check it, then retry", "refused; check it"),
            ("the lock has changed: retry", "the lock has changed"),
            ("retry", "retry"),
        ] {
            assert_eq!(of(error, "a"), cause);
        }
    }
}

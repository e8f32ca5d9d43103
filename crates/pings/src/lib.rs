#![doc = include_str!("../README.md")]

mod healthchecks;
mod report;
mod run_id;
mod sender;
mod sentry;

pub use healthchecks::Healthchecks;
pub use report::RunReport;
pub use sentry::{Monitor, SentryCrons};

use shedlock_core::{Error, ErrorKind};

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// Returns the name of a check for a job: letters, digits, `-` and `_`, in lower case. Other
/// characters become `-`.
fn slug(job: &str) -> String {
    let mut slug = String::with_capacity(job.len());
    for char in job.chars().flat_map(char::to_lowercase) {
        match char {
            'a'..='z' | '0'..='9' | '_' => slug.push(char),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    if slug.is_empty() {
        // A name without a letter or digit of ASCII.
        return format!("job-{:08x}", run_id::hash([job]) as u32);
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_has_only_what_both_services_accept() {
        for (job, expected) in [
            ("report", "report"),
            ("Nightly Report", "nightly-report"),
            ("expire-{tenant}", "expire-tenant"),
            ("a/b::c_d", "a-b-c_d"),
            ("--x--", "x"),
        ] {
            assert_eq!(slug(job), expected, "{job}");
        }
        let unnamed = slug("보고서");
        assert!(unnamed.starts_with("job-"), "{unnamed}");
        assert_ne!(unnamed, slug("정산"));
    }
}

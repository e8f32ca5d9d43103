#![doc = include_str!("../README.md")]

mod healthchecks;
mod report;
mod run_id;
mod sender;
mod sentry;

pub use healthchecks::Healthchecks;
pub use report::RunReport;
pub use sentry::{Monitor, SentryCrons};

use std::borrow::Cow;

use reqwest::Url;
use shedlock_core::{Error, ErrorKind};
use shedlock_support::tls_features;

fn invalid(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
}

/// Refuses an HTTPS URL if this crate was built without TLS.
fn check_tls(url: &Url) -> Result<(), Error> {
    let has_tls = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc"));
    match has_tls || url.scheme() != "https" {
        true => Ok(()),
        false => {
            Err(invalid("this program was built without TLS")
                .advise(tls_features("shedlock-pings")))
        }
    }
}

/// Returns the name of a check for a job: letters, digits, `-` and `_`, in lower case. Other
/// characters become `-`. If that changes the name, or cuts it, a hash of the name follows: two jobs never share a check.
fn slug(job: &str, longest: usize) -> String {
    let mut slug = String::with_capacity(job.len());
    for char in job.chars().flat_map(char::to_lowercase) {
        match char {
            'a'..='z' | '0'..='9' | '_' => slug.push(char),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    if slug == job && slug.len() <= longest {
        return slug;
    }
    if slug.is_empty() {
        // A name without a letter or digit of ASCII.
        slug.push_str("job");
    }
    let hash = format!("-{:08x}", run_id::hash([job]) as u32);
    slug.truncate(longest - hash.len());
    slug.truncate(slug.trim_end_matches('-').len());
    slug + &hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_has_only_what_both_services_accept() {
        for plain in ["report", "expire-tenant_2"] {
            assert_eq!(slug(plain, 100), plain);
        }
        for (job, start) in [
            ("Nightly Report", "nightly-report-"),
            ("expire-{tenant}", "expire-tenant-"),
            ("a/b::c_d", "a-b-c_d-"),
            ("--x--", "x-"),
            ("보고서", "job-"),
        ] {
            let slug = slug(job, 100);
            let hash = slug.strip_prefix(start).unwrap_or_default();
            let is_hash = hash.len() == 8 && hash.bytes().all(|it| it.is_ascii_hexdigit());
            assert!(is_hash, "{job}: {slug}");
        }
    }

    #[test]
    fn two_jobs_never_have_one_slug() {
        let long = "a".repeat(49);
        let [one, two] = ["1", "2"].map(|end| format!("{long}{end}{end}"));
        let names = [
            "report-월간",
            "report-주간",
            "report",
            "Report",
            "a b",
            "a-b",
            "a/b",
            &one,
            &two,
        ];
        for longest in [50, 100] {
            let slugs: std::collections::BTreeSet<_> =
                names.iter().map(|name| slug(name, longest)).collect();
            assert_eq!(slugs.len(), names.len(), "{slugs:?}");
            assert!(slugs.iter().all(|slug| slug.len() <= longest), "{slugs:?}");
        }
    }
}

//! DSNs: where a project of Sentry receives events, and the key for it.

use reqwest::Url;
use reqwest::header::HeaderValue;
use shedlock_core::Error;

use crate::{check_tls, invalid};

/// A DSN: `https://<public key>@<host>/<path>/<project>`.
#[derive(Clone)]
pub(super) struct Dsn {
    /// Where envelopes are sent.
    pub(super) envelopes: Url,
    /// The value of `X-Sentry-Auth`.
    pub(super) auth: HeaderValue,
}

impl Dsn {
    /// Reads a DSN. No error contains it.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            invalid(format!("cannot read the Sentry DSN: {why}")).advise(
                "copy it from the project's settings (Client Keys); it looks like \
                 https://<public key>@o1.ingest.sentry.io/<project>",
            )
        };
        let url = Url::parse(text.trim()).map_err(|_| wrong("it is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("it is not an HTTP URL"));
        }
        check_tls(&url)?;
        let key = url.username();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(wrong("it has no public key"));
        }
        let path = url.path().trim_end_matches('/');
        let (prefix, project) = path.rsplit_once('/').unwrap_or_default();
        if project.is_empty() || !project.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(wrong("it has no project"));
        }
        let client = concat!("shedlock/", env!("CARGO_PKG_VERSION"));
        let auth = format!("Sentry sentry_version=7, sentry_client={client}, sentry_key={key}");
        let mut auth = HeaderValue::try_from(auth).map_err(|_| wrong("it has no public key"))?;
        auth.set_sensitive(true);
        let mut envelopes = url.clone();
        let is_changed = envelopes.set_username("").is_ok() && envelopes.set_password(None).is_ok();
        if !is_changed {
            return Err(wrong("it is not an HTTP URL"));
        }
        envelopes.set_path(&format!("{prefix}/api/{project}/envelope/"));
        envelopes.set_query(None);
        envelopes.set_fragment(None);
        Ok(Self { envelopes, auth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsn_names_the_endpoint_and_the_key() {
        for (text, expected) in [
            (
                "https://abc123@o1.ingest.sentry.io/42",
                "https://o1.ingest.sentry.io/api/42/envelope/",
            ),
            (
                "http://abc123:old@sentry.local:9000/base/7/",
                "http://sentry.local:9000/base/api/7/envelope/",
            ),
        ] {
            let dsn = Dsn::parse(text).unwrap();
            assert_eq!(dsn.envelopes.as_str(), expected);
            let auth = dsn.auth.to_str().unwrap();
            assert!(auth.ends_with(", sentry_key=abc123"), "{auth}");
        }
    }

    #[test]
    fn a_wrong_dsn_is_refused_and_not_repeated() {
        for (text, says) in [
            ("geheim", "not a URL"),
            ("ftp://geheim@h/1", "not an HTTP URL"),
            ("https://h/geheim", "no public key"),
            ("https://geheim@h/", "no project"),
        ] {
            let said = Dsn::parse(text).err().unwrap().to_string();
            assert!(said.contains(says) && !said.contains("geheim"), "{said}");
        }
    }
}

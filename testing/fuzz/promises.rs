//! The promises that the fuzz targets of all crates share.
//!
//! Each crate includes this file in its module `fuzz`. It is not a crate: both the tests of a crate
//! and its library under libFuzzer need it, and a published library cannot depend on an unpublished
//! crate.

#![allow(dead_code, reason = "each crate uses a part of it")]

use std::error::Error as StdError;

use shedlock_core::{Error, ErrorKind, LockName};

/// Stands for a password in the corpora of URLs.
const SECRET: &str = "geheim";

/// Checks that a refusal has one of these kinds and is one line in the form of shedlock's error
/// messages.
pub(crate) fn is_refusal(error: &Error, kinds: &[ErrorKind]) {
    assert!(kinds.contains(&error.kind()), "{error:?}");
    let message = error.to_string();
    assert!(message.len() > 10, "too short: {message:?}");
    assert!(!message.ends_with('.'), "ends like a sentence: {message:?}");
    assert!(
        !message.chars().any(char::is_control),
        "not one line: {message:?}"
    );
}

/// As [`is_refusal`], for a URL: no part of the error contains the text in the place of the
/// password.
pub(crate) fn is_refusal_of_url(error: &Error, url: &str, kinds: &[ErrorKind]) {
    is_refusal(error, kinds);
    let mut all = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        all.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    assert!(
        !holds_secret(url) || !all.contains(SECRET),
        "shows a password: {all}"
    );
}

/// Checks a URL: `read` reads no file and contacts no server, and refuses a URL only as invalid
/// input.
pub(crate) fn url<T>(data: &[u8], read: impl FnOnce(&str) -> Result<T, Error>) {
    let url = String::from_utf8_lossy(data);
    if let Err(error) = read(&url) {
        is_refusal_of_url(&error.of_url(&url), &url, &[ErrorKind::InvalidInput]);
    }
}

/// As [`url()`], for functions that read files: URLs that name a file are ignored.
pub(crate) fn url_without_files<T>(data: &[u8], read: impl FnOnce(&str) -> Result<T, Error>) {
    let url = String::from_utf8_lossy(data);
    let names_file = |option| url.contains(option);
    if !["tls_ca", "tls_cert", "tls_key", "token_file"]
        .into_iter()
        .any(names_file)
    {
        self::url(data, read);
    }
}

/// Checks the mapping between names and keys. The input contains a key prefix, an environment and a
/// name or key, one per line. A name maps to two different keys, and each key maps back to the
/// name. The keys of a name that does not fit map back to nothing.
pub(crate) fn keys<K>(
    data: &[u8],
    new: impl Fn(&str, &str) -> Result<K, Error>,
    of: impl Fn(&K, &LockName) -> [String; 2],
    name_of: impl Fn(&K, &str) -> Option<LockName>,
    fits: impl Fn(&LockName) -> bool,
) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let keys = match new(line(), line()) {
        Ok(keys) => keys,
        Err(error) => return is_refusal(&error, &[ErrorKind::InvalidInput]),
    };
    let last = line();
    if let Some(name) = name_of(&keys, last) {
        assert!(of(&keys, &name).iter().any(|key| key == last), "{name}");
    }
    let Ok(name) = LockName::new(last) else {
        return;
    };
    let both = of(&keys, &name);
    assert_ne!(both[0], both[1]);
    let expected = fits(&name).then_some(&name);
    for key in &both {
        assert_eq!(name_of(&keys, key).as_ref(), expected, "{key}");
    }
}

/// Whether the secret stands between the scheme and the `@` of a host, and nowhere else.
pub(crate) fn holds_secret(url: &str) -> bool {
    let mut parts = url.splitn(2, "://");
    let (Some(_), Some(rest)) = (parts.next(), parts.next()) else {
        return false;
    };
    url.matches(SECRET).count() == 1
        && rest
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, password)| password.contains(SECRET))
}

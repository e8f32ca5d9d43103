//! The fuzz target for the reader of untrusted input in this crate. It panics if a promise is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use promises::is_refusal_of_url;
use shedlock_core::ErrorKind;

use crate::connect::split;

/// The scheme of a URL, which selects the store.
fn scheme(data: &[u8]) {
    let url = String::from_utf8_lossy(data);
    match split(&url) {
        Ok((scheme, rest)) => {
            let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            assert!(scheme.bytes().all(is_of_scheme) && !scheme.is_empty());
            let given = &url[..scheme.len()];
            assert!(given.eq_ignore_ascii_case(&scheme) && url.ends_with(rest));
        }
        Err(error) => is_refusal_of_url(&error, &url, &[ErrorKind::InvalidInput]),
    }
}

shedlock_fuzz::tests!(scheme);

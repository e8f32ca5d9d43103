//! Helpers shared by the tests over real servers.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test target uses a part of it, and helpers of tests fail as tests do"
)]

pub(crate) mod own;
pub(crate) mod room;

/// Returns the address of the first server of a URL, in the client's form.
pub(crate) fn endpoint(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', ','])
        .next()
        .unwrap_or(rest)
        .to_owned()
}

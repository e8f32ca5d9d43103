#![doc = include_str!("../README.md")]

mod backoff;
mod queue;
mod redact;
mod spawn;
pub mod text;
mod tls;
pub mod zone;

use std::error::Error;
use std::iter;

pub use backoff::Backoff;
pub use queue::{Queue, State};
pub use redact::redact;
pub use spawn::spawn;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use tls::UnusableTls;
pub use tls::{TlsFailure, TlsFile, TlsFiles, in_words, lacks_crypto_choice, tls_features};

/// Returns the text of the last cause, which most clients repeat with a prefix in each error around it. What rustls
/// reports about a certificate is put into words.
pub fn root_cause(failure: &(dyn Error + 'static)) -> String {
    let root = causes(failure).last();
    root.map_or_else(String::new, |root| tls::in_words(&root.to_string()))
}

/// Returns a failure and its causes, from the outermost to the innermost.
pub fn causes<'a>(
    failure: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let next = |cause: &&'a (dyn Error + 'static)| (*cause).source();
    iter::successors(Some(failure), next)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_root_cause_stands_without_the_errors_around_it() {
        let failure = io::Error::other(io::Error::other("connection refused"));
        assert_eq!(root_cause(&failure), "connection refused");
    }
}

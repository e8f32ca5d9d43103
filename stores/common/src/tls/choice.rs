//! The crypto library of rustls, for clients that do not accept a rustls configuration.

use crate::errors::{Result, configuration};
use rustls::crypto::CryptoProvider;

/// Refuses a URL whose scheme begins with `encrypted` as `Configuration`, if the program contains two crypto libraries
/// and has not chosen one. Without this check rustls panics inside the client. If the program contains only one
/// library, rustls uses that one. The choice applies to the whole process, so a library must not make it.
pub fn check_crypto_choice(url: &str, encrypted: &str) -> Result<()> {
    let scheme = url.get(..encrypted.len());
    match scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(encrypted)) {
        true => require_crypto_choice(),
        false => Ok(()),
    }
}

/// The same for a connection that is known to need the choice.
pub fn require_crypto_choice() -> Result<()> {
    if CryptoProvider::get_default().is_some() || !has_two() {
        return Ok(());
    }
    Err(configuration(
        "this program contains two TLS crypto libraries, ring and aws-lc-rs, and sets no default",
    )
    .advise("call install_default of a rustls::crypto::CryptoProvider at startup"))
}

/// All crates of a program together decide which libraries rustls contains. The only visible sign is which of its
/// modules exist. Those take precedence here over the modules below.
fn has_two() -> bool {
    #[allow(unused_imports, reason = "where rustls has neither")]
    use rustls::crypto::*;
    !ring::ALL_KX_GROUPS.is_empty() && !aws_lc_rs::ALL_KX_GROUPS.is_empty()
}

#[allow(dead_code, reason = "where rustls has its own")]
mod ring {
    pub(super) const ALL_KX_GROUPS: [(); 0] = [];
}

#[allow(dead_code, reason = "where rustls has its own")]
mod aws_lc_rs {
    pub(super) const ALL_KX_GROUPS: [(); 0] = [];
}

//! Whose crypto library rustls takes, for clients that take no configuration of rustls.

use crate::errors::{Result, configuration};
use rustls::crypto::CryptoProvider;

/// Refuses a URL whose scheme begins with this as `Configuration`, in a program with two crypto libraries that has chosen
/// none: rustls panics there, in the client. With a single one in the program rustls takes that. The choice holds for the
/// whole process, so no library makes it.
pub fn check_crypto_choice(url: &str, encrypted: &str) -> Result<()> {
    let scheme = url.get(..encrypted.len());
    let is_encrypted = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(encrypted));
    if !is_encrypted || CryptoProvider::get_default().is_some() || !has_two() {
        return Ok(());
    }
    Err(configuration(
        "this program has two crypto libraries for TLS, ring and aws-lc-rs, and has not chosen one: call \
         install_default of a rustls::crypto::CryptoProvider when it starts",
    ))
}

/// All crates of a program together decide which libraries rustls has. That shows only in the modules that are there,
/// which take precedence here over those below.
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

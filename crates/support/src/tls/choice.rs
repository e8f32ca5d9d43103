//! The crypto library of rustls, for clients that do not accept a rustls configuration.

/// Returns whether the program contains two crypto libraries and has not chosen one: then rustls panics inside the client.
/// If the program contains only one library, rustls uses that one. The choice applies to the whole process, so a library
/// must not make it. False if this crate was built without rustls.
pub fn lacks_crypto_choice() -> bool {
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    return rustls::crypto::CryptoProvider::get_default().is_none() && has_two();
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
    false
}

/// All crates of a program together decide which libraries rustls contains. The only visible sign is which of its
/// modules exist. Those take precedence here over the modules below.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn has_two() -> bool {
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

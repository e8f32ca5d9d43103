//! TLS of the connections that the provider opens itself.

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub(crate) use built_in::{Tls, connector};
#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
pub(crate) use left_out::{Tls, connector};

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod built_in {
    use shedlock_provider::{Result, TlsFiles, client_config, unverified_client_config};
    use shedlock_sql::driver::postgres::TLS;
    use tokio_postgres_rustls::MakeRustlsConnect;

    pub(crate) type Tls = MakeRustlsConnect;

    /// With its own crypto provider, so that none is installed for the process. A connection that need not be encrypted
    /// is not verified either, unless there is a file of authorities to verify it with.
    pub(crate) fn connector(files: &TlsFiles, must_encrypt: bool) -> Result<Tls> {
        let config = match must_encrypt || files.ca.is_some() {
            true => client_config(files, TLS, must_encrypt),
            false => unverified_client_config(files, TLS),
        };
        Ok(MakeRustlsConnect::new(config?))
    }
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
mod left_out {
    use shedlock_provider::{Result, TlsFiles, built_without_tls};
    use tokio_postgres::NoTls;

    pub(crate) type Tls = NoTls;

    /// A connection that may be encrypted is not.
    pub(crate) fn connector(_: &TlsFiles, must_encrypt: bool) -> Result<Tls> {
        match must_encrypt {
            false => Ok(NoTls),
            true => Err(built_without_tls("shedlock-tokio-postgres")),
        }
    }
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;
    use shedlock_sql::driver::Remote as _;

    use crate::session::TokioPostgres;

    #[test]
    fn a_url_that_requires_tls_is_refused_and_one_that_may_do_without_is_not() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://h/d?sslmode={mode}");
            let error = TokioPostgres::described(&url).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let says = "\"tls-ring\" or \"tls-aws-lc\" of the crate shedlock (or of shedlock-tokio-postgres)";
            assert!(error.to_string().contains(says), "{error}");
        }
        for url in ["postgres://h/d", "postgres://h/d?sslmode=disable"] {
            TokioPostgres::described(url).map(drop).unwrap();
        }
    }
}

//! TLS of the connections that the provider opens itself.

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub(crate) use built_in::{Tls, connector};
#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
pub(crate) use left_out::{Tls, connector};

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod built_in {
    use shedlock_provider::{Result, TlsFiles, client_config};
    use tokio_postgres_rustls::MakeRustlsConnect;

    pub(crate) type Tls = MakeRustlsConnect;

    /// With its own crypto provider, so that none is installed for the process.
    pub(crate) fn connector(files: &TlsFiles, must_encrypt: bool) -> Result<Tls> {
        Ok(MakeRustlsConnect::new(client_config(files, must_encrypt)?))
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

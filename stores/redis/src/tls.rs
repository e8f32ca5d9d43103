//! TLS of the connections that the provider opens itself.

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub(crate) use built_in::Tls;
#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
pub(crate) use left_out::Tls;

/// The crate whose features bring TLS.
pub(crate) const CRATE: &str = "shedlock-redis";

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod built_in {
    use redis::cluster::ClusterClientBuilder;
    use redis::sentinel::SentinelClientBuilder;
    use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates, TlsMode};
    use shedlock_provider::{Result, TlsFiles, TlsOptions};

    /// How servers are verified, and with which certificates.
    pub(crate) struct Tls {
        mode: TlsMode,
        certificates: TlsCertificates,
    }

    impl Tls {
        pub(crate) fn read(mode: TlsMode, options: &TlsOptions) -> Result<Self> {
            let TlsFiles { ca, identity } = options.read()?;
            let certificates = TlsCertificates {
                client_tls: identity.map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
                root_cert: ca,
            };
            Ok(Self { mode, certificates })
        }

        pub(crate) fn client(self, info: ConnectionInfo) -> RedisResult<Client> {
            Client::build_with_tls(info, self.certificates)
        }

        pub(crate) fn of_cluster(self, builder: ClusterClientBuilder) -> ClusterClientBuilder {
            builder.tls(self.mode).certs(self.certificates)
        }

        pub(crate) fn of_sentinels(self, builder: SentinelClientBuilder) -> SentinelClientBuilder {
            builder
                .set_client_to_redis_tls_mode(self.mode)
                .set_client_to_redis_certificates(self.certificates.clone())
                .set_client_to_sentinel_certificates(self.certificates)
        }
    }
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
mod left_out {
    use redis::cluster::ClusterClientBuilder;
    use redis::sentinel::SentinelClientBuilder;
    use redis::{Client, ConnectionInfo, RedisResult, TlsMode};
    use shedlock_provider::{Result, TlsOptions, built_without_tls};

    use super::CRATE;

    /// There is none.
    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn read(_: TlsMode, _: &TlsOptions) -> Result<Self> {
            Err(built_without_tls(CRATE))
        }

        pub(crate) fn client(self, _: ConnectionInfo) -> RedisResult<Client> {
            match self {}
        }

        pub(crate) fn of_cluster(self, _: ClusterClientBuilder) -> ClusterClientBuilder {
            match self {}
        }

        pub(crate) fn of_sentinels(self, _: SentinelClientBuilder) -> SentinelClientBuilder {
            match self {}
        }
    }
}

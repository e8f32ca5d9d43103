//! The provider over PostgreSQL with tokio-postgres.

use std::time::Duration;

use shedlock_provider::{Result, StoreProvider, TlsFiles, invalid, read_file};
use shedlock_sql::SqlStore;
use shedlock_sql::driver::postgres::{system_authorities, take};
use shedlock_sql::driver::{Address, Remote, refused_option};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::session::{Connect, TokioPostgres};
use crate::tls;

/// Stores locks in a table of PostgreSQL through tokio-postgres. Statements, guarantees and tables are those of the
/// provider over sqlx, without the dependency on sqlx.
///
/// `builder` takes a pool of deadpool or bb8 as it is, with the feature `deadpool` or `bb8`, and any other pool through the
/// 15 lines of a [`ClientSource`](crate::ClientSource). Each statement
/// is then one round trip that leaves nothing in the session, so it also works through PgBouncer in transaction pooling.
///
/// # The URL
///
/// `postgres://user:password@host:5432/database?table=…`, with the options of the provider over sqlx. The driver's own
/// options are those of [`tokio_postgres::Config`] except `connect_timeout`, which this crate defines.
/// `sslmode=prefer` (the default) encrypts if the server offers it, and verifies the server only if `sslrootcert` is set.
/// `require`, `verify-ca` and `verify-full` all verify the server's certificate, including its host name, against
/// `sslrootcert` or the system's authorities; over sqlx and libpq, `require` verifies nothing. `sslcert` and
/// `sslkey` are the client's own. Without the features `tls-ring` and `tls-aws-lc`, `prefer` connects without TLS, and
/// the modes that require it are refused. Other options of libpq are accepted if they change nothing here.
pub type TokioPostgresProvider = StoreProvider<SqlStore<TokioPostgres>>;

impl Remote for TokioPostgres {
    fn read(address: &mut Address) -> Result<Connect> {
        address.take_durable_unlock()?;
        let options = &mut address.options;
        let modes = [
            ("disable", SslMode::Disable),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::Require),
            ("verify-full", SslMode::Require),
        ];
        // Without a file, these are the authorities that the driver trusts.
        let is_verified = system_authorities(options)?;
        let file = |name, path: Option<String>| path.map(|path| read_file(name, &path)).transpose();
        let mode = match options.choice("sslmode", &modes)? {
            None if is_verified => Some(SslMode::Require),
            mode => mode,
        };
        let ca = file("sslrootcert", options.text("sslrootcert")?)?;
        let certificate = file("sslcert", options.text("sslcert")?)?;
        let key = file("sslkey", options.text("sslkey")?)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(invalid(
                    "options \"sslcert\" and \"sslkey\" in the URL must be set together",
                ));
            }
        };
        let program = take(&mut address.options, DRIVER_OPTIONS)?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        // The driver would treat any other text as a list of settings.
        if !["postgres", "postgresql"].contains(&url.scheme()) {
            return Err(invalid("not a PostgreSQL URL")
                .advise("write postgres://user:password@host/database"));
        }
        let config = url.as_str().parse::<Config>();
        let mut config = config
            .map_err(|error| refused_option(error, "sslmode", "disable, prefer or require"))?;
        config
            .ssl_mode(mode.unwrap_or(SslMode::Prefer))
            .connect_timeout(address.connect_timeout.max(Duration::from_millis(1)));
        if let Some(program) = program.filter(|_| config.get_application_name().is_none()) {
            config.application_name(program);
        }
        let files = TlsFiles { ca, identity };
        let must_encrypt = config.get_ssl_mode() == SslMode::Require;
        let tls = tls::connector(&files, must_encrypt)?;
        Ok(Connect { config, tls })
    }
}

/// The options that tokio-postgres reads from a URL.
const DRIVER_OPTIONS: &str = "user password passfile dbname options application_name sslnegotiation host hostaddr port \
     tcp_user_timeout keepalives keepalives_idle keepalives_interval keepalives_retries \
     target_session_attrs channel_binding load_balance_hosts";

//! The provider over PostgreSQL.

use std::path::PathBuf;

use shedlock_provider::{Result, StoreProvider, invalid, maybe, require_crypto_choice};
use shedlock_sql::SqlStore;
use shedlock_sql::driver::{
    Address, Class, Dialect, Driver, Remote, Reports, Server, postgres, refused_option,
};
use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::{client, execution};

/// Stores locks in a table of PostgreSQL, shared with ShedLock's JDBC providers.
///
/// Clones share all state. Construction over a pool is cheap: nothing is sent to the server before the first use.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock::Error> {
/// use shedlock_sqlx::PostgresProvider;
///
/// // Your own pool, and another table:
/// let provider = PostgresProvider::builder(pool).table("jobs.shedlock").build()?;
///
/// // Connections that the provider opens itself, to the server or to PgBouncer in front of it:
/// let url = "postgres://app:secret@pgbouncer:6432/app";
/// let provider = PostgresProvider::connect(url).await?;
/// # Ok(()) }
/// ```
///
/// `timestamp` columns contain UTC wall-clock time, as in ShedLock's db-time mode, and `timestamptz` columns contain
/// instants. The session's time zone affects neither. ShedLock itself writes `timestamptz` columns correctly only from
/// sessions in UTC.
///
/// If another transaction has locked the record, an attempt waits for it, at most until `lock_timeout` expires. The
/// provider's own connections set `lock_timeout` to 5 s unless you configure another value. For a pool, you set it.
///
/// Acquisitions, extensions and the mark of a slot that must not be lost return only after they are on the server's
/// disk, even in sessions whose `synchronous_commit` is off: the statement raises it to `local` for its own transaction
/// and leaves the session unchanged. If the session also waits for standbys, that remains so.
///
/// # The URL
///
/// `connect` opens its own connections, each when it is first needed.
///
/// `postgres://user:password@host:5432/database?table=…`: in addition to the driver's options (`sslmode`,
/// `sslrootcert`, `application_name`, …) the URL accepts `table`, `schema`, `name_column`, `lock_until_column`,
/// `locked_at_column`, `locked_by_column`, `time` (`store` or `client`), `lock_at_most_for`, `lock_at_least_for`,
/// `owner_prefix`, `max_connections` (4), `connect_timeout` (10s), `timeout` (10s), `prepared` (detected),
/// `durable_unlock` (false) and `server_skew` (0s). The methods of [`Builder`](shedlock_sql::Builder) describe them.
///
/// Options of libpq that the driver does not have are accepted if they change nothing here: `keepalives…`,
/// `tcp_user_timeout`, `gssencmode=prefer`, `channel_binding=prefer`, `target_session_attrs=read-write` and the like.
/// Those that it cannot satisfy are refused, and so are several hosts. `connect_timeout=10` is in seconds, as in libpq.
/// `sslrootcert=system` verifies the server against the authorities that are built into the driver.
pub type PostgresProvider = StoreProvider<SqlStore<Postgres>>;

/// PostgreSQL over sqlx.
#[derive(Debug)]
pub enum Postgres {}

impl Remote for Postgres {
    fn read(address: &mut Address) -> Result<PgConnectOptions> {
        address.take_durable_unlock()?;
        let program = postgres::take(&mut address.options, DRIVER_OPTIONS)?;
        let is_verified = postgres::system_authorities(&mut address.options)?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        check_variable(&url)?;
        let connect = PgConnectOptions::from_url(&url);
        let mut connect = connect.map_err(|error| refused_option(error, "sslmode", SSL_MODES))?;
        if is_verified {
            connect = connect.ssl_mode(PgSslMode::VerifyFull);
        }
        if connect.get_application_name().is_none() {
            connect = maybe(connect, program, |connect, name| {
                connect.application_name(&name)
            });
        }
        if matches!(connect.get_ssl_mode(), PgSslMode::VerifyCa) {
            // This mode alone does not use the library that sqlx was built with.
            require_crypto_choice(client::CRATE)?;
        }
        let host = execution::without_brackets(connect.get_host());
        let connect = maybe(connect, host, |connect, host| connect.host(&host));
        let connect = connect.disable_statement_logging();
        // No statement returns a floating-point number, and PgBouncer rejects this parameter.
        Ok(connect.extra_float_digits(None))
    }
}

impl Server for Postgres {}

impl Reports for Postgres {
    fn options(pool: &Self::Pool) -> Self::Options {
        pool.connect_options().as_ref().clone()
    }
}

impl postgres::Postgres for Postgres {}

/// Refuses a value of PGSSLMODE that sqlx would ignore: a typing error would turn verification off.
fn check_variable(url: &Url) -> Result<()> {
    let mut options = url.query_pairs();
    let Ok(mode) = std::env::var("PGSSLMODE") else {
        return Ok(());
    };
    if options.any(|(name, _)| matches!(&*name, "sslmode" | "ssl-mode"))
        || mode.parse::<PgSslMode>().is_ok()
    {
        return Ok(());
    }
    Err(invalid(format!(
        "unknown value {mode:?} for the environment variable PGSSLMODE"
    ))
    .advise(format!("use {SSL_MODES}")))
}

const SSL_MODES: &str = "disable, allow, prefer, require, verify-ca or verify-full";

/// The options that sqlx reads from a URL of PostgreSQL.
const DRIVER_OPTIONS: &str = "sslmode ssl-mode sslrootcert ssl-root-cert ssl-ca sslcert ssl-cert sslkey ssl-key \
     statement-cache-capacity host hostaddr port dbname user password application_name \
     options options[";

impl Driver for Postgres {
    const STORE: &'static str = "postgres";

    const DIALECT: &'static Dialect = &postgres::POSTGRES;

    fn address(options: &PgConnectOptions) -> Option<String> {
        let socket = options.get_socket().map(PathBuf::as_path);
        let (host, port) = (options.get_host(), options.get_port());
        execution::address(host, port, socket, options.get_database())
    }

    fn unverified(options: &PgConnectOptions) -> Option<String> {
        let (host, is_socket) = (options.get_host(), options.get_socket().is_some());
        let mode = match options.get_ssl_mode() {
            PgSslMode::VerifyCa | PgSslMode::VerifyFull => return None,
            mode => format!("sslmode={}", format!("{mode:?}").to_lowercase()),
        };
        let remedy = "sslmode=verify-full, with sslrootcert";
        execution::unverified(host, is_socket, &mode, remedy)
    }

    fn marked(options: &PgConnectOptions, mark: &str) -> Option<(PgConnectOptions, String)> {
        let marked = options.clone().options([(postgres::MARK, mark)]);
        Some((marked, postgres::session_init(mark)))
    }

    fn options_of(pool: &Self::Pool) -> Option<Self::Options> {
        Some(Self::options(pool))
    }

    execution::execution!(sqlx::Postgres, |_| None);
}

fn classify(error: &dyn DatabaseError) -> Class {
    let code = error.code().unwrap_or_default();
    postgres::classify(&code, error.message(), error.constraint())
}

fn at_login(error: &dyn DatabaseError) -> Option<Class> {
    postgres::at_login(&error.code().unwrap_or_default(), error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_trusted_is_not_tried_again() {
        let cause = "invalid peer certificate: UnknownIssuer";
        let error = sqlx::Error::Io(std::io::Error::other(cause));
        let failure = execution::connecting(error, classify, at_login);
        assert_eq!(failure.class, Class::Untrusted);
    }

    /// The driver looks up the text with its brackets as a host name.
    #[test]
    fn an_ipv6_address_in_a_url_is_not_looked_up_as_a_name() {
        let mut address = Address::parse("postgres://[::1]:1/app").unwrap();
        let options = Postgres::read(&mut address).unwrap();
        assert_eq!(options.get_host(), "::1");
        let shown = Postgres::address(&options);
        assert_eq!(shown.as_deref(), Some("[::1]:1/app"));
    }
}

//! The provider over PostgreSQL.

use std::path::PathBuf;

use shedlock_provider::{Result, StoreProvider, invalid, maybe, require_crypto_choice};
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Postgres};
use url::Url;

use crate::call::SqlStore;
use crate::dialect::Dialect;
use crate::dialect::postgres::{self, POSTGRES};
use crate::driver::{Driver, sqlx as by_sqlx};
use crate::failure::Class;
use crate::libpq;
use crate::url::{Address, Remote, refused_by_driver, set};

/// Stores locks in a table of PostgreSQL, shared with ShedLock's JDBC providers.
///
/// Clones share all state. Construction over a pool is cheap: nothing is sent to the server before the first use.
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), shedlock::Error> {
/// use shedlock::PostgresProvider;
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
/// `durable_unlock` (false) and `server_skew` (0s). The methods of [`Builder`](crate::Builder) describe them.
///
/// Options of libpq that the driver does not have are accepted if they change nothing here: `keepalives…`,
/// `tcp_user_timeout`, `gssencmode=prefer`, `channel_binding=prefer`, `target_session_attrs=read-write` and the like.
/// Those that it cannot satisfy are refused, and so are several hosts. `connect_timeout=10` is in seconds, as in libpq.
/// `sslrootcert=system` verifies the server against the authorities that are built into the driver.
pub type PostgresProvider = StoreProvider<SqlStore<Postgres>>;

impl Remote for Postgres {
    fn read(address: &mut Address) -> Result<PgConnectOptions> {
        let durable = address.options.flag("durable_unlock")?;
        set(&mut address.settings.durable_unlock, durable);
        let program = libpq::take(&mut address.options, DRIVER_OPTIONS)?;
        let is_verified = libpq::system_authorities(&mut address.options)?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        check_variable(&url)?;
        let connect = PgConnectOptions::from_url(&url);
        let mut connect =
            connect.map_err(|error| refused_by_driver(error, "sslmode", SSL_MODES))?;
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
            require_crypto_choice()?;
        }
        let host = by_sqlx::without_brackets(connect.get_host());
        let connect = maybe(connect, host, |connect, host| connect.host(&host));
        let connect = connect.disable_statement_logging();
        // No statement returns a floating-point number, and PgBouncer rejects this parameter.
        Ok(connect.extra_float_digits(None))
    }
}

impl crate::url::Postgres for Postgres {}

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

    const DIALECT: &'static Dialect = &POSTGRES;

    fn address(options: &PgConnectOptions) -> Option<String> {
        let socket = options.get_socket().map(PathBuf::as_path);
        let (host, port) = (options.get_host(), options.get_port());
        by_sqlx::address(host, port, socket, options.get_database())
    }

    fn unverified(options: &PgConnectOptions) -> Option<String> {
        let (host, is_socket) = (options.get_host(), options.get_socket().is_some());
        let mode = match options.get_ssl_mode() {
            PgSslMode::VerifyCa | PgSslMode::VerifyFull => return None,
            mode => format!("sslmode={}", format!("{mode:?}").to_lowercase()),
        };
        let remedy = "sslmode=verify-full, with sslrootcert";
        by_sqlx::unverified(host, is_socket, &mode, remedy)
    }

    fn marked(options: &PgConnectOptions, mark: &str) -> Option<(PgConnectOptions, String)> {
        let marked = options.clone().options([(postgres::MARK, mark)]);
        Some((marked, postgres::session_init(mark)))
    }

    fn options_of(pool: &Self::Pool) -> Option<Self::Options> {
        Some(pool.connect_options().as_ref().clone())
    }

    by_sqlx::execution!(Postgres, |_| None);
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
    use std::borrow::Cow;
    use std::error::Error as StdError;
    use std::fmt;

    use sqlx::error::{DatabaseError, ErrorKind};

    use crate::failure::{Failure, Refusal};
    use crate::options::Settings;

    use super::*;

    /// An error that a server returns.
    #[derive(Debug)]
    struct Told(&'static str, &'static str);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.1)
        }
    }

    impl StdError for Told {}

    impl DatabaseError for Told {
        fn message(&self) -> &str {
            self.1
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn failed(code: &'static str, message: &'static str) -> Failure {
        let told = sqlx::Error::Database(Box::new(Told(code, message)));
        by_sqlx::connecting(told, classify, at_login)
    }

    fn connecting(code: &'static str, message: &'static str) -> Class {
        failed(code, message).class
    }

    /// Another copy of a claim may only follow a reply that proves that nothing was executed.
    #[test]
    fn a_server_that_failed_midway_may_have_executed_the_statement() {
        let class = |code| postgres::classify(code, "", None);
        for code in ["40003", "57P04", "58030", "XX000", "XX001", "F0000"] {
            assert_eq!(class(code), Class::Failed, "{code}");
        }
        for code in ["08000", "08003", "08006", "57P01", "57P02", "57P05"] {
            assert_eq!(class(code), Class::ReplyLost, "{code}");
        }
        for code in ["40001", "40P01"] {
            assert_eq!(class(code), Class::Contention, "{code}");
        }
        for code in ["55P03", "57014"] {
            assert_eq!(class(code), Class::Waited, "{code}");
        }
        for code in ["26000", "42P05"] {
            assert_eq!(class(code), Class::Prepared, "{code}");
        }
    }

    #[test]
    fn a_server_that_ends_during_login_is_tried_again() {
        // Shut down, crashed, dropped while idle, starting.
        for code in ["57P01", "57P02", "57P05", "57P03"] {
            assert_eq!(connecting(code, ""), Class::Unready, "{code}");
        }
        assert_eq!(connecting("53300", "too many clients"), Class::NotSent);
        let options = Postgres::DIALECT.options(Settings::default()).unwrap();
        let failure = failed("57P03", "the database system is starting up");
        let error = failure.explained(Postgres::DIALECT, &options, false);
        assert!(error.is_retryable());
        let says = "cannot connect: the database system is starting up; nothing was written; check \
                    that the server accepts connections (and so does the connection pooler in front \
                    of it, if there is one), then retry";
        assert_eq!(format!("{error:#}"), says);
    }

    #[test]
    fn a_rejected_connection_is_not_tried_again() {
        let rule =
            "no pg_hba.conf entry for host \"::1\", user \"a\", database \"b\", no encryption";
        for (code, message, refusal) in [
            ("28000", "role \"a\" does not exist", Refusal::Login),
            ("28P01", "password authentication failed", Refusal::Login),
            ("28000", rule, Refusal::Other),
            (
                "28000",
                "connection requires a valid client certificate",
                Refusal::Certificate,
            ),
            ("3D000", "database \"b\" does not exist", Refusal::Database),
            ("42501", "permission denied for database", Refusal::Access),
            ("XX000", "Tenant or user not found", Refusal::Other),
        ] {
            let class = connecting(code, message);
            assert_eq!(class, Class::Refused(refusal), "{message}");
        }
    }

    /// PgBouncer has one code for everything.
    #[test]
    fn the_errors_of_a_pooler_are_distinguished_by_their_text() {
        for (message, refusal) in [
            ("\"trust\" authentication failed", Refusal::Login),
            ("password authentication failed", Refusal::Login),
            ("SASL authentication failed", Refusal::Login),
            ("no such user: a", Refusal::Login),
            ("role \"a\" does not exist", Refusal::Login),
            ("no such database: b", Refusal::Database),
            ("database \"b\" does not exist", Refusal::Database),
            ("login rejected", Refusal::Other),
        ] {
            let class = connecting("08P01", message);
            assert_eq!(class, Class::Refused(refusal), "{message}");
        }
        for message in [
            "no more connections allowed (max_client_conn)",
            "query_wait_timeout",
        ] {
            assert_eq!(connecting("08P01", message), Class::NotSent, "{message}");
        }
        for message in [
            "server login has been failing, try again later (server_login_retry)",
            "client_login_timeout (server down)",
            "pgbouncer cannot connect to server",
            "database \"b\" is disabled",
            "the database system is starting up",
        ] {
            assert_eq!(connecting("08P01", message), Class::Unready, "{message}");
        }
        let parameter = "unsupported startup parameter: extra_float_digits";
        assert_eq!(connecting("08P01", parameter), Class::Startup);
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_not_tried_again() {
        for (cause, says) in [
            (
                "UnknownIssuer",
                "was issued by an authority that is not trusted; set sslrootcert in the URL to the \
                 file of the authority that issued the server's certificate",
            ),
            (
                "Other(OtherError(CaUsedAsEndEntity))",
                "is a CA certificate (CA:TRUE), which cannot identify a server; issue a server \
                 certificate, and set sslrootcert in the URL to the file of its issuer",
            ),
        ] {
            let cause = format!("invalid peer certificate: {cause}");
            let error = sqlx::Error::Io(std::io::Error::other(cause));
            let failure = by_sqlx::connecting(error, classify, at_login);
            assert_eq!(failure.class, Class::Untrusted);
            let options = Postgres::DIALECT.options(Settings::default()).unwrap();
            let error = failure.explained(Postgres::DIALECT, &options, false);
            assert!(!error.is_retryable());
            let start = "the TLS connection failed: the server's certificate ";
            assert_eq!(format!("{error:#}"), format!("{start}{says}"));
        }
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

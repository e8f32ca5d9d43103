// A copy of stores/sqlx/src/mysql.rs, made by `cargo xtask sqlx08 --update`.
//! The provider over MySQL and MariaDB.

use std::path::PathBuf;

use shedlock_provider::{Result, StoreProvider, UrlOptions, invalid, maybe, require_crypto_choice};
use shedlock_sql::SqlStore;
use shedlock_sql::driver::{
    Address, Class, Dialect, Driver, Remote, Reports, Server, mysql, refused_option,
};
use sqlx::ConnectOptions as _;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlQueryResult, MySqlSslMode};

use crate::{client, execution};

/// Stores locks in a table of MySQL (5.7 or later) or MariaDB (10.2 or later), shared with ShedLock's JDBC providers.
///
/// Clones share all state. Construction is cheap: nothing is sent to the server before the first use.
///
/// # Time zones
///
/// ShedLock's `TIMESTAMP` columns are written and read through the session's time zone. Here every statement runs in
/// UTC, whatever the session's zone is, so that Rust services need no common setting. If Java's sessions run in another
/// zone, name it with [`shared_session_zone`](shedlock_sql::Builder::shared_session_zone). Until you do, a warning is logged if the
/// server starts its sessions in a zone other than UTC.
///
/// MySQL before 8.0.17 cannot run a single statement in another zone. There, a session in the wrong zone is refused
/// with a `Configuration` error. sqlx's own sessions are in UTC unless configured otherwise.
///
/// # The URL
///
/// `connect` opens its own connections, each when it is first needed.
///
/// `mysql://user:password@host:3306/database?table=…` (or `mariadb://`): in addition to the driver's options
/// (`ssl-mode`, also spelled `ssl_mode`, `sslmode` or `ssl=true`; `ssl-ca`, `charset`, `socket`, …) the URL accepts
/// `table`, `schema`, `name_column`, `lock_until_column`, `locked_at_column`, `locked_by_column`, `time` (`store` or `client`), `lock_at_most_for`,
/// `lock_at_least_for`, `owner_prefix`, `max_connections` (4), `connect_timeout` (10s), `timeout` (10s), `prepared`
/// (true), `shared_session_zone` and `server_skew` (0s). The methods of [`Builder`](shedlock_sql::Builder) describe them.
pub type MySqlProvider = StoreProvider<SqlStore<MySql>>;

/// MySQL and MariaDB over sqlx.
#[derive(Debug)]
pub enum MySql {}

impl Server for MySql {}

impl Reports for MySql {
    fn options(pool: &Self::Pool) -> Self::Options {
        pool.connect_options().as_ref().clone()
    }
}

impl mysql::MySql for MySql {}

impl Remote for MySql {
    fn read(address: &mut Address) -> Result<MySqlConnectOptions> {
        // Sessions have it for servers on which a statement cannot choose its zone.
        let zone = address.take_session_zone()?;
        let mode = ssl_mode(&mut address.options)?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        let connect = MySqlConnectOptions::from_url(&url);
        let connect = connect.map_err(|error| refused_option(error, "ssl-mode", SSL_MODES))?;
        let connect = maybe(connect, mode, MySqlConnectOptions::ssl_mode);
        if matches!(connect.get_ssl_mode(), MySqlSslMode::VerifyCa) {
            // This mode alone does not use the library that sqlx was built with.
            require_crypto_choice(client::CRATE)?;
        }
        if connect.get_database().is_none() && !address.names_schema() {
            return Err(
                invalid("the store's URL names no database").advise("write mysql://host/database")
            );
        }
        let host = execution::without_brackets(connect.get_host());
        let connect = maybe(connect, host, |connect, host| connect.host(&host));
        Ok(connect.timezone(Some(zone)).disable_statement_logging())
    }
}

/// The names of `ssl-mode` in URLs: of the server's own clients, of other drivers, and short ones.
const SSL_MODE: [&str; 5] = ["ssl-mode", "sslmode", "ssl_mode", "sslMode", "ssl"];

/// What other drivers call it, with values that do not say how the certificate is verified.
const NOT_SSL_MODE: &str = "tls useSSL requireSSL verifyServerCertificate ssl-verify-server-cert";

/// Takes the mode of TLS, in the words of MySQL, of libpq, or as a flag.
fn ssl_mode(options: &mut UrlOptions) -> Result<Option<MySqlSslMode>> {
    for name in NOT_SSL_MODE.split(' ') {
        if options.clone().text(name)?.is_some() {
            return Err(invalid(format!(
                "option {name:?} in the URL is not an option of this driver"
            ))
            .advise("use ssl-mode=REQUIRED, or ssl-mode=VERIFY_IDENTITY with ssl-ca"));
        }
    }
    let mut chosen = None;
    for name in SSL_MODE {
        // A copy, so that messages list one name only.
        let Some(value) = options.clone().text(name)? else {
            continue;
        };
        options.text(name)?;
        if let Some((other, _)) = chosen {
            return Err(invalid(format!(
                "options {other:?} and {name:?} in the URL are the same"
            ))
            .advise("remove one"));
        }
        let mode = match &*value.to_ascii_lowercase().replace('-', "_") {
            "disabled" | "disable" | "false" | "0" => MySqlSslMode::Disabled,
            "preferred" | "prefer" => MySqlSslMode::Preferred,
            "required" | "require" | "true" | "1" => MySqlSslMode::Required,
            "verify_ca" => MySqlSslMode::VerifyCa,
            "verify_identity" | "verify_full" => MySqlSslMode::VerifyIdentity,
            _ => {
                let what = format!("unknown value {value:?} for ssl-mode in the URL");
                return Err(invalid(what).advise(format!("use {SSL_MODES}")));
            }
        };
        chosen = Some((name, mode));
    }
    Ok(chosen.map(|(_, mode)| mode))
}

const SSL_MODES: &str = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";

/// The options that sqlx reads from a URL of MySQL. The session's zone is not among them, because we choose it.
const DRIVER_OPTIONS: &str = "sslmode ssl-mode sslca ssl-ca sslcert ssl-cert sslkey ssl-key charset collation \
     statement-cache-capacity socket";

impl Driver for MySql {
    const STORE: &'static str = "mysql";

    const DIALECT: &'static Dialect = &mysql::MYSQL;

    fn address(options: &MySqlConnectOptions) -> Option<String> {
        let socket = options.get_socket().map(PathBuf::as_path);
        let (host, port) = (options.get_host(), options.get_port());
        execution::address(host, port, socket, options.get_database())
    }

    fn unverified(options: &MySqlConnectOptions) -> Option<String> {
        let (host, is_socket) = (options.get_host(), options.get_socket().is_some());
        let mode = match options.get_ssl_mode() {
            MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity => return None,
            mode => format!("ssl-mode={}", format!("{mode:?}").to_uppercase()),
        };
        let remedy = "ssl-mode=VERIFY_IDENTITY, with ssl-ca";
        execution::unverified(host, is_socket, &mode, remedy)
    }

    fn options_of(pool: &Self::Pool) -> Option<Self::Options> {
        Some(Self::options(pool))
    }

    execution::execution!(sqlx::MySql, last_insert_id);
}

fn classify(error: &dyn DatabaseError) -> Class {
    let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() else {
        return Class::Other;
    };
    mysql::classify(error.number(), error.message())
}

fn at_login(error: &dyn DatabaseError) -> Option<Class> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    mysql::at_login(error.number())
}

fn last_insert_id(result: &MySqlQueryResult) -> Option<u64> {
    mysql::token_in(result.last_insert_id())
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_a_database_or_the_schema_of_its_table() {
        let read = |url: &str| MySql::read(&mut Address::parse(url).unwrap()).map(drop);
        for url in ["mysql://h", "mysql://h/", "mysql://h?table=locks"] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            let says = "the store's URL names no database; write mysql://host/database";
            assert_eq!(error.to_string(), says, "{url}");
        }
        for url in [
            "mysql://h/d",
            "mysql://h?schema=d",
            "mysql://h/?table=d.locks",
        ] {
            read(url).unwrap();
        }
    }

    /// The driver looks up the text with its brackets as a host name.
    #[test]
    fn an_ipv6_address_in_a_url_is_not_looked_up_as_a_name() {
        let mut address = Address::parse("mysql://[::1]:1/app").unwrap();
        let options = MySql::read(&mut address).unwrap();
        assert_eq!(options.get_host(), "::1");
        let shown = MySql::address(&options);
        assert_eq!(shown.as_deref(), Some("[::1]:1/app"));
    }
}

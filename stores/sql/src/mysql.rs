//! The provider over MySQL and MariaDB.

use std::path::PathBuf;

use shedlock_provider::{Result, StoreProvider, UrlOptions, invalid, maybe, require_crypto_choice};
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlQueryResult, MySqlSslMode};
use sqlx::{ConnectOptions as _, MySql};

use crate::builder::Builder;
use crate::call::SqlStore;
use crate::dialect::Dialect;
use crate::dialect::mysql::{LARGEST, MYSQL};
use crate::driver::{Driver, sqlx as by_sqlx};
use crate::failure::{Class, Refusal};
use crate::options::TOKEN_COLUMN;
use crate::url::{Address, Remote, refused_by_driver};
use crate::zone;

/// Stores locks in a table of MySQL (5.7 or later) or MariaDB (10.2 or later), shared with ShedLock's JDBC providers.
///
/// Clones share all state. Construction is cheap: nothing is sent to the server before the first use.
///
/// # Time zones
///
/// ShedLock's `TIMESTAMP` columns are written and read through the session's time zone. Here every statement runs in
/// UTC, whatever the session's zone is, so that Rust services need no common setting. If Java's sessions run in another
/// zone, name it with [`shared_session_zone`](Builder::shared_session_zone). Until you do, a warning is logged if the
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
/// (true), `shared_session_zone` and `server_skew` (0s). The methods of [`Builder`] describe them.
pub type MySqlProvider = StoreProvider<SqlStore<MySql>>;

impl Remote for MySql {
    fn read(address: &mut Address) -> Result<MySqlConnectOptions> {
        // In a URL a plus sign stands for a space.
        let zone = address.options.text("shared_session_zone")?;
        let zone = zone.map(|zone| zone::parse(&zone.replace(' ', "+")));
        address.settings.shared_session_zone = zone.transpose()?;
        let mode = ssl_mode(&mut address.options)?;
        let url = address.for_driver(DRIVER_OPTIONS)?;
        let connect = MySqlConnectOptions::from_url(&url);
        let connect = connect.map_err(|error| refused_by_driver(error, "ssl-mode", SSL_MODES))?;
        let connect = maybe(connect, mode, MySqlConnectOptions::ssl_mode);
        if matches!(connect.get_ssl_mode(), MySqlSslMode::VerifyCa) {
            // This mode alone does not use the library that sqlx was built with.
            require_crypto_choice()?;
        }
        if connect.get_database().is_none() && !address.settings.names_schema() {
            return Err(
                invalid("the store's URL names no database").advise("write mysql://host/database")
            );
        }
        let host = by_sqlx::without_brackets(connect.get_host());
        let connect = maybe(connect, host, |connect, host| connect.host(&host));
        // For servers on which a statement cannot choose its zone.
        let zone = address.settings.zone().to_owned();
        Ok(connect.timezone(Some(zone)).disable_statement_logging())
    }
}

impl Builder<MySql> {
    shedlock_provider::setters! { [settings]
        /// Sets the time zone of the sessions in which Java's ShedLock uses the same table: `+05:30`, `SYSTEM` (the
        /// server's own), or a name defined on the server (`Asia/Kolkata`).
        ///
        /// ShedLock's db-time writes UTC wall-clock time into `TIMESTAMP` columns, and the server interprets it as
        /// wall-clock time of Java's session. Unless that session is in UTC, the instants in the table are off by its
        /// offset. If you name the zone here, they are written and read in the same way, and
        /// [`inspect`](shedlock_core::LockProvider::inspect) still returns the right instants. All Rust services on the
        /// table must name the same zone. `DATETIME` columns do not need this setting. (Java's client-time in the zone
        /// of its JVM, on sessions of that same zone, writes correct instants: in that case, name `+00:00`.)
        ///
        /// A zone with daylight saving time has a cost, for Java too: in the hour that is skipped in spring,
        /// acquisitions fail with an `InvalidInput` error about a time out of range. Use a fixed offset for such
        /// sessions if you can.
        ///
        /// Unless this is set, UTC is used, and a warning is logged if the server starts its sessions in another zone.
        /// Setting `+00:00` confirms UTC and disables the warning.
        shared_session_zone(zone: impl Into<String>) = Some(zone.into());
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

/// September 2001 in microseconds. Every fencing token is larger, because tokens start from the server's time. Numbers
/// of an AUTO_INCREMENT column, which an insert reports in the same place, are always smaller.
const NO_TOKEN_BELOW: u64 = 1_000_000_000_000_000;

impl Driver for MySql {
    const STORE: &'static str = "mysql";

    const DIALECT: &'static Dialect = &MYSQL;

    fn address(options: &MySqlConnectOptions) -> Option<String> {
        let socket = options.get_socket().map(PathBuf::as_path);
        let (host, port) = (options.get_host(), options.get_port());
        by_sqlx::address(host, port, socket, options.get_database())
    }

    fn unverified(options: &MySqlConnectOptions) -> Option<String> {
        let (host, is_socket) = (options.get_host(), options.get_socket().is_some());
        let mode = match options.get_ssl_mode() {
            MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity => return None,
            mode => format!("ssl-mode={}", format!("{mode:?}").to_uppercase()),
        };
        let remedy = "ssl-mode=VERIFY_IDENTITY, with ssl-ca";
        by_sqlx::unverified(host, is_socket, &mode, remedy)
    }

    fn options_of(pool: &Self::Pool) -> Option<Self::Options> {
        Some(pool.connect_options().as_ref().clone())
    }

    by_sqlx::execution!(MySql, last_insert_id);
}

fn classify(error: &dyn DatabaseError) -> Class {
    let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() else {
        return Class::Other;
    };
    of_number(error.number(), error.message())
}

fn at_login(error: &dyn DatabaseError) -> Option<Class> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    of_number_at_login(error.number())
}

fn last_insert_id(result: &MySqlQueryResult) -> Option<u64> {
    Some(result.last_insert_id()).filter(|id| *id >= NO_TOKEN_BELOW)
}

/// Classifies the servers' error numbers. MySQL and MariaDB share most of them; above 1900 they rarely agree.
fn of_number(number: u16, message: &str) -> Class {
    match number {
        // Unknown table, column or database; a statement prepared for a table that has changed since.
        1146 | 1054 | 1049 | 1109 | 1412 | 1615 => Class::Shape,
        1050 | 1060 => Class::Exists,
        // Deadlock (on Galera also a conflict with another node); changed since the snapshot; conflict with another
        // group member. All were rolled back.
        1213 | 1020 | 3101 => Class::Contention,
        // The commit failed after the cluster or the binary log had received it, or the group's hook failed: the other
        // members may have it nevertheless.
        1180 | 3100 => Class::ReplyLost,
        1205 => Class::Waited,
        1062 | 1022 | 1169 | 1586 => Class::Duplicate,
        // Column without a value, foreign keys, checks (MySQL and MariaDB).
        1048 | 1364 | 1216 | 1452 | 3819 => Class::Constraint(None),
        4025 if message.contains("CONSTRAINT") => Class::Constraint(None),
        // Read-only: the server (which uses 1290 for other refusals too), InnoDB, the session's transactions, the
        // table.
        1836 | 1792 | 1036 => Class::ReadOnly,
        1290 if message.contains("read-only") || message.contains("read_only") => Class::ReadOnly,
        // Too many connections, in total or of this user; resources of the user or of the server exhausted.
        1040 | 1203 | 1226 | 1135 | 1021 | 1037 | 1038 | 1041 | 1114 | 3168 => Class::Busy,
        // Not in the Galera cluster; a statement that reads took too long.
        1047 | 3024 => Class::Busy,
        // Shutting down; interrupted or timed out, possibly while it committed; errors of the storage engine or of a
        // file, or without a name.
        1053 | 1317 | 1969 | 1026 | 1030 | 1105 => Class::Failed,
        // No such prepared statement.
        1243 => Class::Prepared,
        // A transaction was left open, or one of XA.
        1568 | 1399 => Class::Inside,
        // The session was ended (idle, killed).
        4031 | 1927 | 1152 | 1184 | 1158..=1161 => Class::ReplyLost,
        1142 | 1143 | 1044 | 1045 | 1227 | 1370 | 1698 => Class::Privilege,
        1406 => Class::TooLong,
        1264 | 1292 | 1441 => Class::OutOfRange,
        // Characters that the column's character set does not have.
        1267 | 1300 | 1366 | 1977 | 3854 | 3988 => Class::Alphabet,
        1690 if message.contains(LARGEST) => Class::Session,
        // MySQL reports it only through the guard.
        1298 => Class::NoZone,
        // A fencing token that cannot grow.
        1690 if message.contains(TOKEN_COLUMN) => Class::Foreign,
        _ => Class::Other,
    }
}

/// What an error number means while a connection is opened, if that differs from its meaning for a statement.
fn of_number_at_login(number: u16) -> Option<Class> {
    Some(Class::Refused(match number {
        // Too many connections, in total or of this user.
        1040 | 1203 | 1226 => return Some(Class::NotSent),
        // Shutting down.
        1053 => return Some(Class::Unready),
        1049 => Refusal::Database,
        1044 => Refusal::Access,
        1045 | 1698 => Refusal::Login,
        // Too many connection errors of this host; too many wrong passwords of this user (MariaDB; MySQL).
        1129 | 4150 | 3955 => Refusal::Blocked,
        // The server requires TLS.
        3159 => Refusal::Tls,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn ambiguous_numbers_are_distinguished_by_their_message() {
        let read_only = "The MariaDB server is running with the --read-only option";
        assert_eq!(of_number(1290, read_only), Class::ReadOnly);
        let other = "The MySQL server is running with the --secure-file-priv option";
        assert_eq!(of_number(1290, other), Class::Other);
        let guard = "BIGINT UNSIGNED value is out of range in '(18446744073709551615 + …)'";
        assert_eq!(of_number(1690, guard), Class::Session);
        let token = "BIGINT value is out of range in '(`shedlock_fencing_token` + 1)'";
        assert_eq!(of_number(1690, token), Class::Foreign);
        let other = "BIGINT value is out of range in '(9223372036854775807 + `n`.`now`)'";
        assert_eq!(of_number(1690, other), Class::Other);
    }

    #[test]
    fn a_commit_that_lost_against_another_server_wrote_nothing_and_one_that_failed_may_have() {
        for lost in [1213, 3101] {
            assert_eq!(of_number(lost, ""), Class::Contention, "{lost}");
        }
        for failed in [1053, 1317, 1969] {
            assert_eq!(of_number(failed, ""), Class::Failed, "{failed}");
        }
        for failed in [1180, 3100] {
            assert_eq!(of_number(failed, ""), Class::ReplyLost, "{failed}");
        }
        assert_eq!(
            of_number(1047, "WSREP has not yet prepared node"),
            Class::Busy
        );
    }

    #[test]
    fn a_rejected_connection_is_not_tried_again_unless_there_are_too_many() {
        for (number, refusal) in [
            (1049, Refusal::Database),
            (1044, Refusal::Access),
            (1045, Refusal::Login),
            (1698, Refusal::Login),
            (1129, Refusal::Blocked),
            (3955, Refusal::Blocked),
            (4150, Refusal::Blocked),
            (3159, Refusal::Tls),
        ] {
            let class = of_number_at_login(number);
            assert_eq!(class, Some(Class::Refused(refusal)), "{number}");
        }
        for number in [1040, 1203, 1226] {
            assert_eq!(of_number_at_login(number), Some(Class::NotSent), "{number}");
        }
        assert_eq!(of_number_at_login(1053), Some(Class::Unready));
    }

    #[test]
    fn literals_need_no_escaping() {
        assert_eq!(
            (MySql::DIALECT.quote)("it's \\"),
            "_utf8mb4 X'69742773205C'"
        );
        assert_eq!((MySql::DIALECT.quote)(""), "_utf8mb4 X''");
    }

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

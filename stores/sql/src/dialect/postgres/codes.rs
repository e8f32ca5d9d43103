//! What the server's error codes mean, and those of poolers in front of it.

use super::TOO_LATE;
use crate::failure::{Class, Refusal};

/// Classifies the server's error codes.
#[must_use]
pub fn classify(code: &str, message: &str, constraint: Option<&str>) -> Class {
    match code {
        // A connection pooler passes on few parameters, or none: PgBouncer, RDS Proxy.
        "08P01" if message.contains("startup parameter") => Class::Startup,
        "0A000" if message.contains("command-line options") => Class::Startup,
        // Undefined table, column, schema; wrong type; a prepared plan that no longer fits.
        "42P01" | "42703" | "3F000" | "42804" | "42883" | "0A000" => Class::Shape,
        "42501" if message.contains("row-level security") => Class::Policy,
        "42501" => Class::Privilege,
        "25006" => Class::ReadOnly,
        // Serialization failure, deadlock.
        "40001" | "40P01" => Class::Contention,
        // The time limit for a row lock, or for the statement, has passed.
        "55P03" | "57014" => Class::Waited,
        "53300" | "57P03" | "53400" => Class::Busy,
        // The server shut down or closed the connection, also for a time limit of its transaction: how far the statement
        // got is unknown.
        "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => Class::ReplyLost,
        "22P02" if message.contains(TOO_LATE) => Class::Held,
        "22001" => Class::TooLong,
        "22008" => Class::OutOfRange,
        "42P07" | "42701" | "42710" => Class::Exists,
        // A transaction that was left open has failed.
        "25P02" => Class::Inside,
        // No such prepared statement, or one of this name already exists.
        "26000" | "42P05" => Class::Prepared,
        // Two processes that create the table at the same time collide in the catalog. The lock's own key never appears
        // here: an insert that collides with it does nothing.
        "23505" if constraint.is_some_and(|name| name.starts_with("pg_")) => Class::Exists,
        code if code.starts_with("23") => Class::Constraint(constraint.map(str::to_owned)),
        code if code.starts_with("53") => Class::Busy,
        code if code.starts_with("08") => Class::ReplyLost,
        // It does not know whether it committed; other interventions, system errors, internal errors.
        "40003" => Class::Failed,
        code if ["57", "58", "F0", "XX"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            Class::Failed
        }
        _ => Class::Other,
    }
}

/// What an error of the server, or of a connection pooler in front of it, means while a connection is opened, if that
/// differs from its meaning for a statement.
#[must_use]
pub fn at_login(code: &str, message: &str) -> Option<Class> {
    let contains = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    let refusal = match code {
        "53300" => return Some(Class::NotSent),
        "3D000" => Refusal::Database,
        "42501" => Refusal::Access,
        // A rule for hosts: any of user, database and TLS may be what it rejects. The second text is PgBouncer's.
        "28000" | "08P01" if contains(&["pg_hba.conf", "login rejected"]) => Refusal::Other,
        "28000" | "28P01" if contains(&["client certificate"]) => Refusal::Certificate,
        "28000" | "28P01" => Refusal::Login,
        // PgBouncer has this code for all its errors, and for those of the server that it passes on while it logs in.
        "08P01" if contains(&["no more connections", "query_wait_timeout"]) => {
            return Some(Class::NotSent);
        }
        "08P01" if contains(&["no such database"]) => Refusal::Database,
        "08P01" if contains(&["\" does not exist"]) && contains(&["database \""]) => {
            Refusal::Database
        }
        "08P01" if contains(&["\" does not exist"]) && contains(&["role \""]) => Refusal::Login,
        "08P01" if contains(&["authentication failed", "no such user"]) => Refusal::Login,
        _ => return None,
    };
    Some(Class::Refused(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::postgres::POSTGRES;
    use crate::failure::Failure;
    use crate::options::Settings;

    fn connecting(code: &str, message: &str) -> Class {
        let running = Failure::new(classify(code, message, None), message);
        running.while_connecting(at_login(code, message)).class
    }

    /// Another copy of a claim may only follow a reply that proves that nothing was executed.
    #[test]
    fn a_server_that_failed_midway_may_have_executed_the_statement() {
        let class = |code| classify(code, "", None);
        for code in ["40003", "57P04", "58030", "XX000", "XX001", "F0000"] {
            assert_eq!(class(code), Class::Failed, "{code}");
        }
        for code in [
            "08000", "08003", "08006", "57P01", "57P02", "57P05", "25P03", "25P04",
        ] {
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
        let options = POSTGRES.options(Settings::default()).unwrap();
        let message = "the database system is starting up";
        let failure = Failure::new(connecting("57P03", message), "the client's text")
            .said(Some(message.to_owned()));
        let error = failure.explained(&POSTGRES, &options, false);
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
            let failure = Failure::new(Class::Untrusted, std::io::Error::other(cause));
            let options = POSTGRES.options(Settings::default()).unwrap();
            let error = failure.explained(&POSTGRES, &options, false);
            assert!(!error.is_retryable());
            let start = "the TLS connection failed: the server's certificate ";
            assert_eq!(format!("{error:#}"), format!("{start}{says}"));
        }
    }
}

//! What the servers' error numbers mean.

use super::LARGEST;
use crate::failure::{Class, Refusal};
use crate::options::TOKEN_COLUMN;

/// September 2001 in microseconds. Every fencing token is larger, because tokens start from the server's time. Numbers
/// of an AUTO_INCREMENT column, which an insert reports in the same place, are always smaller.
const NO_TOKEN_BELOW: u64 = 1_000_000_000_000_000;

/// The fencing token in the last insert ID of a reply, if it is one.
#[must_use]
pub fn token_in(last_insert_id: u64) -> Option<u64> {
    Some(last_insert_id).filter(|id| *id >= NO_TOKEN_BELOW)
}

/// Classifies the servers' error numbers. MySQL and MariaDB share most of them; above 1900 they rarely agree.
#[must_use]
pub fn classify(number: u16, message: &str) -> Class {
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
#[must_use]
pub fn at_login(number: u16) -> Option<Class> {
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
    use super::*;

    #[test]
    fn ambiguous_numbers_are_distinguished_by_their_message() {
        let read_only = "The MariaDB server is running with the --read-only option";
        assert_eq!(classify(1290, read_only), Class::ReadOnly);
        let other = "The MySQL server is running with the --secure-file-priv option";
        assert_eq!(classify(1290, other), Class::Other);
        let guard = "BIGINT UNSIGNED value is out of range in '(18446744073709551615 + …)'";
        assert_eq!(classify(1690, guard), Class::Session);
        let token = "BIGINT value is out of range in '(`shedlock_fencing_token` + 1)'";
        assert_eq!(classify(1690, token), Class::Foreign);
        let other = "BIGINT value is out of range in '(9223372036854775807 + `n`.`now`)'";
        assert_eq!(classify(1690, other), Class::Other);
    }

    #[test]
    fn a_commit_that_lost_against_another_server_wrote_nothing_and_one_that_failed_may_have() {
        for lost in [1213, 3101] {
            assert_eq!(classify(lost, ""), Class::Contention, "{lost}");
        }
        for failed in [1053, 1317, 1969] {
            assert_eq!(classify(failed, ""), Class::Failed, "{failed}");
        }
        for failed in [1180, 3100] {
            assert_eq!(classify(failed, ""), Class::ReplyLost, "{failed}");
        }
        assert_eq!(
            classify(1047, "WSREP has not yet prepared node"),
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
            let class = at_login(number);
            assert_eq!(class, Some(Class::Refused(refusal)), "{number}");
        }
        for number in [1040, 1203, 1226] {
            assert_eq!(at_login(number), Some(Class::NotSent), "{number}");
        }
        assert_eq!(at_login(1053), Some(Class::Unready));
    }
}

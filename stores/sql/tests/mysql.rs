//! Tests beyond the laws, over MySQL and MariaDB: ShedLock's tables and statements, sessions of all
//! kinds, edge cases of names and times, server failures.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(
    unused_must_use,
    reason = "a lease may be taken only to stand in the way"
)]

mod common;
#[path = "mysql/diesel.rs"]
mod diesel;
#[path = "common/diesel.rs"]
mod diesel_pools;
#[path = "mysql/duties.rs"]
mod duties;
#[path = "mysql/failures.rs"]
mod failures;
#[path = "mysql/hidden.rs"]
mod hidden;
#[path = "mysql/java.rs"]
mod java;
#[path = "mysql/journal.rs"]
mod journal;
#[path = "mysql/late.rs"]
mod late;
#[path = "mysql/logins.rs"]
mod logins;
#[path = "mysql/records.rs"]
mod records;
#[path = "mysql/room.rs"]
mod room;
#[path = "mysql/sessions.rs"]
mod sessions;
#[path = "mysql/settings.rs"]
mod settings;
#[path = "mysql/silence.rs"]
mod silence;

/// Runs each test on each server.
macro_rules! on_all_servers {
    ($($module:ident: $($test:ident),+;)+) => {
        mod mariadb {
            $($(#[tokio::test]
            async fn $test() {
                let server = crate::common::server("mariadb");
                crate::$module::$test(&server).await;
            })+)+
        }

        /// Starts its sessions at +05:30.
        mod mariadb_ahead {
            $($(#[tokio::test]
            async fn $test() {
                let server = crate::common::server("mariadb-tz");
                crate::$module::$test(&server).await;
            })+)+
        }

        mod mysql {
            $($(#[tokio::test]
            async fn $test() {
                if let Some(server) = crate::common::server_if_any("mysql") {
                    crate::$module::$test(&server).await;
                }
            })+)+
        }
    };
}

/// With its sessions' autocommit off.
mod off {
    async fn own_sessions_switch_autocommit_on(kind: &str) {
        let server = shedlock_rig::OwnServer::start(kind, &["--autocommit=0"]).unwrap();
        crate::sessions::own_sessions_switch_autocommit_on(server.url()).await;
    }

    #[tokio::test]
    async fn mariadb() {
        own_sessions_switch_autocommit_on("mariadb").await;
    }

    #[tokio::test]
    async fn mysql() {
        if crate::common::server_if_any("mysql").is_some() {
            own_sessions_switch_autocommit_on("mysql").await;
        }
    }
}

on_all_servers! {
    diesel: pools_are_passed_as_they_are, no_call_hangs_on_a_pool_of_diesel,
        a_session_of_diesel_that_takes_no_writes_is_left,
        a_connection_of_diesel_keeps_no_statement_over_the_catalogue, errors_are_those_of_another_client,
        connections_that_count_changed_rows_are_no_danger;
    duties: jobs_that_hold_all_connections_of_a_pool_keep_their_locks,
        a_connection_that_sees_another_database_proves_nothing;
    java: shedlocks_table_serves_as_it_is, migrating_shedlocks_table_adds_our_columns_once,
        the_two_exclude_each_other_before_and_after_migration,
        columns_that_update_themselves_are_kept_still, a_counted_table_still_returns_its_tokens,
        another_unique_key_is_an_error_not_a_skip, java_in_an_unknown_zone_is_refused;
    logins: a_rotated_password_does_not_lock_the_account;
    sessions: sessions_in_different_zones_agree, the_zone_of_the_session_stays_as_it_was,
        a_zone_that_the_server_does_not_know_is_refused, sessions_without_autocommit_are_refused,
        a_session_of_another_charset_stores_the_same_name, every_sql_mode_will_do,
        serializable_sessions_contend_without_errors,
        connections_to_different_databases_use_one_table,
        the_isolation_level_of_a_session_stays_as_it_was;
    records: names_that_the_collation_treats_as_equal_are_distinguished, trailing_blanks_count,
        names_that_do_not_fit_are_refused_in_every_mode, a_lease_beyond_2038_is_refused,
        a_client_of_the_past_stores_no_year_0, a_record_without_an_end_is_a_conflict,
        whole_seconds_leave_nothing_behind_an_unlock;
    failures: a_missing_table_comes_with_its_definition, a_table_without_a_key_is_refused,
        a_session_that_may_not_write_is_unavailable, a_missing_privilege_is_configuration, a_connection_that_is_rejected_or_refused_says_what_to_check,
        a_transaction_in_the_way_is_waited_for_a_little,
        an_extension_that_had_to_wait_revives_nothing, a_dropped_column_is_noticed,
        a_claim_that_cannot_be_read_is_unknown,
        a_server_that_is_not_there_is_unavailable, urls_of_both_schemes_are_read;
    hidden: an_owner_that_would_be_cut_is_refused_with_the_remedy,
        a_tolerance_without_an_end_is_a_tolerance, a_read_that_decides_waits_for_no_lock_on_the_row,
        a_complete_table_that_was_altered_is_looked_at_again;
    journal: the_journal, replicas_share_a_journal, a_session_without_autocommit_removes_nothing;
    silence: no_call_hangs, a_session_that_takes_no_writes_is_left_as_soon_as_it_says_so;
    late: a_late_copy_of_an_attempt_takes_no_lock, a_late_copy_takes_no_lock_where_clients_clocks_rule,
        a_late_copy_takes_no_lock_in_a_zone_of_javas, a_withdrawal_waits_for_an_insert_under_way,
        a_late_extension_does_not_cut_a_later_one_short,
        an_extension_that_changes_nothing_is_not_lost, an_attempt_that_has_ended_takes_no_lock,
        a_first_attempt_is_sent_once;
}

use super::*;
use crate::dialect::{Claim, End, Statements, Step};
use crate::options::Settings;
use crate::statement::Statement;
use shedlock_store::TimeMode;

fn options(change: impl FnOnce(&mut Settings)) -> Options {
    let mut settings = Settings::default();
    change(&mut settings);
    MYSQL.options(settings).expect("valid settings")
}

fn statements(change: impl FnOnce(&mut Shape)) -> Statements {
    let mut shape = MYSQL.assumed.clone();
    change(&mut shape);
    MYSQL.statements(&options(|_| {}), &shape)
}

fn datetimes(shape: &mut Shape) {
    shape.lock_until.kind = TimeKind::Wall;
    shape.locked_at.kind = TimeKind::Wall;
}

fn digits(shape: &mut Shape, digits: u8) {
    shape.lock_until.digits = digits;
    shape.locked_at.digits = digits;
}

const ZONE: &str = "/*M! SET STATEMENT time_zone = '+00:00' FOR */ ";
const HINT: &str = "/*+ SET_VAR(time_zone = '+00:00') */";
const GUARD: &str = "18446744073709551615 + (@@time_zone <> '+00:00' OR @@autocommit = 0) > 0";

#[test]
fn an_attempt_is_one_conditional_update() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Nothing)].clone();
    let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    assert_eq!(
        statement.text(),
        format!(
            "{ZONE}UPDATE {HINT} `shedlock` SET \
             `lock_until` = LEAST(CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL ? + 999 MICROSECOND, 23) \
             AS DATETIME(3)), TIMESTAMP'2038-01-18 03:14:07'), \
             `locked_at` = CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), `locked_by` = ?, \
             shedlock_fencing_token = LAST_INSERT_ID(GREATEST(\
             COALESCE(shedlock_fencing_token, 0) + 1, \
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))), \
             shedlock_skip_from = CASE WHEN shedlock_skip_until <= {now} THEN shedlock_skip_from END, \
             shedlock_skip_until = CASE WHEN shedlock_skip_until <= {now} THEN shedlock_skip_until END \
             WHERE `name` = ? AND `lock_until` <= UTC_TIMESTAMP(6) \
             AND COALESCE(NOT (`locked_by` IN (?, ?)), 1) \
             AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= ? AND {GUARD}"
        )
    );
    let binds = ["at_most", "owner", "name", "released", "freed", "not_after"];
    assert_eq!(statement.binds, binds);
}

#[test]
fn a_slot_is_claimed_in_the_same_statement() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Slot)].clone();
    let now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    assert!(
        statement
            .text()
            .contains(", shedlock_slot = ?, shedlock_skip_from = CASE WHEN ")
    );
    assert!(
        statement.text().ends_with(&format!(
            " AND COALESCE(shedlock_slot < ?, 1) AND COALESCE(NOT (shedlock_skip_from < ? \
             AND ? <= shedlock_skip_until AND shedlock_skip_until <= {now}), 1) \
             AND ? <= {now} + ? \
             AND (COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`), 0) < ? \
             OR `locked_by` LIKE '%/%/%') AND {GUARD}"
        )),
        "{}",
        statement.text()
    );
    let insert = statements(|_| {})[Step::Insert(Claim::Slot)].clone();
    assert!(
        insert.text().ends_with(&format!(
            " OR n.differs) > 0 \
                 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) <= ? AND ? <= {now} + ?"
        )),
        "{}",
        insert.text()
    );
    assert_eq!(insert.binds.last().map(String::as_str), Some("tolerance"));
}

#[test]
fn an_insert_is_plain_so_that_no_error_is_hidden() {
    let text = statements(|_| {})[Step::Insert(Claim::Nothing)]
        .text()
        .to_owned();
    let start = format!("{ZONE}INSERT {HINT} INTO `shedlock` (`name`, ");
    assert!(text.starts_with(&start), "{text}");
    assert!(
        !text.contains("IGNORE") && !text.contains("DUPLICATE"),
        "{text}"
    );
}

#[test]
fn a_withdrawal_that_finds_nothing_makes_the_record_released() {
    let statement = statements(|_| {})[Step::Settle].clone();
    let text = statement.text();
    assert!(
        text.contains(
            "(`name`, `lock_until`, `locked_at`, `locked_by`) \
             SELECT ?, CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), \
             CAST(LEFT(UTC_TIMESTAMP(6), 23) AS DATETIME(3)), ? FROM "
        ),
        "{text}"
    );
    assert_eq!(statement.binds[..2], ["name", "released"]);
}

#[test]
fn every_statement_runs_in_its_zone_or_not_at_all() {
    for statement in all(&statements(|_| {})) {
        let text = statement.text();
        assert!(text.starts_with(ZONE), "{text}");
        assert!(text.contains(HINT), "{text}");
        assert!(
            text.contains("@@time_zone <> '+00:00' OR @@autocommit = 0"),
            "{text}"
        );
    }
    // Columns without a zone need no zone.
    for statement in all(&statements(datetimes)) {
        let text = statement.text();
        assert!(!text.contains("time_zone"), "{text}");
        assert!(text.contains("(@@autocommit = 0"), "{text}");
    }
}

#[test]
fn a_shared_zone_is_the_zone_of_all_statements() {
    let options = options(|settings| settings.shared_session_zone = Some("+5:30".to_owned()));
    for statement in all(&MYSQL.statements(&options, &MYSQL.assumed)) {
        let text = statement.text();
        assert!(text.contains("time_zone = '+05:30' FOR */"), "{text}");
        assert!(text.contains("@@time_zone <> '+05:30'"), "{text}");
        assert!(!text.contains("'+00:00'"), "{text}");
    }
}

#[test]
fn every_update_sets_both_times() {
    let statements = statements(|_| {});
    for statement in [
        &statements[Step::Extend],
        &statements[Step::Unlock(End::Nothing)],
        &statements[Step::Withdraw],
    ] {
        let text = statement.text();
        assert!(text.contains("SET `lock_until` = "), "{text}");
        assert!(text.contains(", `locked_at` = `locked_at`"), "{text}");
    }
}

#[test]
fn names_are_compared_byte_for_byte_where_the_collation_does_not() {
    let exact = "`name` = ? AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = CAST(? AS BINARY)";
    let loose = statements(|shape| shape.name.exact = false);
    for statement in [
        &loose[Step::Attempt(Claim::Nothing)],
        &loose[Step::Extend],
        &loose[Step::Unlock(End::Nothing)],
        &loose[Step::Withdraw],
    ] {
        assert!(statement.text().contains(exact), "{}", statement.text());
    }
    // A read finds the conflicting record.
    assert!(
        loose[Step::Read].text().contains("ON `name` = ? WHERE"),
        "{}",
        loose[Step::Read].text()
    );
    assert!(
        loose[Step::List { held_only: false }]
            .text()
            .contains("ORDER BY CAST(CONVERT(`name` USING utf8mb4) AS BINARY) LIMIT ?")
    );
    let strict = statements(|_| {});
    assert!(
        !strict[Step::Attempt(Claim::Nothing)]
            .text()
            .contains("CONVERT("),
        "{}",
        strict[Step::Attempt(Claim::Nothing)].text()
    );
    assert!(
        strict[Step::List { held_only: false }]
            .text()
            .ends_with("ORDER BY `name` LIMIT ?")
    );
}

#[test]
fn coarse_columns_are_rounded_to_the_safe_side() {
    let seconds = statements(|shape| digits(shape, 0));
    assert!(seconds[Step::Extend].text().contains(
        "CAST(LEFT(UTC_TIMESTAMP(6) + INTERVAL ? + 999999 MICROSECOND, 19) AS DATETIME)"
    ));
    // Without at-least the lock is free at once. Otherwise the acquisition counts, and the token
    // contains it most precisely.
    let now = "CAST(LEFT(UTC_TIMESTAMP(6), 19) AS DATETIME)";
    assert!(
        seconds[Step::Unlock(End::Nothing)]
            .text()
            .contains(&format!(
                "`lock_until` = IF(? = 0, {now}, GREATEST({now}, \
             CAST(LEFT(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL \
             LEAST(shedlock_fencing_token, \
             TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `locked_at`) + 1000000) + ? + 999999 \
             MICROSECOND, 19) AS DATETIME)))"
            )),
        "{}",
        seconds[Step::Unlock(End::Nothing)].text()
    );
    let plain = statements(|shape| {
        digits(shape, 0);
        shape.is_complete = false;
    });
    assert!(
        plain.get(Step::Attempt(Claim::Slot)).is_none()
            && plain.get(Step::Insert(Claim::Slot)).is_none()
    );
    assert!(
        plain[Step::Unlock(End::Nothing)]
            .text()
            .contains("`locked_at` + INTERVAL 1000000 + ? + 999999")
    );
    let micros = statements(|shape| {
        digits(shape, 6);
        datetimes(shape);
    });
    assert!(micros[Step::Extend].text().contains(
        "SET `lock_until` = GREATEST(`lock_until`, \
                 UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND), "
    ));
    // Outside UTC the wait is measured, since no clock advances during a statement.
    assert!(micros[Step::Attempt(Claim::Nothing)].text().contains(
        " AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) \
         + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) <= ? AND "
    ));
}

#[test]
fn the_clients_time_is_sent_along_but_tokens_are_the_servers() {
    let options = options(|settings| settings.time = TimeMode::client());
    let statement =
        MYSQL.statements(&options, &MYSQL.assumed)[Step::Attempt(Claim::Nothing)].clone();
    let text = statement.text();
    let now = "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND)";
    assert!(
        text.contains(&format!("AND `lock_until` <= {now}")),
        "{text}"
    );
    assert_eq!(text.matches("UTC_TIMESTAMP").count(), 1, "{text}");
    assert_eq!(text.matches("SYSDATE").count(), 1, "{text}");
}

#[test]
fn names_are_quoted_and_may_name_a_database() {
    let options = options(|settings| {
        settings.table = Some("jobs.Locks".to_owned());
        settings.lock_until_column = "until".to_owned();
    });
    let statements = MYSQL.statements(&options, &MYSQL.assumed);
    assert!(
        statements[Step::Attempt(Claim::Nothing)]
            .text()
            .contains(" `jobs`.`Locks` SET `until` = ")
    );
    let probe = MYSQL.probing(&options);
    assert!(
        probe
            .text()
            .contains("c.TABLE_SCHEMA = 'jobs' AND c.TABLE_NAME = 'Locks'")
    );
}

#[test]
fn servers_that_start_sessions_elsewhere_bring_a_warning_until_the_zone_is_named() {
    let mut shape = MYSQL.assumed.clone();
    shape.server = format!("10.11, sessions start with time_zone +05:30, {NOT_UTC}");
    let warnings = MYSQL.warnings(&options(|_| {}), &shape);
    let [warning] = &warnings[..] else {
        panic!("one thing matters: {warnings:?}");
    };
    assert_eq!(warning.check, "zone");
    assert!(warning.message.contains("+05:30"), "{warning:?}");
    let remedy = warning.remedy.as_ref().unwrap();
    assert!(remedy.contains("shared_session_zone"), "{remedy}");
    for zone in ["+05:30", "+00:00"] {
        let named = options(|settings| settings.shared_session_zone = Some(zone.to_owned()));
        assert!(MYSQL.warnings(&named, &shape).is_empty());
    }
    datetimes(&mut shape);
    assert!(MYSQL.warnings(&options(|_| {}), &shape).is_empty());
}

#[test]
fn a_replica_that_runs_statements_again_reads_no_clock_of_its_own() {
    let mut shape = MYSQL.assumed.clone();
    let reads_the_clock = |shape: &Shape| {
        all(&MYSQL.statements(&options(|_| {}), shape))
            .iter()
            .any(|statement| statement.text().contains("SYSDATE"))
    };
    assert!(reads_the_clock(&shape));
    shape.server = format!("10.11, {LOGS_STATEMENTS}");
    assert!(!reads_the_clock(&shape));
}

#[test]
fn writers_side_by_side_bring_a_warning_until_their_skew_is_set() {
    let mut shape = MYSQL.assumed.clone();
    for fact in [GALERA, GROUP] {
        shape.server = format!("10.11, {fact}");
        let warnings = MYSQL.warnings(&options(|_| {}), &shape);
        let remedy = warnings[0].remedy.as_ref().unwrap();
        assert!(remedy.contains("server_skew"), "{remedy}");
        let set = options(|settings| settings.server_skew = Duration::from_secs(1));
        assert!(MYSQL.warnings(&set, &shape).is_empty());
        let by_clients = options(|settings| settings.time = TimeMode::client());
        assert!(MYSQL.warnings(&by_clients, &shape).is_empty());
    }
}

#[test]
fn a_lease_ends_before_its_column_does() {
    let shape = MYSQL.assumed.clone();
    let longest = (MYSQL.longest_lease)(&options(|_| {}), &shape);
    assert!(longest < TIMESTAMP_ENDS && longest > Duration::ZERO);
    let mut shape = shape;
    datetimes(&mut shape);
    assert!((MYSQL.longest_lease)(&options(|_| {}), &shape) > 100 * longest);
}

fn all(statements: &Statements) -> Vec<Statement> {
    statements.all().cloned().collect()
}

/// MaxScale and ProxySQL send a `SELECT` to a replica, which may lag, unless it ends like this.
#[test]
fn a_read_that_decides_looks_like_a_write_to_a_proxy_that_splits_reads_off() {
    let statements = statements(|_| {});
    let text = statements[Step::ReadToDecide].text();
    assert!(text.ends_with(" FOR UPDATE"), "{text}");
    // Its own level reads no table, so it locks no row.
    assert!(
        text.contains(
            " FROM (SELECT 1 AS one) AS n LEFT JOIN (SELECT `name`, `lock_until`, `locked_at`, \
             `locked_by`, shedlock_fencing_token, shedlock_slot, shedlock_slot_done, \
             shedlock_slot_attempts, shedlock_skip_from, shedlock_skip_until FROM `shedlock` WHERE `name` = ? LIMIT 1) AS r ON `name` = ? WHERE "
        ),
        "{text}"
    );
    assert!(!statements[Step::Read].text().contains("FOR UPDATE"));
}

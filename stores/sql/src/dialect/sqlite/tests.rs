use super::*;
use crate::dialect::{Claim, End, Statements, Step};
use crate::options::Settings;
use shedlock_store::TimeMode;

const NOW: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

fn statements(change: impl FnOnce(&mut Shape)) -> Statements {
    let options = SQLITE.options(Settings::default()).expect("valid settings");
    let mut shape = SQLITE.assumed.clone();
    change(&mut shape);
    SQLITE.statements(&options, &shape)
}

#[test]
fn an_attempt_looks_before_it_writes() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Nothing)].clone();
    let (look, write) = statement.text().split_once("; ").expect("two statements");
    assert_eq!(
        look,
        format!(
            "SELECT abs(min(`lock_until`, 0) - 9223372036854775807 - 1) FROM `shedlock` \
             WHERE `name` = ? AND `name` COLLATE BINARY = ? AND NOT (`lock_until` <= {NOW} \
             AND coalesce(`locked_by`, '') NOT IN (?, ?) AND {NOW} * 1000 <= ? \
             AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807)"
        )
    );
    assert_eq!(
        write,
        format!(
            "UPDATE `shedlock` SET `lock_until` = {NOW} + ? / 1000, `locked_at` = {NOW}, \
             `locked_by` = ?, \
             shedlock_fencing_token = max(coalesce(shedlock_fencing_token, 0) + 1, {NOW} * 1000), \
             shedlock_skip_from = CASE WHEN shedlock_skip_until <= {NOW} * 1000 \
             THEN shedlock_skip_from END, \
             shedlock_skip_until = CASE WHEN shedlock_skip_until <= {NOW} * 1000 \
             THEN shedlock_skip_until END \
             WHERE `name` = ? AND `name` COLLATE BINARY = ? AND `lock_until` <= {NOW} \
             AND coalesce(`locked_by`, '') NOT IN (?, ?) AND {NOW} * 1000 <= ? \
             AND coalesce(shedlock_fencing_token, 0) < 9223372036854775807 \
             RETURNING CASE typeof(`locked_at`) WHEN 'integer' THEN `locked_at` * 1000 \
             ELSE `locked_at` END, CASE typeof(`lock_until`) WHEN 'integer' \
             THEN `lock_until` * 1000 ELSE `lock_until` END, shedlock_fencing_token"
        )
    );
    assert_eq!(
        statement.binds,
        [
            "name",
            "name",
            "released",
            "freed",
            "not_after",
            "at_most",
            "owner",
            "name",
            "name",
            "released",
            "freed",
            "not_after",
        ]
    );
}

#[test]
fn a_slot_is_a_condition_of_both() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Slot)].clone();
    let condition = format!(
        "`lock_until` <= {NOW} AND coalesce(`locked_by`, '') NOT IN (?, ?) AND {NOW} * 1000 <= ? \
         AND coalesce(shedlock_slot < ?, 1) AND COALESCE(NOT (shedlock_skip_from < ? \
         AND ? <= shedlock_skip_until AND shedlock_skip_until <= {NOW} * 1000), 1) \
         AND ? <= {NOW} * 1000 + ? AND (`locked_at` * 1000 < ? OR `locked_by` LIKE '%/%/%')"
    );
    assert_eq!(statement.text().matches(&condition).count(), 2);
}

#[test]
fn an_unlock_keeps_at_least() {
    assert_eq!(
        statements(|_| {})[Step::Unlock(End::Nothing)].text(),
        format!(
            "UPDATE `shedlock` SET `lock_until` = max({NOW}, `locked_at` + ? / 1000), \
             `locked_by` = ? WHERE `name` = ? AND `name` COLLATE BINARY = ? \
             AND `locked_by` = ? AND `lock_until` > {NOW}"
        )
    );
}

#[test]
fn a_table_without_our_columns_is_never_asked_for_them() {
    let statements = statements(|shape| shape.is_complete = false);
    assert!(statements.get(Step::Attempt(Claim::Slot)).is_none());
    for statement in [
        &statements[Step::Attempt(Claim::Nothing)],
        &statements[Step::Insert(Claim::Nothing)],
        &statements[Step::Read],
    ] {
        assert!(
            !statement.text().contains("shedlock_"),
            "{}",
            statement.text()
        );
    }
}

#[test]
fn the_clients_time_is_sent_along() {
    let settings = Settings {
        time: TimeMode::client(),
        ..Settings::default()
    };
    let options = SQLITE.options(settings).expect("valid settings");
    let statements = SQLITE.statements(&options, &SQLITE.assumed);
    for statement in [
        &statements[Step::Attempt(Claim::Nothing)],
        &statements[Step::Read],
        &statements[Step::Unlock(End::Nothing)],
    ] {
        assert!(statement.binds.iter().any(|word| word == "now"));
    }
    // The machine's clock decides whether an attempt is too late.
    let machines = |step| statements[step].text().matches("julianday").count();
    assert_eq!(machines(Step::Attempt(Claim::Nothing)), 2);
    assert_eq!(machines(Step::Insert(Claim::Nothing)), 1);
    assert_eq!(machines(Step::Read), 1);
    assert_eq!(machines(Step::Unlock(End::Nothing)), 0);
}

#[test]
fn types_are_read_as_sqlite_reads_them() {
    for (type_name, affinity) in [
        ("timestamp", Affinity::Numeric),
        ("datetime", Affinity::Numeric),
        ("bigint", Affinity::Integer),
        ("varchar", Affinity::Text),
        ("real", Affinity::Other),
        ("", Affinity::Other),
    ] {
        assert_eq!(Affinity::of(type_name), affinity, "{type_name}");
    }
}

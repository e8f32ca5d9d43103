use super::*;
use crate::dialect::{Statements, Step};
use crate::options::Settings;
use crate::statement::Statement;
use shedlock_provider::TimeMode;

fn options(change: impl FnOnce(&mut Settings)) -> Options {
    let mut settings = Settings::default();
    change(&mut settings);
    MYSQL.options(settings).expect("valid settings")
}

fn datetimes(shape: &mut Shape) {
    shape.lock_until.kind = TimeKind::Wall;
    shape.locked_at.kind = TimeKind::Wall;
}

fn all(statements: &Statements) -> Vec<Statement> {
    statements.all().cloned().collect()
}

#[test]
fn every_statement_runs_in_its_zone_or_not_at_all() {
    for (zone, set) in [("+00:00", None), ("+05:30", Some("+5:30".to_owned()))] {
        let options = options(|settings| settings.shared_session_zone = set);
        for statement in all(&MYSQL.statements(&options, &MYSQL.assumed)) {
            let text = statement.text();
            let sets = format!("/*M! SET STATEMENT time_zone = '{zone}' FOR */ ");
            assert!(text.starts_with(&sets), "{text}");
            let hint = format!("/*+ SET_VAR(time_zone = '{zone}') */");
            assert!(text.contains(&hint), "{text}");
            let guard = format!("@@time_zone <> '{zone}' OR @@autocommit = 0");
            assert!(text.contains(&guard), "{text}");
        }
    }
    // Columns without a zone need no zone.
    let mut shape = MYSQL.assumed.clone();
    datetimes(&mut shape);
    for statement in all(&MYSQL.statements(&options(|_| {}), &shape)) {
        let text = statement.text();
        assert!(!text.contains("time_zone"), "{text}");
        assert!(text.contains("(@@autocommit = 0"), "{text}");
    }
}

/// The first `TIMESTAMP` column of a table may change with each update by itself.
#[test]
fn every_update_sets_both_times() {
    for statement in all(&MYSQL.statements(&options(|_| {}), &MYSQL.assumed)) {
        let text = statement.text();
        let Some((_, set)) = text.split_once("`shedlock` SET ") else {
            continue;
        };
        assert!(set.starts_with("`lock_until` = "), "{text}");
        assert!(set.contains(", `locked_at` = "), "{text}");
    }
}

/// MaxScale and ProxySQL send a `SELECT` to a replica, which may lag, unless it ends like this.
#[test]
fn only_a_read_that_decides_looks_like_a_write_to_a_proxy_that_splits_reads_off() {
    let statements = MYSQL.statements(&options(|_| {}), &MYSQL.assumed);
    for step in Step::ALL {
        if let Some(statement) = statements.get(step) {
            let looks_like_a_write = statement.text().ends_with(" FOR UPDATE");
            assert_eq!(looks_like_a_write, step == Step::ReadToDecide, "{step:?}");
        }
    }
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

#[test]
fn literals_need_no_escaping() {
    assert_eq!((MYSQL.quote)("it's \\"), "_utf8mb4 X'69742773205C'");
    assert_eq!((MYSQL.quote)(""), "_utf8mb4 X''");
}

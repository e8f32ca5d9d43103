use std::time::Duration;

use super::*;
use crate::dialect::{Claim, End, Statements, Step};
use crate::options::Settings;
use shedlock_store::TimeMode;

fn options(change: impl FnOnce(&mut Settings)) -> Options {
    let mut settings = Settings::default();
    change(&mut settings);
    POSTGRES.options(settings).expect("valid settings")
}

fn statements(change: impl FnOnce(&mut Shape)) -> Statements {
    let mut shape = POSTGRES.assumed.clone();
    change(&mut shape);
    POSTGRES.statements(&options(|_| {}), &shape)
}

use super::statements::{FLUSHED, UNFLUSHED, micros_of};

fn that_waits_for_its_disk(shape: &mut Shape) {
    shape.server = format!("15.1{WAITS_FOR_DISK}");
}

fn with_zone(shape: &mut Shape) {
    shape.lock_until.kind = TimeKind::Instant;
    shape.locked_at.kind = TimeKind::Instant;
}

fn without_our_columns(shape: &mut Shape) {
    shape.is_complete = false;
}

fn whole_seconds(shape: &mut Shape) {
    shape.lock_until.digits = 0;
    shape.locked_at.digits = 0;
}

#[test]
fn an_attempt_is_one_conditional_update() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Nothing)].clone();
    assert_eq!(
        statement.text(),
        "UPDATE \"shedlock\" SET \
         \"lock_until\" = timezone('utc', CURRENT_TIMESTAMP) + $1 * interval '1 microsecond', \
         \"locked_at\" = timezone('utc', CURRENT_TIMESTAMP), \
         \"locked_by\" = $2, \
         shedlock_fencing_token = GREATEST(COALESCE(shedlock_fencing_token, 0) + 1, \
         (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint), \
         shedlock_skip_from = CASE WHEN shedlock_skip_until \
         <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint \
         THEN shedlock_skip_from END, \
         shedlock_skip_until = CASE WHEN shedlock_skip_until \
         <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint \
         THEN shedlock_skip_until END \
         WHERE \"name\" = $3 AND \"lock_until\" <= timezone('utc', CURRENT_TIMESTAMP) \
         AND COALESCE(\"locked_by\", '') NOT IN ($4, $5) \
         AND (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= $6 \
         AND CASE current_setting('synchronous_commit') WHEN 'off' \
         THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END \
         RETURNING CASE WHEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= $6 \
         THEN (extract(epoch FROM \"locked_at\") * 1000000)::bigint \
         ELSE ('the attempt came after its not-after: ' || \"name\")::bigint END, \
         (extract(epoch FROM \"lock_until\") * 1000000)::bigint, shedlock_fencing_token"
    );
    let binds = ["at_most", "owner", "name", "released", "freed", "not_after"];
    assert_eq!(statement.binds, binds);
}

#[test]
fn a_slot_is_claimed_in_the_same_statement() {
    let statement = statements(|_| {})[Step::Attempt(Claim::Slot)].clone();
    let text = statement.text();
    assert!(
        text.contains(
            "shedlock_slot = $3, shedlock_slot_attempts = NULL, shedlock_skip_from = CASE"
        ),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "AND COALESCE(shedlock_slot < $3, true) AND COALESCE(NOT (shedlock_skip_from < $3 \
             AND $3 <= shedlock_skip_until AND shedlock_skip_until \
             <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint), true) \
             AND $3 <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + $8 \
             AND ({} < $3 OR \"locked_by\" LIKE '%/%/%') AND CASE",
            micros_of("\"locked_at\"")
        )),
        "{text}"
    );
    let insert = statements(|_| {})[Step::Insert(Claim::Slot)].clone();
    assert!(
        insert.text().contains(
            " $4 WHERE (extract(epoch FROM clock_timestamp()) * 1000000)::bigint <= $5 \
             AND CASE current_setting('synchronous_commit') WHEN 'off' \
             THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END \
             AND $4 <= (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint + $6 \
             ON CONFLICT (\"name\") DO NOTHING"
        ),
        "{}",
        insert.text()
    );
}

#[test]
fn what_needs_a_running_lease_goes_by_the_time_it_has_become() {
    let statements = statements(|_| {});
    assert_eq!(
        statements[Step::Extend].text(),
        format!(
            "UPDATE \"shedlock\" SET \
         \"lock_until\" = GREATEST(\"lock_until\", \
         timezone('utc', clock_timestamp()) + $1 * interval '1 microsecond') \
         WHERE \"name\" = $2 AND \"locked_by\" = $3 \
         AND \"lock_until\" > timezone('utc', clock_timestamp()) \
         AND CASE current_setting('synchronous_commit') WHEN 'off' \
         THEN set_config('synchronous_commit', 'local', true) IS NOT NULL ELSE true END \
         RETURNING {}",
            micros_of("\"lock_until\"")
        )
    );
    assert_eq!(
        statements[Step::Unlock(End::Nothing)].text(),
        "UPDATE \"shedlock\" SET \
         \"lock_until\" = GREATEST(timezone('utc', clock_timestamp()), \
         \"locked_at\" + $1 * interval '1 microsecond'), \"locked_by\" = $2 \
         WHERE \"name\" = $3 AND \"locked_by\" = $4 \
         AND \"lock_until\" > timezone('utc', clock_timestamp())"
    );
    assert_eq!(
        statements[Step::Withdraw].text(),
        "UPDATE \"shedlock\" SET \"lock_until\" = timezone('utc', clock_timestamp()), \
         \"locked_by\" = $1 WHERE \"name\" = $2 AND \"locked_by\" = $3 \
         AND \"lock_until\" > timezone('utc', clock_timestamp()) \
         AND set_config('synchronous_commit', 'off', true) IS NOT NULL"
    );
    assert_eq!(
        statements[Step::Settle].text(),
        "INSERT INTO \"shedlock\" AS found \
         (\"name\", \"lock_until\", \"locked_at\", \"locked_by\") \
         SELECT $1, timezone('utc', clock_timestamp()), timezone('utc', clock_timestamp()), $2 \
         WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL \
         ON CONFLICT (\"name\") DO UPDATE SET \"lock_until\" = timezone('utc', clock_timestamp()) \
         WHERE found.\"lock_until\" <= timezone('utc', clock_timestamp())"
    );
}

#[test]
fn a_read_always_gives_a_row() {
    assert_eq!(
        statements(|_| {})[Step::Read].text(),
        format!(
            "SELECT \"name\", \"locked_by\", {}, {}, shedlock_fencing_token, \
             shedlock_slot, shedlock_slot_done, shedlock_slot_attempts, shedlock_skip_from, \
             shedlock_skip_until, n.now \
             FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n \
             LEFT JOIN \"shedlock\" ON \"name\" = $1",
            micros_of("\"locked_at\""),
            micros_of("\"lock_until\"")
        )
    );
}

#[test]
fn instants_that_no_integer_counts_are_cut() {
    assert_eq!(
        micros_of("x"),
        "(extract(epoch FROM CASE WHEN x IS NOT NULL THEN \
         LEAST(GREATEST(x, '0001-01-02 00:00:00'), '9999-12-30 00:00:00') END) * 1000000)::bigint"
    );
}

/// pgpool sends a `SELECT` to a standby, which may lag, unless it changes data or contains this
/// comment.
#[test]
fn a_read_that_decides_looks_like_a_write_to_a_proxy_that_splits_reads_off() {
    let statements = statements(|_| {});
    let text = statements[Step::ReadToDecide].text();
    let start = "/*NO LOAD BALANCE*/ WITH \"a write\" AS (UPDATE \"shedlock\" \
                 SET \"lock_until\" = \"lock_until\" WHERE false) ";
    assert_eq!(
        text.strip_prefix(start),
        Some(statements[Step::Read].text()),
        "{text}"
    );
}

#[test]
fn pages_are_in_the_order_of_bytes() {
    let text = statements(|_| {})[Step::List { held_only: true }]
        .text()
        .to_owned();
    assert!(
        text.ends_with(
            "FROM \"shedlock\" WHERE \"name\" COLLATE \"C\" > $1 \
             AND \"lock_until\" > timezone('utc', clock_timestamp()) \
             ORDER BY \"name\" COLLATE \"C\" LIMIT $2"
        ),
        "{text}"
    );
}

#[test]
fn columns_with_a_zone_hold_instants() {
    let statements = statements(with_zone);
    let text = statements[Step::Attempt(Claim::Nothing)].text();
    assert!(
        text.contains("\"lock_until\" = CURRENT_TIMESTAMP + $1 * interval '1 microsecond'"),
        "{text}"
    );
    assert!(!text.contains("timezone"), "{text}");
    assert!(
        !statements[Step::Unlock(End::Nothing)]
            .text()
            .contains("timezone")
    );
}

#[test]
fn a_table_without_our_columns_is_never_asked_for_them() {
    let statements = statements(without_our_columns);
    assert!(statements.get(Step::Attempt(Claim::Slot)).is_none());
    assert!(statements.get(Step::Insert(Claim::Slot)).is_none());
    for statement in [
        &statements[Step::Attempt(Claim::Nothing)],
        &statements[Step::Insert(Claim::Nothing)],
        &statements[Step::Read],
        &statements[Step::List { held_only: false }],
    ] {
        assert!(
            !statement.text().contains("shedlock_"),
            "{}",
            statement.text()
        );
        assert!(statement.text().contains("NULL::bigint"));
    }
}

#[test]
fn coarse_columns_are_rounded_to_the_safe_side_here() {
    let statements = statements(whole_seconds);
    let micros = "(extract(epoch FROM CURRENT_TIMESTAMP) * 1000000)::bigint";
    let text = statements[Step::Attempt(Claim::Nothing)].text();
    let end = format!(
        "\"lock_until\" = (timestamp '1970-01-01 00:00:00' + \
         (({micros} + $1 + 999999) / 1000000 * 1000000) * interval '1 microsecond')"
    );
    let start = format!(
        "\"locked_at\" = (timestamp '1970-01-01 00:00:00' + \
         ({micros} / 1000000 * 1000000) * interval '1 microsecond')"
    );
    assert!(text.contains(&end) && text.contains(&start), "{text}");
    let text = statements[Step::Unlock(End::Nothing)].text();
    assert!(text.contains("CASE WHEN $1 > 0 THEN"), "{text}");
}

#[test]
fn a_collation_that_takes_names_for_the_same_is_not_believed() {
    let statements = statements(|shape| shape.name.exact = false);
    let exact = "\"name\" = $3 AND \"name\"::text COLLATE \"C\" = $3";
    assert!(
        statements[Step::Attempt(Claim::Nothing)]
            .text()
            .contains(exact)
    );
    assert!(statements[Step::Read].text().ends_with("ON \"name\" = $1"));
}

#[test]
fn the_clients_time_is_sent_along() {
    let options = options(|settings| {
        settings.time = TimeMode::Client {
            tolerated_skew: Duration::from_secs(1),
        };
    });
    let statements = POSTGRES.statements(&options, &POSTGRES.assumed);
    let all = [
        &statements[Step::Attempt(Claim::Nothing)],
        &statements[Step::Insert(Claim::Nothing)],
        &statements[Step::Read],
        &statements[Step::Extend],
        &statements[Step::Unlock(End::Nothing)],
        &statements[Step::Withdraw],
        &statements[Step::Settle],
        &statements[Step::List { held_only: false }],
    ];
    for statement in all {
        assert!(
            statement.binds.iter().any(|word| word == "now"),
            "{}",
            statement.text()
        );
        assert!(!statement.text().contains("CURRENT_TIMESTAMP"));
    }
    // The server's clock decides whether an attempt is too late.
    let servers = |step| statements[step].text().matches("clock_timestamp").count();
    assert_eq!(servers(Step::Attempt(Claim::Nothing)), 2);
    assert_eq!(servers(Step::Insert(Claim::Nothing)), 2);
    assert_eq!(servers(Step::Read), 1);
    for step in [
        Step::Extend,
        Step::Unlock(End::Nothing),
        Step::Withdraw,
        Step::Settle,
    ] {
        assert_eq!(servers(step), 0, "{step:?}");
    }
}

#[test]
fn only_what_gives_back_is_answered_before_it_is_on_the_disk() {
    let statements = statements(that_waits_for_its_disk);
    let waits = |step| !statements[step].text().contains(UNFLUSHED);
    assert!(!waits(Step::Unlock(End::Nothing)) && !waits(Step::Withdraw));
    assert!(waits(Step::Attempt(Claim::Nothing)) && waits(Step::Extend));
}

#[test]
fn an_unlock_that_need_not_hurry_does_not() {
    let plain = statements(|_| {});
    let mut shape = POSTGRES.assumed.clone();
    that_waits_for_its_disk(&mut shape);
    let durable = options(|settings| settings.durable_unlock = true);
    let durable = POSTGRES.statements(&durable, &shape);
    for statements in [plain, durable] {
        let text = statements[Step::Unlock(End::Nothing)].text();
        assert!(!text.contains(UNFLUSHED), "{text}");
    }
}

#[test]
fn names_are_quoted_everywhere() {
    let options = options(|settings| {
        settings.table = Some("\"Jobs\"".to_owned());
        settings.schema = Some("Ops".to_owned());
        settings.name_column = "\"Name\"".to_owned();
    });
    let statements = POSTGRES.statements(&options, &POSTGRES.assumed);
    assert!(
        statements[Step::Attempt(Claim::Nothing)]
            .text()
            .starts_with("UPDATE \"ops\".\"Jobs\" SET")
    );
    assert!(
        statements[Step::Insert(Claim::Nothing)]
            .text()
            .contains("ON CONFLICT (\"Name\")")
    );
    assert!(
        POSTGRES
            .probing(&options)
            .text()
            .contains("to_regclass('\"ops\".\"Jobs\"')")
    );
    let create = POSTGRES.table_creation(&options);
    assert_eq!(
        create.text(),
        "CREATE TABLE \"ops\".\"Jobs\" (\"Name\" varchar(64) COLLATE \"C\" NOT NULL PRIMARY KEY, \
         \"lock_until\" timestamp NOT NULL, \"locked_at\" timestamp NOT NULL, \
         \"locked_by\" varchar(255) NOT NULL, shedlock_fencing_token bigint NULL, \
         shedlock_slot bigint NULL, shedlock_slot_done bigint NULL, \
         shedlock_slot_attempts bigint NULL, shedlock_skip_from bigint NULL, \
         shedlock_skip_until bigint NULL)"
    );
}

#[test]
fn an_open_slot_is_claimed_and_counted_in_the_same_statement() {
    let statements = statements(|_| {});
    let text = statements[Step::Attempt(Claim::OpenSlot)].text();
    assert!(
        text.contains(
            "shedlock_slot = $3, shedlock_slot_attempts = CASE WHEN shedlock_slot = $3 \
             THEN COALESCE(shedlock_slot_attempts, 0) + 1 ELSE 1 END, shedlock_skip_from = CASE"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("shedlock_fencing_token, shedlock_slot_attempts"),
        "{text}"
    );
    let text = statements[Step::Insert(Claim::OpenSlot)].text();
    assert!(
        text.contains("shedlock_slot, shedlock_slot_attempts) SELECT"),
        "{text}"
    );
}

#[test]
fn the_mark_of_a_slot_that_must_not_be_lost_always_waits_for_the_disk() {
    let statements = statements(that_waits_for_its_disk);
    let waits = |end| !statements[Step::Unlock(end)].text().contains(UNFLUSHED);
    assert!(waits(End::Done { durable: true }));
    assert!(!waits(End::Done { durable: false }) && !waits(End::Nothing) && !waits(End::Failed));
}

#[test]
fn a_promise_waits_for_the_disk_whatever_the_session_is_set_to() {
    let insists = |statements: &Statements, step| statements[step].text().contains(FLUSHED);
    for shape in [that_waits_for_its_disk, |_: &mut Shape| {}] {
        let statements = statements(shape);
        for step in Step::ALL {
            let expected = matches!(
                step,
                Step::Attempt(_)
                    | Step::Insert(_)
                    | Step::Extend
                    | Step::Unlock(End::Done { durable: true })
                    | Step::ResetSlot
                    | Step::Pause
                    | Step::Resume
            );
            assert_eq!(insists(&statements, step), expected, "{step:?}");
        }
    }
    let durable = options(|settings| settings.durable_unlock = true);
    let durable = POSTGRES.statements(&durable, &POSTGRES.assumed);
    assert!(insists(&durable, Step::Unlock(End::Nothing)));
    assert!(insists(&durable, Step::Unlock(End::Failed)));
}

#[test]
fn what_a_crash_forgets_is_not_called_durable() {
    let mut shape = POSTGRES.assumed.clone();
    that_waits_for_its_disk(&mut shape);
    assert!(POSTGRES.is_durable(&shape) && POSTGRES.warnings(&options(|_| {}), &shape).is_empty());
    for fact in [FSYNC_OFF, UNLOGGED] {
        shape.server = format!("15.1{fact}");
        assert!(!POSTGRES.is_durable(&shape), "{fact}");
        assert_eq!(POSTGRES.warnings(&options(|_| {}), &shape).len(), 1);
    }
}

/// In a transaction that was left open, each write finds no record, and inserts none.
#[test]
fn every_write_over_a_users_pool_asks_whether_it_is_alone() {
    let mut options = options(|_| {});
    options.are_lent = true;
    for exact in [true, false] {
        let mut shape = POSTGRES.assumed.clone();
        shape.name.exact = exact;
        let statements = POSTGRES.statements(&options, &shape);
        for step in Step::ALL.into_iter().filter(|step| step.writes()) {
            let text = statements[step].text();
            let asked = text.matches("now() = statement_timestamp()").count();
            assert_eq!(asked, 1, "{text}");
        }
    }
}

//! Records that the server hides, tables with policies, and tables that change.

use std::time::Duration;

use crate::common::unique;
use crate::room::{Room, SHEDLOCKS, free, hold, name, refusal, request, skip, take};
use shedlock_core::{
    Attempt, ErrorKind, ListRequest, LockProvider as _, LockState, SkipReason, Slot,
};
use shedlock_sqlx::PostgresProvider;

/// `UPDATE shedlock SET lock_until = 'infinity'` is how a DBA pauses a job.
#[tokio::test]
async fn a_record_that_never_ends_is_held_and_breaks_no_other() {
    let ours = "shedlock_fencing_token BIGINT, shedlock_slot BIGINT, \
                shedlock_slot_done BIGINT, shedlock_slot_attempts BIGINT, \
        shedlock_skip_from BIGINT, shedlock_skip_until BIGINT";
    for kind in ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPTZ(3)"] {
        let columns = SHEDLOCKS.replace("TIMESTAMP", kind);
        let room = Room::with(&format!("{columns}, {ours}")).await;
        let provider = room.provider().await;
        hold(&provider, "other").await;
        let lease = take(&provider, "job").await;
        room.run("UPDATE shedlock SET lock_until = 'infinity' WHERE name = 'job'")
            .await;
        room.run(
            "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES \
             ('far', '294000-01-01', '294000-01-01', 'dba'), \
             ('never', '-infinity', '-infinity', 'dba')",
        )
        .await;
        let skipped = skip(&provider, &request("job")).await;
        assert_eq!(skipped.reason, SkipReason::Held);
        let record = provider.inspect(&name("job")).await.unwrap().unwrap();
        assert_eq!(record.state, LockState::Held);
        let listed = provider.list(&ListRequest::new()).await.unwrap();
        let names: Vec<_> = listed.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["far", "job", "never", "other"], "{kind}");
        let _ = skip(&provider, &request("far")).await;
        // With a slot too, whose rules read the time of acquisition.
        let slot = Slot::at(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let slotted = request("never").with_slot(slot.unwrap());
        let Attempt::Acquired(never) = provider.attempt(&slotted).await.unwrap() else {
            panic!("it ended before time began");
        };
        free(&provider, &never).await;
        // The owner of a lock without an end can still release it.
        free(&provider, &lease).await;
        hold(&provider, "job").await;
    }
}

#[tokio::test]
async fn a_tolerance_without_an_end_is_a_tolerance() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    let far = Slot::from_micros(4_000_000_000_000_000).unwrap();
    let slotted = request("job")
        .with_slot(far)
        .with_slot_tolerance(Duration::MAX);
    let answer = provider.attempt(&slotted).await.unwrap();
    assert!(matches!(answer, Attempt::Acquired(_)), "{answer:?}");
}

#[tokio::test]
async fn an_owner_that_does_not_fit_its_column_is_reported_with_the_remedy() {
    let room = Room::with(&SHEDLOCKS.replace("VARCHAR(255)", "VARCHAR(8)")).await;
    let error = PostgresProvider::connect(&room.url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    let provider = room.provider_over(&[]).await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("locked_by"), "{error}");
    assert!(error.to_string().contains("255"), "{error}");
    room.run("ALTER TABLE shedlock ALTER locked_by TYPE varchar(255)")
        .await;
    // Without a restart.
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn a_record_that_a_policy_hides_is_an_error_at_once() {
    let room = Room::migrated().await;
    let role = unique("role");
    room.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {0} TO {role}; \
         GRANT SELECT, INSERT, UPDATE ON shedlock TO {role}; \
         ALTER TABLE shedlock ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY tenant ON shedlock USING (locked_by NOT LIKE 'dba%'); \
         CREATE POLICY few ON shedlock AS RESTRICTIVE USING (true) WITH CHECK (name <> 'closed'); \
         INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
         VALUES ('job', '2020-01-01', '2020-01-01', 'dba')",
        room.schema
    ))
    .await;
    let mut url = url::Url::parse(&room.url).unwrap();
    url.set_username(&role).unwrap();
    let provider = PostgresProvider::connect(url.as_str()).await.unwrap();
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(
        error.to_string().contains("row-level security is active"),
        "{error}"
    );
    free(&provider, &take(&provider, "other").await).await;
    let refused = provider.attempt(&request("closed")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Configuration, "{refused}");
    let said = refused.to_string();
    let says = "a policy of row-level security does not let this user write the record";
    assert!(said.contains(says), "{said}");
    room.run(&format!(
        "DROP POLICY few ON shedlock; DROP POLICY tenant ON shedlock; DROP OWNED BY {role}; DROP ROLE {role}"
    ))
    .await;
}

#[tokio::test]
async fn an_update_that_a_trigger_swallows_is_an_error_at_once() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "job").await).await;
    room.run(
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER swallow BEFORE UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION swallow()",
    )
    .await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(
        error.to_string().contains("the table has triggers"),
        "{error}"
    );
    room.run("DROP TRIGGER swallow ON shedlock").await;
    free(&provider, &take(&provider, "job").await).await;
}

#[tokio::test]
async fn names_that_a_citext_column_treats_as_equal_are_an_error_at_once() {
    let room = Room::migrated().await;
    room.run(
        "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public; \
         ALTER TABLE shedlock ALTER name TYPE public.citext",
    )
    .await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "JOB").await).await;
    let error = refusal(&provider, ErrorKind::Conflict).await;
    assert!(
        error.to_string().contains("\"job\" and \"JOB\" as equal"),
        "{error}"
    );
    free(&provider, &take(&provider, "JOB").await).await;
}

#[tokio::test]
async fn a_complete_table_that_was_altered_is_looked_at_again() {
    let room = Room::migrated().await;
    let provider = room.provider().await;
    free(&provider, &take(&provider, "first").await).await;
    room.run("TRUNCATE shedlock; ALTER TABLE shedlock ADD COLUMN tenant int NOT NULL")
        .await;
    let error = refusal(&provider, ErrorKind::Configuration).await;
    assert!(error.to_string().contains("required column"), "{error}");
    room.run(
        "ALTER TABLE shedlock ALTER tenant SET DEFAULT 0; \
         ALTER TABLE shedlock ALTER name TYPE varchar(8)",
    )
    .await;
    let long = request("a-name-that-fitted");
    let error = provider.attempt(&long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = provider.attempt(&long).await.unwrap_err();
    assert!(error.to_string().contains("holds 8"), "{error}");
    free(&provider, &take(&provider, "job").await).await;
}

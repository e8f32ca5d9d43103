//! The journal: whether it is there, and what a restricted user lacks for it. Locks work without it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::common::{Done, Sandbox, done};
use super::{doctor, doctor_with, mysql, postgres};

const CREATE: &str = "run `shedlock migrate --store …`";
const SCHEMA: &str = "docs/schema.md (SQL) and stores/redis/README.md list what each user needs";

/// Commands that need no journal, each with its exit code and its messages.
fn use_locks(store: &str) -> Vec<Done> {
    let sandbox = Sandbox::new();
    let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
    let commands: [&[&str]; 5] = [
        &run,
        &["list"],
        &["show", "a"],
        &["pause", "a"],
        &["resume", "a"],
    ];
    let used = commands.map(|arguments| {
        let mut command = sandbox.bare(arguments);
        let used = done(command.env("SHEDLOCK_STORE", store));
        assert_eq!(used.code, 0, "{arguments:?}: {used:?}");
        used
    });
    used.into()
}

fn migrate(store: &str) {
    let arguments = ["migrate", "--store", store];
    let migrated = done(&mut Sandbox::new().bare(&arguments));
    assert_eq!(migrated.code, 0, "{migrated:?}");
}

/// No command prints anything about a journal.
#[track_caller]
fn is_silent(used: &[Done]) {
    assert!(used.iter().all(|it| it.stderr.is_empty()), "{used:?}");
}

/// The commands that record something report that they cannot.
#[track_caller]
fn complains(used: &[Done]) {
    for at in [0, 3, 4] {
        let said = &used[at].stderr;
        assert!(said.contains("may not use the journal"), "{said}");
        assert!(said.contains("; grant it SELECT on"), "{said}");
    }
    assert!(
        [1, 2].iter().all(|at| used[*at].stderr.is_empty()),
        "{used:?}"
    );
}

#[tokio::test]
async fn postgres_users_lack_privileges() {
    const NONE: &str =
        "ALTER SCHEMA {user} OWNER TO CURRENT_USER; GRANT USAGE ON SCHEMA {user} TO {user}";
    let Some(mut room) = postgres::Room::new().await else {
        return;
    };
    let (level, text) = doctor(&room.url).journal();
    let none = "no journal: runs and operators' actions are not recorded; ";
    assert_eq!((&*level, &*text), ("warning", &*format!("{none}{CREATE}")));
    room.run(NONE).await;
    let (level, text) = doctor(&room.url).journal();
    assert_eq!(level, "warning");
    let said = "; a journal needs CREATE in the schema of table ";
    assert!(text.contains(said), "{text}");
    is_silent(&use_locks(&room.url));

    room.run("GRANT CREATE ON SCHEMA {user} TO {user}").await;
    migrate(&room.url);
    let (level, text) = doctor(&room.url).journal();
    assert_eq!((&*level, &*text), ("ok", "the journal has version 1; "));
    for table in ["journal", "job", "run", "audit"] {
        let take = format!(
            "ALTER TABLE {{user}}.shedlock_{table} OWNER TO CURRENT_USER; \
             GRANT SELECT ON {{user}}.shedlock_{table} TO {{user}}"
        );
        room.run(&take).await;
    }
    let report = doctor(&room.url);
    let (level, text) = report.journal();
    assert_eq!((&*level, report.code), ("warning", 0));
    let expected = format!(
        "the journal has version 1, but this user lacks INSERT, UPDATE on {0}_job\"; INSERT, UPDATE, \
         DELETE on {0}_run\"; INSERT on {0}_audit\": not everything is recorded; grant these privileges; \
         {SCHEMA}",
        table_of(&text)
    );
    assert_eq!(text, expected);
    complains(&use_locks(&room.url));
    // A monitoring user.
    let reads = "ALTER TABLE {user}.shedlock OWNER TO CURRENT_USER; GRANT SELECT ON {user}.shedlock TO {user}";
    room.run(reads).await;
    assert_eq!(
        doctor(&room.url).faults(),
        [("privileges", "error"), ("journal", "warning")]
    );
    let report = doctor_with(&room.url, &["--read-only", "--strict"]);
    assert!(report.code == 0 && report.faults().is_empty(), "{report:?}");

    room.run("REVOKE ALL ON ALL TABLES IN SCHEMA {user} FROM {user}")
        .await;
    room.run("GRANT SELECT, INSERT, UPDATE ON {user}.shedlock TO {user}")
        .await;
    let (level, text) = doctor(&room.url).journal();
    assert_eq!(level, "warning");
    assert!(text.contains("it lacks SELECT on "), "{text}");
    let used = use_locks(&room.url);
    assert!(used[0].stderr.contains("runs are not recorded"), "{used:?}");
    is_silent(&used[1..3]);
    let said = "done, so do not repeat it; its record in the journal may be missing: ";
    assert!(used[3].stderr.contains(said), "{used:?}");
}

/// The name of the lock table, as the finding has it.
fn table_of(text: &str) -> &str {
    let (before, _) = text.split_once("_job").unwrap();
    before.rsplit_once(' ').unwrap().1
}

#[tokio::test]
async fn mysql_users_lack_privileges() {
    for server in mysql::servers() {
        let mut room = mysql::Room::in_server(&server).await;
        let (level, text) = doctor(&room.url).journal();
        let none = "no journal: runs and operators' actions are not recorded; ";
        assert_eq!((&*level, &*text), ("warning", &*format!("{none}{CREATE}")));
        room.run("REVOKE ALL ON {user}.* FROM {user}").await;
        room.run("GRANT SELECT, INSERT, UPDATE ON {user}.* TO {user}")
            .await;
        let (level, text) = doctor(&room.url).journal();
        assert_eq!(level, "warning");
        let said = "; a journal needs CREATE in the schema of table ";
        assert!(text.contains(said), "{text}");
        is_silent(&use_locks(&room.url));

        room.run("GRANT ALL ON {user}.* TO {user}").await;
        migrate(&room.url);
        let (level, text) = doctor(&room.url).journal();
        assert_eq!((&*level, &*text), ("ok", "the journal has version 1; "));
        room.run("REVOKE ALL ON {user}.* FROM {user}").await;
        room.run("GRANT SELECT ON {user}.* TO {user}").await;
        room.run("GRANT INSERT, UPDATE ON {user}.shedlock TO {user}")
            .await;
        let report = doctor(&room.url);
        let (level, text) = report.journal();
        assert_eq!((&*level, report.code), ("warning", 0));
        assert!(
            text.contains("but this user lacks INSERT, UPDATE on "),
            "{text}"
        );
        complains(&use_locks(&room.url));

        // The server hides tables on which a user has no right.
        room.run("REVOKE ALL ON {user}.* FROM {user}").await;
        room.run("GRANT SELECT ON {user}.shedlock TO {user}").await;
        let (level, text) = doctor(&room.url).journal();
        assert_eq!(level, "warning");
        assert!(
            text.contains("if there is one: it lacks SELECT on "),
            "{text}"
        );
        let used = use_locks(&room.url);
        assert!(used[0].stderr.contains("runs are not recorded"), "{used:?}");
        is_silent(&used[1..3]);
    }
}

/// The lock's file must be written, so this is about a journal in a file of its own.
#[test]
fn a_journal_in_a_file_that_cannot_be_written_is_reported() {
    let sandbox = Sandbox::migrated();
    let file = sandbox.path("journal/j.db");
    let url = format!("sqlite:{}", file.display());
    let shedlock = |arguments: &[&str]| {
        let mut command = sandbox.shedlock(arguments);
        command.env("SHEDLOCK_JOURNAL_STORE", &url);
        command
    };
    let absent = done(&mut shedlock(&["doctor"]));
    assert_eq!(absent.code, 0, "{absent:?}");
    let said = "run `shedlock migrate`";
    assert!(absent.stdout.contains(said), "{absent:?}");
    assert_eq!(done(&mut shedlock(&["migrate"])).code, 0);
    let healthy = done(&mut shedlock(&["doctor", "--strict"]));
    assert_eq!(healthy.code, 0, "{healthy:?}");

    let mode = |path: &str, mode| {
        let path = sandbox.path(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("journal/j.db", 0o444);
    mode("journal", 0o555);
    // No mode keeps root from writing: it gives that right up.
    let is_root = rustix::process::geteuid().is_root();
    let restricted = |command: &mut Command| {
        if !is_root {
            return done(command);
        }
        let mut without = Command::new("setpriv");
        without.arg("--bounding-set=-dac_override,-dac_read_search");
        without.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => without.env(name, value),
                None => without.env_remove(name),
            };
        }
        done(&mut without)
    };
    let found = restricted(&mut shedlock(&["doctor"]));
    assert_eq!(found.code, 0, "{found:?}");
    let said = "cannot be opened for writing";
    assert!(found.stdout.contains(said), "{found:?}");
    let run = ["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"];
    let ran = restricted(&mut shedlock(&run));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains(said), "{ran:?}");
    for arguments in [&["list"][..], &["show", "a"], &["pause", "a"]] {
        let used = restricted(&mut shedlock(arguments));
        assert_eq!(used.code, 0, "{used:?}");
    }
}

//! Names and owners that contain characters which a terminal obeys or hides.

use serde_json::Value;
use sqlx::Connection;

use super::common::{Sandbox, done, end, signal};
use rustix::process::Signal;

/// Reads as "payroll" in another order, and has two characters that look like line ends.
const NAME: &str = "pay\u{202e}llor\u{2028}next\u{2029}\u{200b}\u{feff}";
const ESCAPED: &str = "pay\\u{202e}llor\\u{2028}next\\u{2029}\\u{200b}\\u{feff}";

fn is_clean(text: &str) -> bool {
    let is_hidden = |char| "\u{202e}\u{2028}\u{2029}\u{200b}\u{feff}\u{85}\u{1b}".contains(char);
    !text.contains(is_hidden)
}

#[test]
fn a_name_cannot_spoof_the_output() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.run(NAME, "60s", "echo x > up; exec sleep 60");
    let holder = holder.spawn().unwrap();
    sandbox.await_lines("up", 1);
    let skipped = done(&mut sandbox.run(NAME, "60s", "true"));
    let said = format!("shedlock: {ESCAPED}: ");
    assert!(skipped.stderr.starts_with(&said), "{}", skipped.stderr);
    for arguments in [
        &["list"][..],
        &["show", NAME],
        &["slot", "reset", NAME],
        &["unlock", "--force", NAME, "--owner", "other\u{202e}"],
        &["unlock", "--force", NAME],
        &["unlock", "--force", NAME],
        &["show", "none\u{202e}"],
        &["show", NAME, "two\u{202e}\u{85}"],
        &["-vvv", "show", NAME],
    ] {
        let done = done(&mut sandbox.shedlock(arguments));
        let said = done.stdout + &done.stderr;
        assert!(is_clean(&said), "{arguments:?}: {said:?}");
        assert!(said.contains("\\u{202e}"), "{arguments:?}: {said}");
    }
    let ran = done(
        sandbox
            .shedlock(&["-vv", "run", "-n", NAME, "--lock-at-most-for", "1m"])
            .args(["--", "true"]),
    );
    assert!(is_clean(&ran.stderr), "{:?}", ran.stderr);
    let json = done(&mut sandbox.shedlock(&["list", "-o", "json"]));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["locks"][0]["name"], NAME);
    signal(holder.id(), Signal::TERM);
    end(holder);
}

#[test]
fn an_owner_cannot_spoof_the_output() {
    let sandbox = Sandbox::migrated();
    let url = sandbox.store();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let statement = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
                         VALUES ('a', 4102444800000, 1000, ?)";
        let owner = "web\u{202e}\u{1b}[2J\n\u{85}fdp.exe";
        sqlx::query(statement)
            .bind(owner)
            .execute(&mut connection)
            .await
            .unwrap();
    });
    for arguments in [
        &["list"][..],
        &["show", "a"],
        &["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"],
        &["unlock", "a", "--force", "--owner", "b"],
        &["unlock", "a", "--force"],
    ] {
        let done = done(&mut sandbox.shedlock(arguments));
        let said = done.stdout + &done.stderr;
        assert!(is_clean(&said), "{arguments:?}: {said:?}");
        assert!(
            said.contains("web\\u{202e}\\u{1b}[2J\\n\\u{85}fdp"),
            "{arguments:?}: {said}"
        );
    }
}

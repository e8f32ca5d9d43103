//! `shedlock prune` removes old records on each store, and no others.

use std::time::Duration;

use serde_json::Value;
use shedlock_redis::redis::{Client, cmd};
use shedlock_rig::given;
use tokio::runtime::Runtime;

use crate::common::{Done, Sandbox, done};
use crate::places::Place;

/// The path of libfaketime, which `cargo xtask test` installs.
pub(crate) const LIBRARY: &str = "SHEDLOCK_TEST_FAKETIME";
const AGE: Duration = Duration::from_secs(100 * 86_400);

pub(crate) fn can_change_clocks() -> bool {
    given::is_prepared() || std::env::var_os(LIBRARY).is_some()
}

pub(crate) fn only_old_records_are_removed(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let command = |arguments: &[&str], store: &str, clock: Option<&str>| {
        let mut command = sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", store);
        if let Some(clock) = clock {
            let library = std::env::var(LIBRARY).unwrap_or_default();
            let library = command.env("LD_PRELOAD", library).env("FAKETIME", clock);
            library.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        done(&mut command)
    };
    let here = |arguments: &[&str]| command(arguments, &locks.url, None);
    let run = |name| ["run", "-n", name, "--lock-at-most-for", "1m", "--", "true"];
    succeeded(&here(&["migrate", "--no-journal"]));

    // These stores can judge by the clock of the command; the others always do.
    let by_command = match place.kind() {
        "postgres" | "mysql" | "sqlite" | "mongodb" => {
            let separator = if locks.url.contains('?') { '&' } else { '?' };
            format!("{}{separator}time=client", locks.url)
        }
        _ => locks.url.clone(),
    };
    for name in ["expire-acme", "expire-wayne"] {
        succeeded(&command(&run(name), &by_command, Some("-100d")));
    }
    if place.kind() == "redis" {
        let record = |name| format!("shedlock-rs:{{job-lock:{}:{name}}}", locks.name);
        let keys = ["expire-acme", "expire-wayne"].map(record);
        Runtime::new()
            .unwrap()
            .block_on(aged(&place.server()?, &keys));
    }
    succeeded(&here(&run("mail")));

    let shown = here(&["prune", "--no-shedlock", "--idle-for", "90d"]);
    assert_eq!(
        shown
            .stdout
            .matches(": would be removed; idle for 100d ")
            .count(),
        2,
        "{shown:?}"
    );
    let removed = here(&["prune", "--no-shedlock", "--idle-for", "90d", "--yes"]);
    succeeded(&removed);
    for name in ["expire-acme", "expire-wayne"] {
        let line = format!("{name}: removed; idle for 100d ");
        assert!(removed.stdout.contains(&line), "{removed:?}");
    }
    let listed = here(&["list", "-o", "json"]);
    let json: Value = serde_json::from_str(&listed.stdout).map_err(|error| error.to_string())?;
    let names: Vec<_> = json["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["mail"], "{listed:?}");
    // A lock whose record was removed can be taken.
    succeeded(&here(&run("expire-acme")));
    Ok(())
}

#[track_caller]
fn succeeded(ended: &Done) {
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// Makes these records look as if they had been written earlier: their server judges by its own clock.
async fn aged(server: &str, keys: &[String]) {
    let client = Client::open(server).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for key in keys {
        let record: String = cmd("GET")
            .arg(key)
            .query_async(&mut connection)
            .await
            .unwrap();
        let earlier = |word: &str| match word.parse::<u128>() {
            Ok(micros) => (micros - AGE.as_micros()).to_string(),
            Err(_) => word.to_owned(),
        };
        let line = |line: &str| line.split(' ').map(earlier).collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = record.lines().map(line).collect();
        let () = cmd("SET")
            .arg(key)
            .arg(lines.join("\n"))
            .query_async(&mut connection)
            .await
            .unwrap();
    }
}

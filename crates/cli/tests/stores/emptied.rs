//! A store that was emptied beside a journal elsewhere: as a cache that was flushed, or a table that was dropped and
//! created again.

use serde_json::Value;

use crate::common::{Sandbox, done};
use crate::places::Place;

/// What an emptied store has lost does not run before someone has looked at it, and comes back from the journal.
pub(crate) fn a_store_that_was_emptied_is_restored(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let (full, empty) = (
        place.locks(&sandbox.path(""))?,
        place.locks(&sandbox.path("empty"))?,
    );
    let journal = format!("sqlite:{}", sandbox.path("journal.db").display());
    let command = |store: &str, arguments: &[&str]| {
        let mut command = sandbox.bare(arguments);
        command.env("SHEDLOCK_STORE", store);
        done(command.env("SHEDLOCK_JOURNAL_STORE", &journal))
    };
    let run = |store: &str, name: &str| {
        let of = ["run", "-n", name, "--lock-at-most-for", "1m"];
        let slot = ["--every", "1d", "--slot-tolerance", "1m"];
        let script = ["--", "echo", "ran"];
        match name {
            "paused" => command(store, &[&of[..], &script].concat()),
            _ => command(store, &[&of[..], &slot, &script].concat()),
        }
    };
    assert_eq!(command(&full.url, &["migrate"]).code, 0);
    for name in ["paused", "slot"] {
        let ran = run(&full.url, name);
        assert_eq!(&*ran.stdout, "ran\n", "{ran:?}");
    }
    assert_eq!(command(&full.url, &["pause", "paused"]).code, 0);

    let migrated = command(&empty.url, &["migrate"]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
    assert!(migrated.stderr.contains("has no identity"), "{migrated:?}");
    for name in ["paused", "slot"] {
        let refused = run(&empty.url, name);
        assert_eq!((refused.code, &*refused.stdout), (69, ""), "{refused:?}");
    }
    let restore = ["migrate", "--restore-from-journal", "--yes", "-o", "json"];
    let restored = command(&empty.url, &restore);
    let found: Value = serde_json::from_str(&restored.stdout).unwrap();
    let lost = found["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 2, "{found}");
    assert!(lost.iter().all(|it| it["is_restored"] == true), "{found}");
    for name in ["paused", "slot"] {
        let skipped = run(&empty.url, name);
        assert_eq!((skipped.code, &*skipped.stdout), (0, ""), "{skipped:?}");
    }
    let list = command(&empty.url, &["list", "-o", "json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let names: Vec<&Value> = list["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["paused", "slot"], "{list}");
    Ok(())
}

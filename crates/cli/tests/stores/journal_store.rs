//! Locks in a store that cannot keep a journal, and the journal in one that can.

use serde_json::Value;

use crate::common::{Sandbox, done};
use crate::places::{self, Place};

pub(crate) fn a_fleet_keeps_its_journal_in_another_store(place: &Place) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let keepers = places::all().into_iter();
    for keeper in keepers.filter(|it| ["sqlite", "postgres"].contains(&it.name)) {
        let journal = keeper.locks(&sandbox.path(""))?;
        let command = |arguments: &[&str]| {
            let mut command = sandbox.bare(arguments);
            command.env("SHEDLOCK_STORE", &locks.url);
            done(command.env("SHEDLOCK_JOURNAL_STORE", &journal.url))
        };
        let migrated = command(&["migrate"]);
        assert_eq!(migrated.code, 0, "{migrated:?}");
        let run = ["run", "-n", "a", "--every", "1h", "--slot-tolerance", "1h"];
        let run = [&run[..], &["--lock-at-most-for", "1m", "--", "true"]].concat();
        let ran = command(&run);
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
        assert_eq!(command(&["pause", "a"]).code, 0);
        assert_eq!(command(&["resume", "a"]).code, 0);
        let history = command(&["history", "a", "-o", "json"]).stdout;
        let history: Value = serde_json::from_str(&history).unwrap();
        assert_eq!(history["runs"][0]["outcome"], "succeeded", "{history}");
        assert_eq!(history["actions"].as_array().unwrap().len(), 2, "{history}");
        let jobs = command(&["jobs", "-o", "json"]).stdout;
        let jobs: Value = serde_json::from_str(&jobs).unwrap();
        assert_eq!(jobs["store"], keeper.kind(), "{jobs}");
        assert!(jobs["jobs"][0]["deadline"].is_string(), "{jobs}");
        assert_eq!(
            command(&["slot", "reset", "a", "--to", "2020-01-01T00:00:00Z"]).code,
            0
        );
    }
    Ok(())
}

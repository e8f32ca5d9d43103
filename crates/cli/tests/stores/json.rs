//! The JSON output has the fields that `docs/json.md` lists, on each store.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Done, Sandbox, done};
use crate::places::{Locks, Place};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");

/// The document's example of this command.
fn example(document: &str, heading: &str) -> Value {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, json) = section.split_once("```json\n").unwrap();
    serde_json::from_str(json.split("```").next().unwrap()).unwrap()
}

fn fields(value: &Value) -> BTreeSet<&str> {
    let fields = value.as_object().unwrap_or_else(|| panic!("{value}"));
    fields.keys().map(String::as_str).collect()
}

struct Commands<'a> {
    sandbox: &'a Sandbox,
    locks: &'a Locks,
    kind: &'a str,
}

impl Commands<'_> {
    fn done(&self, arguments: &[&str]) -> Done {
        let mut command = self.sandbox.bare(arguments);
        done(command.env("SHEDLOCK_STORE", &self.locks.url))
    }

    /// What the command prints, if it ends with this code.
    fn printed(&self, code: i32, arguments: &[&str]) -> Value {
        let ended = self.done(&[arguments, &["--output", "json"]].concat());
        assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
        let printed: Value = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {ended:?}"));
        assert_eq!(printed["version"], 1, "{printed}");
        if printed.get("store").is_some() {
            assert_eq!(printed["store"], self.kind, "{printed}");
        }
        printed
    }
}

pub(crate) fn json_has_the_documented_fields(place: &Place) -> Result<(), String> {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let sandbox = Sandbox::new();
    let locks = place.locks(&sandbox.path(""))?;
    let commands = Commands {
        sandbox: &sandbox,
        locks: &locks,
        kind: place.kind(),
    };
    let same = |printed: &Value, heading: &str| {
        let example = example(&document, heading);
        assert_eq!(fields(printed), fields(&example), "{heading}: {printed}");
        example
    };
    let migrated = commands.printed(0, &["migrate", "--no-journal"]);
    same(&migrated, "`migrate`");
    let has_journal = !commands
        .done(&["migrate"])
        .stderr
        .contains("cannot keep a journal");
    let config = commands.printed(0, &["config"]);
    let expected = same(&config, "`config`");
    assert_eq!(
        fields(&config["settings"][0]),
        fields(&expected["settings"][0])
    );
    let found = commands.printed(0, &["doctor"]);
    let expected = same(&found, "`doctor`");
    for finding in found["findings"].as_array().unwrap() {
        assert_eq!(fields(finding), fields(&expected["findings"][0]));
    }
    let ran = commands.done(&["run", "-n", "a", "--lock-at-most-for", "1m", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");

    let list = commands.printed(0, &["list"]);
    let expected = same(&list, "`list`");
    let of_lock = fields(&expected["locks"][0]);
    let is_lock = |lock: &Value| assert_eq!(fields(lock), of_lock, "{lock}");
    is_lock(&list["locks"][0]);
    let has = |printed: &Value, names: &[&str]| {
        let all = ["version", "store"].iter().chain(names).copied();
        assert_eq!(fields(printed), all.collect(), "{printed}");
    };
    let shown = commands.printed(0, &["show", "a"]);
    has(&shown, &["lock"]);
    is_lock(&shown["lock"]);
    assert_eq!(commands.printed(1, &["show", "none"])["lock"], Value::Null);
    let at_most = ["--lock-at-most-for", "1m", "--for", "50ms"];
    let held = commands.printed(0, &[&["hold", "b"][..], &at_most].concat());
    has(&held, &["lock"]);
    is_lock(&held["lock"]);
    assert_eq!(held["lock"]["state"], "held");

    let paused = commands.printed(0, &["pause", "a", "--reason", "why"]);
    let expected = same(&paused, "`pause` and `resume`");
    assert_eq!(fields(&paused["paused"][0]), fields(&expected["paused"][0]));
    is_lock(&paused["paused"][0]["before"]);
    let held = commands.printed(0, &[&["hold", "a"][..], &at_most].concat());
    assert_eq!(held["lock"], Value::Null);
    let freed = commands.printed(1, &["unlock", "a", "--force"]);
    has(&freed, &["freed_by", "lock"]);
    assert_eq!(freed["freed_by"], Value::Null);
    assert_eq!(freed["lock"]["state"], "paused");
    let resumed = commands.printed(0, &["resume", "a"]);
    has(&resumed, &["resumed_by", "resumed"]);
    is_lock(&resumed["resumed"][0]);
    let extended = commands.printed(1, &["extend", "a", "--for", "1h"]);
    has(&extended, &["locked_until", "lock"]);
    is_lock(&extended["lock"]);
    let reset = commands.printed(1, &["slot", "reset", "a"]);
    has(&reset, &["last_slot", "lock"]);

    let refused = commands.printed(2, &["pause", "a", "--for", "1"]);
    let expected = example(&document, "Errors");
    assert_eq!(fields(&refused), fields(&expected));
    assert_eq!(fields(&refused["error"]), fields(&expected["error"]));
    if !has_journal {
        return Ok(());
    }
    let ran = commands.done(&["run", "-n", "a", "--lock-at-most-for", "1m", "--", "false"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let jobs = commands.printed(0, &["jobs"]);
    let expected = same(&jobs, "`jobs`");
    assert_eq!(fields(&jobs["jobs"][0]), fields(&expected["jobs"][0]));
    let history = commands.printed(0, &["history", "a"]);
    let expected = same(&history, "`history NAME`");
    assert_eq!(fields(&history["runs"][0]), fields(&expected["runs"][0]));
    let actions = history["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 2, "{history}");
    assert_eq!(fields(&actions[0]), fields(&expected["actions"][0]));
    Ok(())
}

//! Draws defects from the list of cargo-mutants, by seed.

use super::patch::{MOST_LINES, Patch, changed_lines};
use crate::host;
use crate::steps;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A part of the product, from which some defects are drawn.
struct Room {
    /// The letter that the names of its patches begin with.
    letter: char,
    /// The folder with its files.
    folder: &'static str,
    /// How many are drawn.
    number: usize,
    /// The tests that concern it, the cheapest first.
    tests: &'static str,
}

/// Two thirds of all planted defects. The other third is written by hand, after defects that were fixed.
const ROOMS: [Room; 7] = [
    Room {
        letter: 'c',
        folder: "crates/core/src/",
        number: 18,
        tests: "shedlock-core lib, shedlock-core tests, shedlock-conformance memory, shedlock-cli command",
    },
    Room {
        letter: 's',
        folder: "crates/scheduler/src/",
        number: 9,
        tests: "shedlock-scheduler lib, shedlock-scheduler tests, shedlock-simulation simulation, shedlock scheduled",
    },
    Room {
        letter: 't',
        folder: "stores/common/src/",
        number: 8,
        tests: "shedlock-provider lib, shedlock-provider tests, shedlock-sql conformance_sqlite, shedlock-consul conformance, \
            shedlock-consul tests, shedlock-redis tests, shedlock-cli command, shedlock-cli stores",
    },
    Room {
        letter: 'q',
        folder: "stores/sql/src/",
        number: 11,
        tests: "shedlock-sql lib, shedlock-sql sqlite, shedlock-sql conformance_sqlite, shedlock-sql postgres, \
            shedlock-sql mysql, shedlock-sql conformance_postgres, shedlock-sql conformance_mariadb, shedlock-cli stores, \
            shedlock-cli doctor",
    },
    Room {
        letter: 'r',
        folder: "stores/redis/src/",
        number: 6,
        tests: "shedlock-redis lib, shedlock-redis redis, shedlock-redis journal, shedlock-redis late, \
            shedlock-redis conformance_redis, shedlock-redis tests, shedlock-cli stores",
    },
    Room {
        letter: 'm',
        folder: "stores/mongodb/src/",
        number: 4,
        tests: "shedlock-mongodb lib, shedlock-mongodb mongodb, shedlock-mongodb journal, shedlock-mongodb late, \
            shedlock-mongodb conformance, shedlock-cli stores",
    },
    Room {
        letter: 'k',
        folder: "crates/cli/src/",
        number: 10,
        tests: "shedlock-cli bins, shedlock-cli command, shedlock-cli doctor, shedlock-cli sql, shedlock-cli stores",
    },
];

/// A mutant as cargo-mutants lists it.
#[derive(Clone, Deserialize)]
struct Mutant {
    name: String,
    file: String,
    diff: String,
    genre: String,
    replacement: String,
    function: Option<Function>,
}

#[derive(Clone, Deserialize)]
struct Function {
    function_name: String,
}

impl Mutant {
    /// Whether it is small enough, in code that users run, and likely to compile.
    fn is_eligible(&self) -> bool {
        let value = &*self.replacement;
        let is_guessed = ["Default", "from_iter", "::from(", "leak", "::new("]
            .iter()
            .any(|word| value.contains(word));
        if self.genre == "FnValue" && is_guessed && value != "String::new()" {
            return false;
        }
        let name = self.function.as_ref().map_or("", |it| &it.function_name);
        // No one depends on what `{:?}` prints.
        let is_debug = name.contains("Debug for");
        let is_tests = self.file.contains("/test") || self.file.ends_with("fuzz.rs");
        changed_lines(&self.diff) <= MOST_LINES && !is_debug && !is_tests
    }

    /// The patch for it. cargo-mutants names its own word for the change as the second file.
    fn patch(&self, room: &Room, seed: u64) -> String {
        let Self {
            name, file, diff, ..
        } = self;
        let hunks: String = diff
            .lines()
            .skip(2)
            .map(|line| line.replace(" /* ~ changed by cargo-mutants ~ */", "") + "\n")
            .collect();
        let what = name.splitn(4, ':').nth(3).unwrap_or(name).trim();
        let tests = room.tests;
        format!(
            "What: {what}\nFrom: cargo mutants, seed {seed}: {name}\nTests: {tests}\n---\n\
             diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n{hunks}"
        )
    }

    /// A name for its file: where it is.
    fn file_name(&self, room: &Room, number: usize) -> String {
        let file = self.file.trim_start_matches(room.folder);
        let file = file.trim_end_matches(".rs");
        let file = file.trim_end_matches("/mod").replace(['/', '_'], "-");
        format!("{}{number:02}-{file}.patch", room.letter)
    }
}

/// Draws all patches that do not exist yet. A patch of the same number is kept; remove one that does not compile, and
/// the next of the same sequence takes its place.
pub(super) fn run(seed: u64, folder: &Path) -> anyhow::Result<()> {
    if host::find_program("cargo-mutants").is_none() {
        bail!("cargo-mutants is not installed: get it with `cargo install --locked cargo-mutants`");
    }
    let mut list = Command::new("cargo-mutants");
    list.args(["mutants", "--list", "--json", "--diff", "--workspace"]);
    let list = host::output(list.current_dir(steps::workspace_root()))?;
    let mutants: Vec<Mutant> = serde_json::from_str(&list).context("the list of cargo-mutants")?;
    fs::create_dir_all(folder).context("testing/planted cannot be created")?;
    let kept = super::patches(folder)?;
    let drawn_before = drawn_before(folder, &kept);
    for room in &ROOMS {
        let is_here =
            |mutant: &&Mutant| mutant.file.starts_with(room.folder) && mutant.is_eligible();
        let here: Vec<_> = mutants.iter().filter(is_here).collect();
        let mut drawn = sequence(seed ^ u64::from(room.letter), here.len())
            .map(|index| here[index])
            .filter(|mutant| !drawn_before.contains(&mutant.name));
        for number in 1..=room.number {
            let prefix = format!("{}{number:02}-", room.letter);
            if kept.iter().any(|it| it.name.starts_with(&prefix)) {
                continue;
            }
            let mutant = drawn.next().context("there are too few mutants")?;
            let file = folder.join(mutant.file_name(room, number));
            fs::write(&file, mutant.patch(room, seed)).context("a patch cannot be written")?;
            println!("{}: {}", file.display(), mutant.name);
        }
    }
    Ok(())
}

/// The names of mutants that were drawn and rejected, with the reason: one a line, in `rejected.txt`; and those in use.
fn drawn_before(folder: &Path, kept: &[Patch]) -> Vec<String> {
    let rejected = fs::read_to_string(folder.join("rejected.txt")).unwrap_or_default();
    let rejected = rejected.lines().filter_map(|line| line.split_once(" | "));
    let rejected = rejected.map(|(name, _)| name.to_owned());
    let in_use = kept.iter().filter_map(|patch| patch.mutant.clone());
    rejected.chain(in_use).collect()
}

/// Indices below `end` in an order that the seed determines (splitmix64), each once.
fn sequence(seed: u64, end: usize) -> impl Iterator<Item = usize> {
    let mut state = seed;
    let mut keyed: Vec<(u64, usize)> = (0..end)
        .map(|index| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut key = state;
            key = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            key = (key ^ (key >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (key ^ (key >> 31), index)
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, index)| index)
}

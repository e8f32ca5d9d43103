//! `cargo xtask table`: the tables of stores in `README.md` and `docs/stores.md`, from the registry of stores and from
//! the profiles that the conformance kit checks against the real stores (`tests/profiles/` of their packages).

use crate::steps;
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use shedlock::__stores::STORES;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// The rows of every profile, in this order, and their titles in the table.
const ROWS: [(&str, &str); 19] = [
    (
        "law01",
        "**1** leases of one name never overlap; judged by the clock of",
    ),
    (
        "law02",
        "**2** an attempt on a held lock returns at once and reports the holder",
    ),
    ("law03", "**3** a late holder changes nothing"),
    ("law04", "**4** `lock_at_least_for` is kept"),
    (
        "law05",
        "**5** a dead holder's lock becomes free when its lease ends, late by at most",
    ),
    (
        "law06",
        "**6** a store failure is an error, never a skip; an attempt whose reply was lost is sent again",
    ),
    (
        "law07",
        "**7** recovers from records and tables deleted by hand",
    ),
    ("law08", "**8** fencing tokens"),
    (
        "law09",
        "**9** slots: at most one run per scheduled instant",
    ),
    ("law09_open", "**9** slots: at least one, in order"),
    (
        "law10",
        "**10** no two names share a record; names up to this length (UTF-8 bytes) are always accepted",
    ),
    ("law11", "**11** stays out of the caller's transaction"),
    ("law12", "**12** uses ShedLock's own record, unchanged"),
    (
        "law13",
        "**13** round trips: an attempt that gets the lock / the first attempt on a new name / an attempt on a held lock / extension / unlock",
    ),
    (
        "law13_worst",
        "**13** at worst, an attempt that gets no reply: requests / time, with the default timeouts",
    ),
    ("longest", "longest `lock_at_most_for`"),
    ("durable", "locks survive a crash of the store"),
    ("hosts", "works across hosts"),
    ("tested_on", "tested on version"),
];

/// The folder for the profile of a store, inside the package that tests it.
const FOLDER: &str = "tests/profiles";

const BEGIN: &str = "<!-- stores: made by `cargo xtask table` -->\n";
const END: &str = "<!-- end of stores -->\n";

/// One store, as the kit has written it.
#[derive(Debug, Deserialize)]
struct Sheet {
    title: String,
    rows: BTreeMap<String, String>,
}

/// Writes both tables.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    for (path, _, renewed) in tables()? {
        fs::write(&path, renewed).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Each file with a table: its path, its text, and the text with the table as it should be.
fn tables() -> anyhow::Result<[(PathBuf, String, String); 2]> {
    let sheets = sheets()?;
    let file = |path: &str, table: &str| {
        let path = steps::workspace_root().join(path);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let renewed = with_table(&text, table)
            .with_context(|| format!("cannot find the table in {}", path.display()))?;
        anyhow::Ok((path, text, renewed))
    };
    Ok([
        file("README.md", &index(&sheets))?,
        file("docs/stores.md", &table(&sheets)?)?,
    ])
}

/// One row for each store: how to connect to it, which feature enables it, and the versions it is tested on.
fn index(sheets: &[Sheet]) -> String {
    let mut table =
        String::from("| store | URL | cargo feature | tested on |\n|---|---|---|---|\n");
    for (entry, sheet) in STORES.iter().zip(sheets) {
        let urls = entry.schemes.iter().map(|scheme| format!("`{scheme}:`"));
        let features = entry.features.iter().map(|(name, _)| format!("`{name}`"));
        let [urls, mut features] =
            [urls.collect::<Vec<_>>(), features.collect()].map(|it| it.join(", "));
        if features.is_empty() {
            features.push_str("always built in");
        }
        let tested_on = sheet.rows.get("tested_on").map_or("", String::as_str);
        table += &format!("| {} | {urls} | {features} | {tested_on} |\n", entry.title);
    }
    table
}

/// All sheets, in the order of the registry.
fn sheets() -> anyhow::Result<Vec<Sheet>> {
    let root = steps::workspace_root();
    let mut packages = vec![root.join("crates/conformance")];
    for entry in fs::read_dir(root.join("stores")).context("there is no folder stores")? {
        packages.push(entry?.path());
    }
    let mut files = BTreeMap::new();
    for package in packages {
        let Ok(folder) = fs::read_dir(package.join(FOLDER)) else {
            continue;
        };
        for entry in folder {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), path);
        }
    }
    let mut sheets = Vec::new();
    for entry in STORES {
        let path = files.remove(entry.name).with_context(|| {
            format!(
                "no package of a store has {FOLDER}/{}.json: run its conformance tests with \
                 SHEDLOCK_SHEETS=write",
                entry.name
            )
        })?;
        let text = fs::read_to_string(&path)?;
        let sheet: Sheet = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a profile of the kit", path.display()))?;
        ensure!(
            sheet.title == entry.title,
            "{} calls {} {}",
            path.display(),
            entry.title,
            sheet.title
        );
        sheets.push(sheet);
    }
    if let Some(path) = files.into_values().next() {
        bail!("{} is named after no store", path.display());
    }
    Ok(sheets)
}

/// One row per law, one column per store.
fn table(sheets: &[Sheet]) -> anyhow::Result<String> {
    let mut table = String::from("| |");
    for sheet in sheets {
        table += &format!(" {} |", sheet.title);
        ensure!(
            sheet.rows.len() == ROWS.len(),
            "the profile of {} has other rows than the table: write it again with \
             SHEDLOCK_SHEETS=write",
            sheet.title
        );
    }
    table += &format!("\n|---{}|\n", "|---".repeat(sheets.len()));
    for (key, words) in ROWS {
        table += &format!("| {words} |");
        for sheet in sheets {
            let cell = sheet.rows.get(key);
            let cell = cell.with_context(|| format!("{} has no row {key}", sheet.title))?;
            table += &format!(" {cell} |");
        }
        table.push('\n');
    }
    Ok(table)
}

/// The text with this table between its marks.
fn with_table(text: &str, table: &str) -> anyhow::Result<String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        bail!("the marks of the table are missing: {BEGIN}and {END}");
    };
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_of_the_profiles() {
        for (path, text, renewed) in tables().unwrap() {
            assert!(
                text == renewed,
                "the table of stores in {} is out of date: run `cargo xtask table`",
                path.display()
            );
        }
    }

    #[test]
    fn a_table_stands_between_its_marks_however_often_it_is_made() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let once = with_table(&text, "| new |\n").unwrap();
        assert_eq!(once, format!("before\n{BEGIN}\n| new |\n\n{END}after\n"));
        assert_eq!(with_table(&once, "| new |\n").unwrap(), once);
        assert!(with_table("no marks", "").is_err());
    }

    #[test]
    fn a_profile_that_lacks_a_row_makes_no_table() {
        let mut rows: BTreeMap<_, _> = ROWS
            .into_iter()
            .map(|(key, _)| (key.to_owned(), "yes".to_owned()))
            .collect();
        rows.remove("law08");
        let title = "a store".to_owned();
        assert!(table(&[Sheet { title, rows }]).is_err());
    }
}

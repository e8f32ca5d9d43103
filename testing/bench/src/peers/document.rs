//! The stored results of a run: `docs/peers.json`, its plot, and its tables in `docs/performance.md`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context as _;

use super::outcome::Outcome;
use super::{plot, table};

const BEGIN: &str = "<!-- begin: made by `SHEDLOCK_BLESS=1 cargo xtask bench --peers` -->\n";
const END: &str = "<!-- end -->\n";
const PICTURE: &str = "![pairs per second of all contenders](peers.svg)\n";

/// Whether to write the documents.
pub(super) fn is_wanted() -> bool {
    env::var_os("SHEDLOCK_BLESS").is_some()
}

/// Writes all three.
pub(super) fn write(outcome: &Outcome) -> anyhow::Result<()> {
    keep(
        "performance.md",
        &with_tables(&kept("performance.md")?, outcome)?,
    )?;
    keep("peers.svg", &plot::svg(outcome)?)?;
    keep("peers.json", &outcome.json()?)
}

/// The document with these tables between its markers.
fn with_tables(document: &str, outcome: &Outcome) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("no tables begin")?;
    let (_, after) = rest.split_once(END).context("the tables do not end")?;
    let tables = table::markdown(outcome);
    Ok(format!(
        "{before}{BEGIN}\n{PICTURE}\n{tables}\n{END}{after}"
    ))
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

fn kept(name: &str) -> anyhow::Result<String> {
    fs::read_to_string(path(name)).with_context(|| format!("docs/{name} cannot be read"))
}

fn keep(name: &str, text: &str) -> anyhow::Result<()> {
    fs::write(path(name), text).with_context(|| format!("docs/{name} cannot be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_picture_are_those_of_the_kept_run() {
        let outcome: Outcome = serde_json::from_str(&kept("peers.json").unwrap()).unwrap();
        let document = kept("performance.md").unwrap();
        if is_wanted() {
            write(&outcome).unwrap();
            return;
        }
        let advice =
            "made by hand, or by another version: SHEDLOCK_BLESS=1 cargo test -p shedlock-benches";
        assert!(
            document == with_tables(&document, &outcome).unwrap(),
            "{advice}"
        );
        assert!(
            kept("peers.svg").unwrap() == plot::svg(&outcome).unwrap(),
            "{advice}"
        );
    }
}

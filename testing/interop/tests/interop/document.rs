//! Compares `docs/interop.md` with the expectations here.

use std::path::Path;

use anyhow::{Context as _, bail};
use shedlock_interop::{Fleets, table};

use crate::cases::CASES;

const BEGIN: &str = "<!-- begin: made by `SHEDLOCK_BLESS=1 cargo xtask interop` -->\n";
const END: &str = "<!-- end -->\n";

pub(crate) fn check() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop.md");
    let document = std::fs::read_to_string(&path).context("docs/interop.md cannot be read")?;
    let rows: Vec<_> = CASES
        .iter()
        .map(|case| (case.says, Fleets::ALL.map(|fleet| case.cell(fleet))))
        .collect();
    let wanted = format!("{BEGIN}\n{}\n{END}", table(&rows));
    let (before, rest) = document.split_once(BEGIN).context("no table begins")?;
    let (_, after) = rest.split_once(END).context("the table does not end")?;
    let whole = format!("{before}{wanted}{after}");
    if whole == document {
        return Ok(());
    }
    if std::env::var_os("SHEDLOCK_BLESS").is_some() {
        return std::fs::write(&path, whole).context("docs/interop.md cannot be written");
    }
    bail!(
        "the table of docs/interop.md is not what the tests show: SHEDLOCK_BLESS=1 cargo xtask interop"
    )
}

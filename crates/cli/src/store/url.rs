//! The URL of a store: where it comes from, and what this command can open.

use std::path::Path;

use shedlock::__stores::{STORES, StoreEntry};

use super::{file, sqlite};
use crate::exit::Failure;

/// Refuses the URL of a store that this command cannot open.
pub(super) fn check(url: &str, from: &str) -> Result<(), Failure> {
    sqlite::check(url, from)?;
    let Some(entry) = missing(url) else {
        return Ok(());
    };
    let name = entry.name;
    let tool = entry.build_tool.map_or_else(String::new, |tool| {
        format!(", whose client needs {tool} at build time")
    });
    Err(Failure::usage(format!(
        "{from}: this command was built without {name}{tool}; rebuild it with `--features {name}`, \
         for example with `cargo install shedlock-cli --features {name}`"
    )))
}

/// The URL in this file, and where it came from.
pub(super) fn of_file(path: &Path, from: &str) -> Result<(String, String), Failure> {
    let from = match path.as_os_str().is_empty() {
        true => from.to_owned(),
        false => format!("{from} ({})", path.display()),
    };
    Ok((file::read(path, &from)?, from))
}

/// The store of this URL, if this command was built without it.
fn missing(url: &str) -> Option<&'static StoreEntry> {
    let scheme = url.split(':').next().unwrap_or_default();
    let mut others = STORES.iter().filter(|entry| !entry.is_built_in);
    others.find(|entry| {
        let mut schemes = entry.schemes.iter();
        schemes.any(|it| scheme.eq_ignore_ascii_case(it))
    })
}

//! The URL of a store: where it comes from, and what this command can open.

use std::ffi::OsString;
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

/// The URL in the first of these variables or in the file that the second one names, and where it
/// came from.
pub(super) fn of_variables(
    [url, file]: [&str; 2],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<(String, String)>, Failure> {
    match (variable(url), variable(file)) {
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "{url} and {file} are both set: unset one of them"
        ))),
        (Some(value), None) => {
            let value = value.into_string().map_err(|_| {
                Failure::usage(format!("{url} is not valid UTF-8: set it to a URL"))
            })?;
            Ok(Some((value, url.to_owned())))
        }
        (None, Some(path)) => of_file(Path::new(&path), file).map(Some),
        (None, None) => Ok(None),
    }
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

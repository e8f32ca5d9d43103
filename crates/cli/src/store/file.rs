//! The URL of the store in a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use shedlock::__stores::STORES;

use super::sqlite;
use crate::exit::Failure;

/// Longer than any URL.
const LONGEST: u64 = 64 * 1024;

/// Reads the URL. `from` is the option or variable that names the file.
///
/// The file is a secret, which may have been mounted in the wrong place: no message contains a part
/// of a text that is not the URL of a store.
pub(super) fn read(path: &Path, from: &str) -> Result<String, Failure> {
    let refused = |why: &str| {
        Failure::usage(format!(
            "{from}: {why}; write only the URL of the store into the file, on one line, like \
             postgres://app@db/app"
        ))
    };
    if path.as_os_str().is_empty() {
        return Err(Failure::usage(format!(
            "{from} is set but empty: set it to a file with the URL of the store"
        )));
    }
    let bytes = bytes(path)
        .map_err(|error| Failure::usage(format!("{from}: cannot read the file: {error}")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refused("the file is too long"));
    }
    let url = String::from_utf8(bytes).map_err(|_| refused("the file is not UTF-8"))?;
    let url = url.trim();
    if url.is_empty() {
        return Err(refused("the file is empty"));
    }
    if url.lines().count() > 1 {
        return Err(refused("the file has more than one line"));
    }
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let schemes = STORES.iter().flat_map(|entry| entry.schemes);
    if !schemes
        .into_iter()
        .any(|it| scheme.eq_ignore_ascii_case(it))
    {
        return Err(refused("the file contains no URL of a store"));
    }
    if sqlite::check(url, from).is_err() {
        return Err(Failure::usage(format!(
            "{from}: the path in the file is relative; write an absolute path"
        )));
    }
    Ok(url.to_owned())
}

pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

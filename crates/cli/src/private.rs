//! Files that other users of this host must not be able to change, or to put in the place of this program's.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use shedlock::Owner;

/// Replaces a file in one step.
///
/// Others may be able to create files in its folder, so the new file has a name that no one can foresee, and one that
/// exists, such as a link, is not opened.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // The collector of the node exporter reads only names that end with `.prom`.
    let mut new = file.to_owned().into_os_string();
    new.push(format!(".{}", random()));
    let new = PathBuf::from(new);
    let mut options = OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)?;
    let replaced = opened
        .write_all(bytes)
        .and_then(|()| fs::rename(&new, file));
    if replaced.is_err() {
        // The error is about the write.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// A text for the name of a file.
pub(crate) fn random() -> String {
    let random = Owner::generate();
    let random = random.as_str().rsplit('/').next();
    random.unwrap_or_default().to_owned()
}

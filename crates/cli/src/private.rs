//! Files that other users of this host must not be able to change, or to put in the place of this program's.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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

/// Refuses a file or folder that another user could have changed, except root. What does not exist is fine.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match why_not_ours(path) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(io::Error::other(why)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn why_not_ours(path: &Path) -> io::Result<Option<String>> {
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |found: &Metadata| [user, 0].contains(&found.uid());
    let place = path.display();
    let link = fs::symlink_metadata(path)?;
    let target = fs::metadata(path)?;
    for found in [link, target] {
        if !is_ours(&found) {
            let owner = found.uid();
            return Ok(Some(format!(
                "{place} belongs to another user (uid {owner}), who could change locks and runs in it; \
                 set XDG_STATE_HOME to a directory of your own, or run as that user"
            )));
        }
        if !found.is_symlink() && found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o7777;
            return Ok(Some(format!(
                "other users may write to {place} (mode {mode:04o}), so they could change locks and runs \
                 in it; if you trust its content, run `chmod go-w {place}`"
            )));
        }
    }
    Ok(None)
}

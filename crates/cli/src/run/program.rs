//! The command's file, found before the lock is requested.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// Finds the program like a shell: a name with a slash is a path, and any other is searched for in
/// PATH.
///
/// This happens before the lock is requested. A host without the command must not take the lock,
/// and with at-least the whole turn, from a host that has it.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    find_in(name, std::env::var_os("PATH"))
}

fn find_in(name: &OsStr, path: Option<OsString>) -> Result<PathBuf, Failure> {
    let shown = name.to_string_lossy();
    let candidates: Vec<PathBuf> = if name.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else if name.is_empty() {
        Vec::new()
    } else {
        let path = path.unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .collect()
    };
    if let Some(program) = candidates.iter().find(|file| is_executable(file)) {
        return Ok(program.clone());
    }
    let broken = candidates.iter().find(|file| file.is_symlink());
    Err(
        match candidates.iter().find(|file| file.exists()).or(broken) {
            Some(link) if !link.exists() => Failure::new(
                NOT_FOUND,
                format!(
                    "cannot run {shown:?}: it is a symbolic link to {}, which does not exist; the lock \
                 was not requested",
                    fs::read_link(link).unwrap_or_default().display()
                ),
            ),
            Some(file) if file.is_dir() => Failure::new(
                NOT_EXECUTABLE,
                format!("cannot run {shown:?}: it is a directory"),
            ),
            Some(file) => Failure::new(
                NOT_EXECUTABLE,
                format!(
                    "cannot run {shown:?}: permission denied; {} is not executable by this user",
                    file.display()
                ),
            ),
            None => Failure::new(
                NOT_FOUND,
                format!("command not found: {shown:?}; the lock was not requested"),
            ),
        },
    )
}

/// Why the system refuses to run a script: its `#!` line names an interpreter that does not exist, or that cannot be
/// executed.
pub(super) fn broken_interpreter(script: &Path) -> Option<String> {
    let mut start = [0; 256];
    let length = fs::File::open(script).ok()?.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let word = line
        .split(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())?;
    let interpreter = Path::new(OsStr::from_bytes(word));
    let shown = interpreter.display();
    if !interpreter.exists() {
        return Some(format!("its interpreter {shown} (#! line) was not found"));
    }
    (!is_executable(interpreter))
        .then(|| format!("its interpreter {shown} (#! line) is not executable by this user"))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_shells_find_them() {
        let path = || Some(OsString::from("/nowhere:/bin:/usr/bin"));
        assert!(find_in("sh".as_ref(), path()).unwrap().ends_with("sh"));
        assert!(find_in("sh".as_ref(), None).is_ok());
        assert_eq!(
            find_in("/bin/sh".as_ref(), None).unwrap(),
            Path::new("/bin/sh")
        );
        for (name, message) in [
            ("no-such-command", "command not found"),
            ("./no-such-command", "command not found"),
            ("", "command not found"),
            ("/etc", "it is a directory"),
            ("/etc/passwd", "permission denied"),
        ] {
            let failure = find_in(name.as_ref(), path()).unwrap_err();
            assert!(failure.message().contains(message), "{}", failure.message());
        }
    }
}

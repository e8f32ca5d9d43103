//! The file: created if it is missing, refused if it is unsuitable.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Error, ErrorKind, Operation};
use shedlock_provider::{Result, configuration, internal};

use super::{Embedded, File, filesystem};
use crate::driver::How;
use crate::failure::{Class, Failure};
use crate::statement::{Field, Reply, Statement, Values};

/// Creates the file and its directory if they are missing, and checks that they are suitable. Returns true if it created
/// the file.
///
/// # Errors
/// `Configuration` whose message contains the path.
pub(super) async fn prepare<B: Embedded>(file: File, clock: &Arc<dyn Clock>) -> Result<bool> {
    let (create, options) = (file.create, B::options(&file));
    // File systems block, sometimes for long.
    let made = tokio::task::spawn_blocking(move || make(&file)).await;
    let made =
        made.map_err(|error| internal("cannot check the database file").with_source(error))?;
    let made = made?;
    if made.is_empty && create {
        write_ahead::<B>(&options, clock).await?;
    }
    Ok(made.is_created)
}

struct Made {
    /// Created here. Another process that creates it at the same time finds it there.
    is_created: bool,
    /// Nothing is in it yet.
    is_empty: bool,
}

fn make(file: &File) -> Result<Made> {
    let path = &file.path;
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    if !directory.exists() {
        if !file.create {
            return Err(missing(path));
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let made = builder.create(directory);
        made.map_err(|error| uncreatable(directory, error))?;
    }
    if let Some(name) = filesystem::network(directory).filter(|_| !file.allow_network_fs) {
        let why = format!(
            "it is on {name}, a network file system, where SQLite's locking is unreliable: two \
             holders of one lock are possible"
        );
        return Err(refused(path, &why).advise(
            "put it on a local disk, or set allow_network_fs=true if only one machine ever uses it",
        ));
    }
    if path.is_dir() {
        return Err(refused(path, "it is a directory").advise("name a file in it"));
    }
    let unopenable = |error| unopenable(path, error);
    let is_created = file.create && create(path).map_err(unopenable)?;
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if !file.create => missing(path),
        _ => unopenable(error),
    })?;
    #[cfg(unix)]
    {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
        may(path, Access::READ_OK | Access::WRITE_OK).map_err(|error| unopenable(error.into()))?;
        // The journal is next to the file, so the directory must accept new files.
        let checked = may(directory, Access::WRITE_OK | Access::EXEC_OK);
        checked.map_err(|error| unwritable(directory, error.into()))?;
    }
    Ok(Made {
        is_created,
        is_empty: found.len() == 0,
    })
}

/// Creates the file for its owner alone, and returns whether it was missing.
///
/// The new file is never closed, and an existing one is never opened: closing any descriptor of a file releases all POSIX
/// locks that the process has on it, and so those of every other SQLite connection in this process. Another process
/// that closes the file then believes that nothing else uses it, and removes the write-ahead log that is in use.
fn create(path: &Path) -> io::Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let (file, is_new) = match options.clone().create_new(true).open(path) {
        // It is a link to a missing file, or has just been created by another process.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (options.create(true).open(path)?, false)
        }
        created => (created?, true),
    };
    #[expect(
        clippy::mem_forget,
        reason = "closing it would end the locks of this process on the file"
    )]
    std::mem::forget(file);
    Ok(is_new)
}

/// The refusal of a file that SQLite does not recognize.
pub(super) fn is_no_database(path: &Path) -> Error {
    refused(path, "it is not a SQLite database").advise("name another file in the store's URL")
}

/// Puts a new file into WAL mode, which is stored in the file. SQLite does not wait for other
/// processes here, so this function does.
async fn write_ahead<B: Embedded>(options: &B::Options, clock: &Arc<dyn Clock>) -> Result<()> {
    const TRIES: usize = 200;
    let mut connection = B::connect(options).await.map_err(unusable)?;
    let mut pragma = Statement::plain("PRAGMA journal_mode = WAL");
    pragma.fields = &[Field::Name];
    let is_on = |reply: &Reply| {
        let mode = reply.row().and_then(|row| row.name.as_deref());
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("wal"))
    };
    for _ in 0..TRIES {
        match B::run(&mut connection, &pragma, &Values::default(), How::Plain).await {
            Ok(reply) if is_on(&reply) => {
                B::close(connection).await;
                return Ok(());
            }
            // Busy, reported as an error or not: another process has just created the same file.
            Ok(_) => {}
            Err(failure) if failure.class == Class::Busy => {}
            Err(failure) => return Err(unusable(failure)),
        }
        let soon = clock.now() + Duration::from_millis(10);
        clock.sleep_until(soon).await;
    }
    // The file works without WAL too, but readers and writers then wait for each other.
    tracing::warn!(
        "cannot switch the new SQLite file to WAL mode: readers and writers block each other"
    );
    Ok(())
}

fn unusable(failure: Failure) -> Error {
    let error = match failure.class {
        Class::Full => {
            let what = "cannot create the database: the disk of the file is full";
            Error::new(ErrorKind::Unavailable, what).advise("free space on it")
        }
        _ => configuration("cannot use the file as a SQLite database")
            .advise("check the file, or set another one"),
    };
    error.with_source(failure.source)
}

const SAME_FILE: &str =
    "do not just use another file: its locks would not be shared with the users of this one";

fn unopenable(path: &Path, error: io::Error) -> Error {
    let advice = if is_about_path(&error) {
        "check that files can be created in its directory".to_owned()
    } else {
        format!(
            "run as a user who may write to the file and its directory, or grant this user that \
             right, but {SAME_FILE}"
        )
    };
    configuration(format!("file {path:?} cannot be opened for writing"))
        .advise(advice)
        .with_source(error)
}

fn uncreatable(directory: &Path, error: io::Error) -> Error {
    let advice = if is_about_path(&error) {
        "check that directories can be created there".to_owned()
    } else {
        // The right that is missing belongs to the directory that exists.
        let existing = directory.ancestors().skip(1).find(|parent| parent.exists());
        let parent = existing.unwrap_or(Path::new("."));
        format!("create it for this user, or let this user write to {parent:?}, but {SAME_FILE}")
    };
    configuration(format!("cannot create the directory {directory:?}"))
        .advise(advice)
        .with_source(error)
}

fn unwritable(directory: &Path, error: io::Error) -> Error {
    configuration(format!(
        "cannot create files in the directory {directory:?}"
    ))
    .advise(format!(
        "let this user write to it, or run as a user who may, but {SAME_FILE}"
    ))
    .with_source(error)
}

/// The path leads nowhere, whoever uses it.
fn is_about_path(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn missing(path: &Path) -> Error {
    configuration(format!("no such file: {path:?}"))
        .advise(("check the path, or", Operation::CreateFile))
}

fn refused(path: &Path, why: &str) -> Error {
    configuration(format!("file {path:?} cannot hold locks: {why}"))
}

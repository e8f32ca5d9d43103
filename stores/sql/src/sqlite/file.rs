//! The file: made where it is missing, refused where it cannot serve.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{Clock, Error};
use shedlock_store::{Result, configuration, internal};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use super::{Place, filesystem};

/// Makes the file and its folder where they are missing, and checks that they can serve.
///
/// # Errors
/// `Configuration` that names the path.
pub(super) async fn prepare(
    place: Place,
    connect: &SqliteConnectOptions,
    clock: &Arc<dyn Clock>,
) -> Result<()> {
    // File systems block, some of them for long.
    let made = tokio::task::spawn_blocking(move || make(&place)).await;
    let is_new =
        made.map_err(|error| internal("looking at the database file failed").with_source(error))?;
    if is_new? {
        write_ahead(connect, clock).await?;
    }
    Ok(())
}

/// True where the file is new, or empty as one that another process has just made.
fn make(place: &Place) -> Result<bool> {
    let path = &place.path;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.exists() {
        if !place.create {
            return Err(refused(path, "its folder does not exist and create=false"));
        }
        make_folder(folder).map_err(cannot("folder", folder, "made"))?;
    }
    if let Some(name) = filesystem::network(folder).filter(|_| !place.allow_network_fs) {
        return Err(refused(
            path,
            &format!(
                "it lies on {name}, a network file system, on which SQLite cannot keep processes \
                 apart: two holders of one lock would be possible; put it on a local disk, or set \
                 allow_network_fs=true if only one machine ever uses it"
            ),
        ));
    }
    if path.is_dir() {
        return Err(refused(path, "it is a folder"));
    }
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(place.create);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if !place.create => {
            refused(path, "it does not exist and create=false")
        }
        _ => cannot("file", path, "opened for writing")(error),
    })?;
    // The journal lies beside the file: the folder must take new files.
    check_folder(folder).map_err(cannot("folder", folder, "written"))?;
    let found = file.metadata().map_err(cannot("file", path, "looked at"))?;
    Ok(found.len() == 0)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
fn check_folder(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let access = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, folder, access, AtFlags::EACCESS)?)
}

#[cfg(not(unix))]
fn check_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Puts a new file into WAL mode, which stays with the file. SQLite does not wait for others here,
/// so that waiting is ours.
async fn write_ahead(connect: &SqliteConnectOptions, clock: &Arc<dyn Clock>) -> Result<()> {
    const TRIES: usize = 200;
    let mut connection = connect.connect().await.map_err(not_a_database)?;
    for _ in 0..TRIES {
        match journal_mode(&mut connection).await {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => {
                // A connection that does not say goodbye does no harm.
                let _ = connection.close().await;
                return Ok(());
            }
            // Busy, with or without words: another process has just made the same file.
            Ok(_) => {}
            Err(sqlx::Error::Database(error))
                if error.code().is_some_and(|code| is_busy(&code)) => {}
            Err(error) => return Err(not_a_database(error)),
        }
        clock
            .sleep_until(clock.now() + Duration::from_millis(10))
            .await;
    }
    // The file serves without WAL too; readers and writers then wait for each other.
    tracing::warn!("the new SQLite file could not be put into WAL mode");
    Ok(())
}

async fn journal_mode(connection: &mut SqliteConnection) -> Result<String, sqlx::Error> {
    sqlx::query("PRAGMA journal_mode = WAL")
        .fetch_one(connection)
        .await?
        .try_get(0)
}

fn is_busy(code: &str) -> bool {
    code.parse::<i32>()
        .is_ok_and(|code| matches!(code & 0xff, 5 | 6))
}

fn not_a_database(error: sqlx::Error) -> Error {
    configuration("the file cannot be used as a SQLite database; the reason is the source")
        .with_source(error)
}

fn cannot(what: &str, path: &Path, done: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        configuration(format!(
            "{what} {path:?} cannot be {done} ({}): give a path that this user may write to",
            error.kind()
        ))
        .with_source(error)
    }
}

fn refused(path: &Path, why: &str) -> Error {
    configuration(format!("file {path:?} cannot hold locks: {why}"))
}

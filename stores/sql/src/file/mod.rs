//! Databases in files: opened, and created if they are missing.

mod filesystem;
mod prepare;

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use shedlock_core::Schema;
use shedlock_provider::{Result, StoreProvider, UrlOptions, invalid};

use crate::call::SqlStore;
use crate::dialect::sqlite::SQLITE;
use crate::driver::Driver;
use crate::failure::Class;
use crate::options::TIMEOUT;
use crate::url::Address;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The driver panics for values that exceed 32 bits of milliseconds.
const LONGEST_BUSY_TIMEOUT: Duration = Duration::from_secs(86_400);

/// A file of a database, and how it is opened.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    create: bool,
    allow_network_fs: bool,
    busy_timeout: Duration,
}

/// A driver for databases in files.
pub trait Embedded: Driver {
    /// The options for sessions of this file, which exists. Commits are on disk when they return.
    fn options(file: &File) -> Self::Options;
}

/// Opens the file at this path with default settings, and creates it and the table if they are missing.
///
/// # Errors
/// `Configuration` if the directory or file cannot be created or written, and for a network file system.
pub async fn open_path<B: Embedded>(path: PathBuf) -> Result<StoreProvider<SqlStore<B>>> {
    let opened = open::<B>(File::of(path.clone())).await?;
    Ok(opened.reopened_by(move || open::<B>(File::of(path.clone()).existing())))
}

async fn open<B: Embedded>(file: File) -> Result<StoreProvider<SqlStore<B>>> {
    let opened = file.open::<B>(Address::parse("sqlite:")?).await;
    opened.map_err(|error| error.with_store(B::STORE))
}

impl File {
    /// With default settings.
    fn of(path: PathBuf) -> Self {
        Self {
            path,
            create: true,
            allow_network_fs: false,
            busy_timeout: BUSY_TIMEOUT,
        }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long a statement waits while another process writes.
    #[must_use]
    pub fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }

    /// Parses a URL. Nothing is opened.
    ///
    /// # Errors
    /// `InvalidInput` if it is wrong.
    pub fn described(url: &str) -> Result<(Address, Self)> {
        let mut address = Address::parse(url)?;
        let file = Self::read(url, &mut address.options)?;
        address.for_driver("")?;
        Ok((address, file))
    }

    /// What the file of this URL needs. Nothing is opened.
    ///
    /// # Errors
    /// `InvalidInput` if the URL is wrong.
    pub fn schema(url: &str) -> Result<Schema> {
        let (address, _) = Self::described(url)?;
        Ok(SQLITE.schema(&SQLITE.options(address.settings)?))
    }

    /// Opens the file with the settings of a URL. The file and the table are created if they are missing, unless the
    /// URL says otherwise.
    ///
    /// # Errors
    /// As [`open_path`], and as the store's first call.
    pub async fn open<B: Embedded>(
        self,
        mut address: Address,
    ) -> Result<StoreProvider<SqlStore<B>>> {
        // If a statement may wait longer for other writers, a call may take longer.
        let timeout = TIMEOUT.max(self.busy_timeout * 2);
        address.settings.timeout.get_or_insert(timeout);
        let store = address.store::<B>(B::options(&self), 1)?;
        let (path, create) = (self.path.clone(), self.create);
        let is_created = prepare::prepare::<B>(self, &store.options.clock).await?;
        let call = store.call();
        let found = call.columns_at(&store.options).await;
        if found.is_err_and(|failure| failure.class == Class::NotADatabase) {
            return Err(prepare::is_no_database(&path));
        }
        if create && call.create_if_missing().await? {
            let new = if is_created { "the new file " } else { "" };
            let change = format!("created table {} in {new}{path:?}", store.options.table);
            let created = store.created.lock();
            created.unwrap_or_else(PoisonError::into_inner).push(change);
            // From now on the file has the pages, and not only its log.
            call.make_space().await;
        }
        // As on a server: the first call about a lock reports that the table is missing.
        call.check_unless_to_migrate().await?;
        Ok(store.provider())
    }

    /// Nothing is created.
    #[must_use]
    pub fn existing(self) -> Self {
        Self {
            create: false,
            ..self
        }
    }

    fn read(url: &str, options: &mut UrlOptions) -> Result<Self> {
        // A path must not be split into a URL's host and path: `sqlite://locks.db` is a file here.
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let path = path.split_once(':').map_or(path, |(_, rest)| rest);
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8().map_err(|error| {
            invalid("the path in the store's URL is not UTF-8")
                .advise("use another path")
                .with_source(error)
        })?;
        if path.is_empty() {
            return Err(invalid("the store's URL has no file")
                .advise("write sqlite:FILE, like sqlite:/var/lib/app/locks.db"));
        }
        if path.contains(":memory:") {
            return Err(invalid(
                "an in-memory database cannot hold locks: it is visible to one connection only",
            )
            .advise(
                "write sqlite:FILE, like sqlite:/var/lib/app/locks.db (tests written in Rust can \
                 use `MemoryProvider`)",
            ));
        }
        let busy_timeout = options.duration("busy_timeout")?.unwrap_or(BUSY_TIMEOUT);
        if busy_timeout > LONGEST_BUSY_TIMEOUT {
            return Err(invalid(
                "option \"busy_timeout\" in the URL must be at most a day",
            ));
        }
        Ok(Self {
            path: PathBuf::from(&*path),
            create: options.flag("create")?.unwrap_or(true),
            allow_network_fs: options.flag("allow_network_fs")?.unwrap_or(false),
            busy_timeout,
        })
    }
}

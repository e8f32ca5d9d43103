//! `shedlock list`, `show` and `migrate`: inspecting a store, and preparing it.

use std::process::ExitCode;

use shedlock::{Error, ListRequest, LockName, LockRecord};

use crate::args::{ListArgs, MigrateArgs, ShowArgs};
use crate::exit::{ABSENT, Failure};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

/// Prints all locks.
pub(crate) async fn list(args: &ListArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.store, terminal).await?;
    let locks = all_locks(&store, args.held).await?;
    let text = output::locks(store.provider().store(), &locks, args.output.format);
    terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one lock.
pub(crate) async fn show(args: &ShowArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let name = LockName::new(&args.name)?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let lock = store.provider().inspect(&name).await?;
    let text = output::lock(store.provider().store(), lock.as_ref(), args.output.format);
    terminal.print(&text)?;
    if lock.is_none() {
        terminal.error(&format!(
            "no lock {:?} in {}; to see all, run `shedlock list{}`",
            name.as_str(),
            store.place(),
            args.store.option()
        ));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prepares the store and prints the changes.
pub(crate) async fn migrate(args: &MigrateArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let store = Store::open(&args.store, terminal).await?;
    let migration = store.provider().migrate().await?;
    let text = output::migration(store.provider().store(), &migration, args.output.format);
    terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn all_locks(store: &Store, held_only: bool) -> Result<Vec<LockRecord>, Error> {
    let mut locks = Vec::new();
    let mut request = ListRequest::new();
    if held_only {
        request = request.held_only();
    }
    loop {
        let page = store.provider().list(&request).await?;
        let is_last = page.len() < request.limit();
        locks.extend(page);
        match locks.last() {
            Some(last) if !is_last => request = request.with_after(last.name.clone()),
            _ => return Ok(locks),
        }
    }
}

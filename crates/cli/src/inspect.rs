//! `shedlock show` and `migrate`: inspecting one lock, and preparing a store.

use std::process::ExitCode;

use shedlock::LockName;

use crate::args::{MigrateArgs, ShowArgs};
use crate::exit::{ABSENT, Failure};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;

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
    let mut migration = store.provider().migrate().await?;
    if args.journal {
        let Some(journal) = store.provider().journal() else {
            return Err(Failure::usage(format!(
                "a store of kind {} cannot keep a journal yet: leave --journal out",
                store.provider().store()
            )));
        };
        migration.changes.extend(journal.migrate().await?.changes);
    }
    let text = output::migration(store.provider().store(), &migration, args.output.format);
    terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

//! `shedlock show`: inspecting one lock.

use std::process::ExitCode;

use shedlock::LockName;

use crate::args::ShowArgs;
use crate::exit::{ABSENT, Failure};
use crate::output;
use crate::store::Store;
use crate::terminal::Terminal;
use crate::words;

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
            words::store_option()
        ));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

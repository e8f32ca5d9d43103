//! `shedlock unlock --force`: freeing a lock from outside.

use std::process::ExitCode;

use shedlock::{ForcedUnlock, LockName};
use shedlock_journal::view::unlock_by_operator;

use crate::args::UnlockArgs;
use crate::audit::{Action, Trail, taken_from};
use crate::exit::{ABSENT, Failure};
use crate::output::{self, visible};
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;
use crate::user;
use crate::words;

/// Frees the lock, and prints its previous state and who freed it.
pub(crate) async fn unlock(args: &UnlockArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let name = LockName::new(&args.name)?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let provider = store.provider();
    let seen = provider.inspect(&name).await?;
    let owner = args.owner.as_deref();
    let answer = unlock_by_operator(&**provider, &name, seen.as_ref(), owner).await?;
    let (lock, is_freed, why_not) = match answer {
        ForcedUnlock::Freed(lock) => {
            let action = Action {
                what: "unlock",
                name: &name,
                detail: taken_from(Some(&lock))
                    .unwrap_or_else(|| "it was kept after its last run".to_owned()),
                reason: "",
                until: None,
            };
            Trail::of(&store, terminal).record(action).await;
            (Some(lock), true, None)
        }
        ForcedUnlock::OwnerDiffers(lock) => {
            let owner = lock.owner.clone().unwrap_or_default();
            let why = format!("its owner is {owner:?}");
            (Some(lock), false, Some(why))
        }
        ForcedUnlock::Paused(lock) => {
            let resume = format!(
                "it is paused; to resume it, run `shedlock resume {}{}`",
                output::shell_word(name.as_str()),
                words::store_option()
            );
            (Some(lock), false, Some(resume))
        }
        _ if seen.is_none() => (None, false, Some(no_such_lock(&store, &args.store))),
        _ => (seen, false, Some("it is not held".to_owned())),
    };
    let text = output::unlock(
        provider.store(),
        lock.as_ref(),
        is_freed.then(user::at_host).as_deref(),
        args.output.format,
    );
    terminal.print(&text)?;
    if let Some(why) = why_not {
        terminal.error(&format!("{}: not freed: {why}", visible(name.as_str())));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

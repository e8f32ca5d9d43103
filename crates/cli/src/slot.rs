//! `shedlock slot`: correcting the slots of a lock.

use std::process::ExitCode;

use shedlock::{LockName, ResetSlotRequest, Slot, SlotReset};

use crate::args::ResetArgs;
use crate::exit::{ABSENT, Failure};
use crate::output;
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;

/// Sets the last slot that was taken, and prints its previous value.
pub(crate) async fn reset(args: &ResetArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let name = LockName::new(&args.name)?;
    let mut request = ResetSlotRequest::new(name.clone());
    if let Some(to) = args.to {
        request = request.with_slot(Slot::at(to.into())?);
    }
    let store = Store::open_existing(&args.store, terminal).await?;
    let provider = store.provider();
    let (lock, now, why_not) = match provider.reset_slot(&request).await? {
        SlotReset::Reset {
            before, last_slot, ..
        } => (Some(before), Some(last_slot), None),
        SlotReset::NotAhead(lock) => (
            Some(lock),
            None,
            Some(
                "it is not ahead of the store's clock; to set it anyway, give a time with --to"
                    .to_owned(),
            ),
        ),
        _ => match provider.inspect(&name).await? {
            Some(_) => (None, None, Some("no slot was ever taken".to_owned())),
            None => (None, None, Some(no_such_lock(&store, &args.store))),
        },
    };
    let text = output::slot_reset(provider.store(), lock.as_ref(), now, args.output.format);
    terminal.print(&text)?;
    if let Some(why) = why_not {
        terminal.error(&format!(
            "the last slot of {:?} was not changed: {why}",
            name.as_str()
        ));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

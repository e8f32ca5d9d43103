//! `shedlock slot`: correcting the slots of a lock.

use std::process::ExitCode;
use std::time::SystemTime;

use shedlock::{
    ClockOffset, LockName, LockProvider, LockRecord, ResetSlotRequest, Slot, SlotReset,
    SystemClock, admin,
};
use shedlock_journal::view::{is_far_ahead, slot_detail};

use crate::args::ResetArgs;
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure};
use crate::output::{self, visible};
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
    if let (Some(to), false) = (args.to, args.force) {
        refuse_far_ahead(args, to.into(), provider.inspect(&name).await?.as_ref())?;
    }
    let (lock, now, why_not) = match admin::reset_slot(&**provider, &request).await? {
        SlotReset::Reset {
            before, last_slot, ..
        } => {
            let action = Action {
                what: "slot-reset",
                name: &name,
                detail: slot_detail(&before, last_slot),
                reason: "",
                until: None,
            };
            Trail::of(&store, terminal).record(action).await;
            (Some(before), Some(last_slot), None)
        }
        SlotReset::NotAhead(lock) => (Some(lock), None, Some(not_ahead(&**provider).await)),
        _ => match provider.inspect(&name).await? {
            Some(_) => (None, None, Some("no slot was ever taken".to_owned())),
            None => (None, None, Some(no_such_lock(&store, &args.store))),
        },
    };
    let text = output::slot_reset(provider.store(), lock.as_ref(), now, args.output.format);
    terminal.print(&text)?;
    if let Some(why) = why_not {
        terminal.error(&format!(
            "{}: the last slot was not changed: {why}",
            visible(name.as_str())
        ));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why nothing is reset. A slot can seem to be ahead on a host whose own clock is behind.
async fn not_ahead(provider: &dyn LockProvider) -> String {
    let clocks = ClockOffset::measure(provider, &SystemClock).await;
    let off = match clocks.ok().flatten().filter(ClockOffset::is_off) {
        Some(clock) => format!(": {clock}; set this host's clock (NTP)"),
        None => String::new(),
    };
    format!("it is not ahead of the store's clock{off}; to set it anyway, give a time with --to")
}

/// A mistyped time is refused.
fn refuse_far_ahead(
    args: &ResetArgs,
    to: SystemTime,
    lock: Option<&LockRecord>,
) -> Result<(), Failure> {
    if !lock.is_some_and(|lock| is_far_ahead(to, lock.read_at)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: the last slot was not changed: {} is more than a day ahead of the store's clock, and \
         no slot before it would run; check the time, or confirm it with --force",
        visible(&args.name),
        output::second(to),
    )))
}

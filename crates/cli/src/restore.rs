//! `shedlock migrate --restore-from-journal`: putting back what the locks have lost.

use std::process::ExitCode;

use shedlock::{
    Clock as _, Journal, JournalWriter, LockName, LockProvider, Operation, Owner, RestoredSlot,
    Slot, SystemClock, identify_store, store_identity,
};
use shedlock_core::within;
use shedlock_journal::view::{LostPause, LostSlot, LostState, all_jobs, lost_in_words};

use crate::args::MigrateArgs;
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure, STORE};
use crate::journal::{FLUSH, existing, required};
use crate::output::{self, Item, Lost, shell_word};
use crate::store::Store;
use crate::terminal::Terminal;
use crate::words;

/// Gives the store of the locks an identity, unless it has one. Returns whether it did.
///
/// If the journal has the records of another store, this one may be that store, emptied. Then it gets no identity, which
/// keeps what was lost from being run, and a warning says so.
pub(crate) async fn identify(
    store: &Store,
    journal: Option<&dyn Journal>,
    args: &MigrateArgs,
    terminal: Terminal,
) -> Result<bool, Failure> {
    let provider = &**store.provider();
    if store_identity(provider).await?.is_some() {
        return Ok(false);
    }
    if let Some(journal) = journal.filter(|_| !args.new_identity) {
        let now = SystemClock.system_time();
        let jobs = all_jobs(journal).await?;
        let lost = LostState::of_all(provider, journal, &jobs, now).await?;
        if let Some(other) = lost.others.first() {
            let what = match lost.is_empty() {
                true => "the records of another lock store".to_owned(),
                false => lost_in_words(&lost, now),
            };
            let option = words::store_option();
            terminal.warning(&format!(
                "this lock store has no identity, and the journal has {what}, of lock store {other}: if this is that \
                 store, which was dropped, flushed or restored, run `shedlock migrate --restore-from-journal{option}`; if it \
                 is another one, run `shedlock migrate --new-identity{option}`"
            ));
            return Ok(false);
        }
    }
    identify_store(provider, None).await?;
    Ok(true)
}

/// Refuses to take a lock that was lost: the store has no identity, and according to the journal the lock is
/// paused, or its slot was taken. Otherwise a flushed store would run what no one has looked at.
///
/// A journal that does not reply in time refuses nothing.
pub(crate) async fn refuse_lost(
    store: &Store,
    name: &str,
    slot: Option<SlotOf>,
    writer: Option<&JournalWriter>,
) -> Result<(), Failure> {
    let provider = &**store.provider();
    let now = SystemClock.system_time();
    let compared = async {
        let identity = store_identity(provider).await?;
        if let Some(writer) = writer {
            writer.of_known_locks(provider, identity.clone());
        }
        if identity.is_some() {
            return Ok::<_, shedlock::Error>(None);
        }
        let Some(journal) = existing(store.journal()).await? else {
            return Ok(None);
        };
        let of = (name, &LockName::new(name)?);
        Ok(Some(
            LostState::of_lock(provider, &*journal, of, now).await?,
        ))
    };
    let Some(Ok(Some(mut lost))) = within(&SystemClock, FLUSH, compared).await else {
        return Ok(());
    };
    // A later slot may run, unless that leaves out one that is not done.
    let matters = |of: SlotOf, lost: &LostSlot| {
        of.slot <= lost.slot || of.must_not_be_lost && !lost.has_succeeded()
    };
    lost.slots
        .retain(|lost| slot.is_some_and(|of| matters(of, lost)));
    if lost.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        STORE,
        format!(
            "the store has lost {}, which the journal has; to put it back, run `shedlock migrate --restore-from-journal \
             --yes{option}`; if this store never had it, run `shedlock migrate --new-identity{option}`",
            lost_in_words(&lost, now),
            option = words::store_option(),
        ),
    ))
}

/// The slot that an attempt claims.
#[derive(Clone, Copy)]
pub(crate) struct SlotOf {
    pub(crate) slot: Slot,
    pub(crate) must_not_be_lost: bool,
}

/// Prints what the journal can put back, and does it with `--yes`.
pub(crate) async fn restore(args: &MigrateArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.store, terminal).await?;
    let place = store.journal_place();
    let journal = required(&place).await?;
    let provider = store.provider();
    let now = SystemClock.system_time();
    let jobs = all_jobs(&*journal).await?;
    let mut lost = LostState::of_all(&**provider, &*journal, &jobs, now).await?;
    let asked = args.restore_from_journal.as_deref().unwrap_or_default();
    let identity = choose(&lost, asked, &place.place)?;
    lost.retain_of(&identity);
    let mut items = Vec::new();
    let mut trail = Trail::of(&store, terminal);
    // The identity comes last: until then, no lock runs that was lost.
    for pause in &lost.pauses {
        items.push(restore_pause(&**provider, pause, args, &mut trail).await?);
    }
    for slot in &lost.slots {
        let known = slot.known(&*journal).await?;
        items.push(restore_slot(&**provider, (slot, known), args, &mut trail).await?);
    }
    if args.yes {
        identify_store(&**provider, Some(Owner::parse(&identity)?)).await?;
    }
    let format = args.output.format;
    terminal.print(&output::restored(provider.store(), &items, now, format))?;
    if items.is_empty() {
        terminal.notice("the locks have the slots and pauses of the journal: nothing to restore");
    } else if !args.yes {
        terminal.notice("nothing was changed; to put this back, add --yes");
    }
    Ok(ExitCode::SUCCESS)
}

/// Restores a pause, with `--yes`.
async fn restore_pause(
    provider: &dyn LockProvider,
    pause: &LostPause,
    args: &MigrateArgs,
    trail: &mut Trail,
) -> Result<Item, Failure> {
    let action = &pause.action;
    let mut is_restored = None;
    if args.yes {
        is_restored = Some(pause.restore(provider).await?);
    }
    if is_restored == Some(true) {
        let action = Action {
            what: "pause",
            name: &LockName::new(&*action.name)?,
            detail: format!("restored from the journal; paused by {}", action.actor),
            reason: action.reason.as_deref().unwrap_or_default(),
            until: Some(pause.until),
        };
        trail.record(action).await;
    }
    Ok(Item {
        name: action.name.clone(),
        what: Lost::Pause(pause.until),
        is_restored,
    })
}

/// Restores a slot as the journal knows it, with `--yes`.
async fn restore_slot(
    provider: &dyn LockProvider,
    (slot, known): (&LostSlot, RestoredSlot),
    args: &MigrateArgs,
    trail: &mut Trail,
) -> Result<Item, Failure> {
    let mut is_restored = None;
    if args.yes {
        is_restored = Some(slot.restore(provider, known).await?);
    }
    if is_restored == Some(true) {
        let action = Action {
            what: "restore",
            name: &LockName::new(&*slot.name)?,
            detail: format!("the last slot is now {}", slot.slot),
            reason: "",
            until: None,
        };
        trail.record(action).await;
    }
    Ok(Item {
        name: slot.name.clone(),
        what: Lost::Slot(slot.slot, known),
        is_restored,
    })
}

/// The identity of the store whose records are put back.
fn choose(lost: &LostState, asked: &str, place: &str) -> Result<String, Failure> {
    let listed: Vec<&str> = lost.others.iter().map(String::as_str).collect();
    let listed = listed.join(", ");
    match &lost.store {
        Some(own) if asked.is_empty() || own == asked => return Ok(own.clone()),
        Some(own) => {
            return Err(Failure::usage(format!(
                "--restore-from-journal: these locks are those of lock store {own}, and the records of another store are \
                 not restored here"
            )));
        }
        None => {}
    }
    match (lost.others.len(), lost.others.contains(asked)) {
        (_, true) => Ok(asked.to_owned()),
        (1, _) if asked.is_empty() => Ok(listed),
        (0, _) => Err(Failure::new(
            ABSENT,
            format!(
                "nothing can be restored: the journal of {place} has no runs or pauses of a lock store with an \
                 identity; run {}, which gives this store one, so that they can be restored from then on",
                Operation::Migrate
            ),
        )),
        _ => Err(Failure::usage(format!(
            "--restore-from-journal: the journal of {place} has the records of these lock stores, name the one that this \
             store replaces, as in --restore-from-journal={}: {listed}",
            shell_word(lost.others.first().map_or("…", String::as_str)),
        ))),
    }
}

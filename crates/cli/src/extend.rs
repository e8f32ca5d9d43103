//! `shedlock extend`: a later end for the current lease of a lock.

use std::process::ExitCode;
use std::time::SystemTime;

use shedlock::{
    AttemptRequest, ExtendRequest, Extension, Lease, LockName, LockRecord, LockState, Owner,
};

use crate::args::ExtendArgs;
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure};
use crate::output::{self, visible};
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;

/// What became of the lease.
enum Outcome {
    /// It ends at this time, if the store reports it.
    Extended(Option<SystemTime>),
    /// It was not extended, for this reason.
    Not(String),
}

/// Extends the lease, and prints its new and its previous end.
pub(crate) async fn extend(args: &ExtendArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let Target {
        name,
        owner,
        is_own,
    } = Target::of(args, |name| std::env::var(name).ok())?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let before = store.provider().inspect(&name).await?;
    let outcome = match &before {
        Some(lock) => extend_lock(&store, args, lock, owner.as_deref()).await?,
        None => Outcome::Not(no_such_lock(&store, &args.store)),
    };
    let until = match &outcome {
        Outcome::Extended(Some(until)) => Ok(Some(*until)),
        // MySQL returns no row from a write.
        Outcome::Extended(None) => {
            let lock = store.provider().inspect(&name).await;
            lock.map(|lock| lock.and_then(|lock| lock.locked_until))
        }
        Outcome::Not(_) => Ok(None),
    };
    if let (Outcome::Extended(_), Some(before), false) = (&outcome, &before, is_own) {
        let action = Action {
            what: "extend",
            name: &name,
            detail: detail(before, until.as_ref().ok().copied().flatten()),
            reason: "",
        };
        Trail::of(&store, &args.store, terminal)
            .record(action)
            .await;
    }
    let until = until?;
    let kind = store.provider().store();
    terminal.print(&output::extended(
        kind,
        before.as_ref(),
        until,
        args.output.format,
    ))?;
    if let Outcome::Not(why) = outcome {
        terminal.error(&format!("{}: not extended: {why}", visible(name.as_str())));
        return Ok(ExitCode::from(ABSENT));
    }
    Ok(ExitCode::SUCCESS)
}

/// The lease before, and the new end if it is known.
fn detail(before: &LockRecord, until: Option<SystemTime>) -> String {
    let owner = before.owner.as_deref().unwrap_or_default();
    let text = |end: Option<SystemTime>, word| {
        end.map_or_else(String::new, |end| {
            format!("{word} until {}", output::second(end))
        })
    };
    let (now, was) = (text(until, ""), text(before.locked_until, "; it was"));
    format!("held by {owner}{now}{was}")
}

/// The lock that is meant.
struct Target {
    name: LockName,
    /// The owner that must hold it.
    owner: Option<String>,
    /// Whether this command is a part of the run that holds it, and no operator's.
    is_own: bool,
}

impl Target {
    fn of(args: &ExtendArgs, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let around = variable("SHEDLOCK_NAME");
        let Some(name) = args.name.clone().or_else(|| around.clone()) else {
            return Err(Failure::usage(
                "no lock is named: write its name, like `shedlock extend NAME --for 30m`; without a name \
                 this works only in a command of `shedlock run`, which sets SHEDLOCK_NAME",
            ));
        };
        let is_around = around.as_ref() == Some(&name);
        let own = variable("SHEDLOCK_OWNER").filter(|_| is_around);
        let owner = args.owner.clone().or_else(|| own.clone());
        Ok(Self {
            name: LockName::new(&name)?,
            is_own: owner.is_some() && owner == own,
            owner,
        })
    }
}

async fn extend_lock(
    store: &Store,
    args: &ExtendArgs,
    lock: &LockRecord,
    expected: Option<&str>,
) -> Result<Outcome, Failure> {
    let owner = lock.owner.as_deref().unwrap_or_default();
    if lock.state != LockState::Held {
        let state = output::state_in_words(lock.state);
        let next = match lock.state {
            LockState::Paused => {
                let (name, store) = (output::shell_word(lock.name.as_str()), args.store.option());
                format!(
                    "; to change the end of the pause, run `shedlock pause {name} --until \
                     TIME{store}`, and to end it `shedlock resume {name}{store}`"
                )
            }
            _ => String::new(),
        };
        return Ok(Outcome::Not(format!("it is not held; it is {state}{next}")));
    }
    if expected.is_some_and(|expected| expected != owner) {
        return Ok(Outcome::Not(format!("its owner is {owner:?}")));
    }
    let Ok(owner) = Owner::parse(owner) else {
        return Ok(Outcome::Not(format!(
            "ShedLock for Java holds it ({owner:?}), and extends its own leases only"
        )));
    };
    let lease = Lease::granted(&AttemptRequest::new(lock.name.clone(), owner, args.lasts));
    let request = ExtendRequest::new(args.lasts);
    let extension = store.provider().extend(&lease, &request).await;
    match extension.map_err(|error| Failure::from(error).reworded("lock_at_most_for", "--for"))? {
        Extension::Extended(lease) => Ok(Outcome::Extended(lease.locked_until())),
        _ => Ok(Outcome::Not(
            "its lease has ended in the meantime".to_owned(),
        )),
    }
}

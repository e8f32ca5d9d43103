//! `shedlock extend`: a later end for the current lease of a lock.

use std::process::ExitCode;
use std::time::SystemTime;

use shedlock::{LockName, LockRecord, LockState, Pause};
use shedlock_journal::view::{Extended, extend_by_operator, extension_detail};

use crate::args::ExtendArgs;
use crate::audit::{Action, Trail};
use crate::exit::{ABSENT, Failure};
use crate::output::{self, visible};
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;
use crate::words;

/// What became of the lease.
enum Outcome {
    /// It ends at this time, if the store reports it.
    Extended(Option<SystemTime>),
    /// It ended at this time or later before.
    Unchanged(SystemTime),
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
        Outcome::Extended(until) => *until,
        Outcome::Unchanged(until) => Some(*until),
        Outcome::Not(_) => None,
    };
    if let (Outcome::Extended(_), Some(before), false) = (&outcome, &before, is_own) {
        let action = Action {
            what: "extend",
            name: &name,
            detail: extension_detail(before, until),
            reason: "",
            until: None,
        };
        Trail::of(&store, terminal).record(action).await;
    }
    let kind = store.provider().store();
    terminal.print(&output::extended(
        kind,
        before.as_ref(),
        until,
        args.output.format,
    ))?;
    let shown = visible(name.as_str());
    match outcome {
        Outcome::Not(why) => {
            terminal.error(&format!("{shown}: not extended: {why}"));
            Ok(ExitCode::from(ABSENT))
        }
        Outcome::Extended(None) => {
            let word = output::shell_word(name.as_str());
            let store = words::store_option();
            terminal.warning(&format!(
                "{shown}: extended, but its new end could not be read: run `shedlock show {word}{store}`"
            ));
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Extended(Some(_)) | Outcome::Unchanged(_) => Ok(ExitCode::SUCCESS),
    }
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
                "no lock name was given: write one, like `shedlock extend NAME --for 30m`; it can be left \
                 out only inside a command that `shedlock run` started, which sets SHEDLOCK_NAME",
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
    let provider = &**store.provider();
    let extended = extend_by_operator(provider, lock, expected, args.lasts).await;
    let why = match extended? {
        Extended::Done(until) => return Ok(Outcome::Extended(until)),
        Extended::Unchanged(until) => return Ok(Outcome::Unchanged(until)),
        Extended::NotHeld => {
            match lock.state {
                LockState::Free => "the lock is free".to_owned(),
                LockState::AtLeast => {
                    let until = lock.locked_until.and_then(output::instant);
                    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
                    format!(
                        "its run has ended; the lock only stays taken{until} (--lock-at-least-for, or \
                         --retry-backoff after a failure)"
                    )
                }
                LockState::Paused => {
                    let (name, store) = (
                        output::shell_word(lock.name.as_str()),
                        words::store_option(),
                    );
                    // Without it, the new pause would have none.
                    let reason = Pause::parse(owner).map_or("", |pause| pause.reason());
                    let reason = match reason {
                        "" => String::new(),
                        reason => format!(" --reason {}", output::shell_word(reason)),
                    };
                    format!(
                        "it is paused; to change the end of the pause, run `shedlock pause {name} \
                         --until TIME{reason}{store}`; to end it, run `shedlock resume {name}{store}`"
                    )
                }
                _ => "it is not held".to_owned(),
            }
        }
        Extended::OwnerDiffers => format!("its owner is {owner:?}"),
        Extended::OfShedLock => {
            format!("ShedLock for Java holds it ({owner:?}), and extends its own leases only")
        }
        Extended::Ended => "its lease has ended in the meantime".to_owned(),
    };
    Ok(Outcome::Not(why))
}

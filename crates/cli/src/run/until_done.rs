//! A slot that must not be lost: run until it is done, or given up.

use std::time::Duration;

use shedlock::{SkipReason, Slot};

use super::runner::{Ran, Runner, Turn};
use super::{interrupted, report_skip, skipped};
use crate::exit::Failure;
use crate::output::shell_word;
use crate::words;

/// More slots and attempts than one start can meet: each turn but the last belongs to a slot on
/// which this or another host has made progress.
const MOST_TURNS: u32 = 1_000;

/// How much longer than the pause after a failure `run` waits for its own retry: the clocks of this
/// host and of the store may differ.
const MARGIN: Duration = Duration::from_secs(60);

/// Runs the command until this slot is done. Runs it first for an earlier slot that is open,
/// because slots run in order. Returns the exit code.
pub(super) async fn until_done(runner: &mut Runner<'_>, wanted: Slot) -> Result<u8, Failure> {
    let (args, terminal) = (runner.args, runner.terminal);
    let patience = args.lock_wait.unwrap_or_default();
    let (mut slot, mut wait) = (wanted, Duration::ZERO);
    let mut has_run = false;
    for _ in 1..MOST_TURNS {
        match runner.turn(Some(slot), wait).await? {
            Turn::Interrupted(signal) => return Ok(interrupted(args, signal, has_run, terminal)),
            Turn::Skipped(skip) => match (skip.reason, skip.last_slot) {
                // No host runs it now, so we run it.
                (SkipReason::SlotPending, Some(open)) if open < slot => {
                    (slot, wait) = (open, Duration::ZERO);
                }
                // Done, or given up, on another host.
                (SkipReason::SlotTaken | SkipReason::SlotGivenUp, _) if slot != wanted => {
                    if skip.reason == SkipReason::SlotGivenUp {
                        // Reported. The exit code is that of the wanted slot.
                        report_skip(args, Some(slot), &skip, terminal);
                    }
                    (slot, wait) = (wanted, Duration::ZERO);
                }
                (
                    SkipReason::SlotTaken
                    | SkipReason::SlotGivenUp
                    | SkipReason::LastSlotAhead
                    | SkipReason::ClockBehind,
                    _,
                ) => return Ok(skipped(args, Some(slot), &skip, terminal).await),
                _ if wait >= patience => {
                    return Ok(skipped(args, Some(slot), &skip, terminal).await);
                }
                // The first attempt did not wait, so that it sees an open slot immediately.
                _ => wait = patience,
            },
            Turn::Ran(ran) => {
                has_run = true;
                match after(&ran, slot, wanted, runner) {
                    Some(next) => (slot, wait) = next,
                    None => return Ok(ran.code),
                }
            }
        }
    }
    Err(Failure::new(
        crate::exit::STORE,
        format!(
            "{}: slot {wanted} was not run: earlier slots are not finished; start this command \
             again, or give them up with `shedlock slot reset {} --to {}{}`",
            args.name,
            shell_word(&args.name),
            wanted.just_before(),
            words::store_option()
        ),
    ))
}

/// The slot of the turn that follows this attempt, and how long it may wait for the lock. `None` if it was the last.
fn after(ran: &Ran, slot: Slot, wanted: Slot, runner: &mut Runner<'_>) -> Option<(Slot, Duration)> {
    let retries = runner.args.retries();
    let attempt = ran.attempt.unwrap_or(1);
    let is_over = ran.code == 0 || attempt >= retries.get_max_attempts();
    if ran.code != 0 && !ran.is_asked_to_end {
        runner.report_attempt(slot, attempt, ran);
    }
    // No second attempt beside what is left of this one, or beside the owner that has overlapped it.
    let is_last =
        ran.is_asked_to_end || runner.signals.are_to_end || ran.has_survivors || ran.is_overlapped;
    if is_last || (is_over && slot == wanted) {
        return None;
    }
    let wait = match ran.code {
        0 => Duration::ZERO,
        // A failure keeps the lock taken for its pause, the last one of a slot too.
        _ => {
            let patience = runner.args.lock_wait.unwrap_or_default();
            retries.pause_after(attempt) + MARGIN.max(patience)
        }
    };
    Some((if is_over { wanted } else { slot }, wait))
}

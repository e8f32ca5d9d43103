//! `shedlock list`: the locks of a store, once or again and again.

use std::cmp::Ordering;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use shedlock::{Clock, Error, ListRequest, LockRecord, LockState, SystemClock};
use shedlock_support::text;

use crate::args::{Format, ListArgs, SortKey, StateFilter};
use crate::exit::Failure;
use crate::output::{self, age, left};
use crate::store::Store;
use crate::terminal::Terminal;

/// Prints the locks that match.
pub(crate) async fn list(args: &ListArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    match args.watch {
        Some(interval) => watch(args, interval, terminal).await,
        None => {
            let store = Store::open_existing(&args.store, terminal).await?;
            let text = page(&store, args, terminal).await?;
            terminal.print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints them at every interval. Ends only if no one reads the output any more; Ctrl-C ends the
/// process.
async fn watch(
    args: &ListArgs,
    interval: Duration,
    terminal: Terminal,
) -> Result<ExitCode, Failure> {
    let mut opened = None;
    loop {
        let printed = match frame(args, interval, &mut opened, terminal).await {
            Ok(text) => terminal.redraw(&text)?,
            // The store cannot be opened, and waiting will not change that.
            Err(failure) if opened.is_none() && !failure.may_pass() => return Err(failure),
            Err(failure) => {
                let every = output::duration(interval);
                let why = failure.cause("");
                terminal.error(&format!("{why}; trying again every {every}"));
                true
            }
        };
        if !printed {
            return Ok(ExitCode::SUCCESS);
        }
        SystemClock.sleep_until(SystemClock.now() + interval).await;
    }
}

async fn frame(
    args: &ListArgs,
    interval: Duration,
    opened: &mut Option<Store>,
    terminal: Terminal,
) -> Result<String, Failure> {
    let store = match opened {
        Some(store) => store,
        None => opened.insert(Store::open_existing(&args.store, terminal).await?),
    };
    let page = page(store, args, terminal).await?;
    if args.output.format == Format::Json {
        return Ok(page);
    }
    let now = output::second(SystemClock.system_time());
    let every = output::duration(interval);
    Ok(format!("{now} {}, every {every}\n{page}", store.place()))
}

async fn page(store: &Store, args: &ListArgs, terminal: Terminal) -> Result<String, Failure> {
    let mut locks = all_locks(store, args.held).await?;
    let is_of_java = locks.iter().any(|lock| lock.state == LockState::Taken);
    let is_removed = store.provider().capabilities().removed_by_shedlock;
    if is_removed && is_of_java && args.watch.is_none() {
        terminal.notice(text::UNSEEN);
    }
    let is_empty = locks.is_empty();
    locks.retain(|lock| is_wanted(lock, args));
    locks.sort_by(|a, b| compare(a, b, args.sort, args.reverse));
    let none = match (is_empty, args.held) {
        (_, true) if args.filter.is_empty() => "no lock is held",
        (true, false) => "no locks",
        _ => "no lock matches",
    };
    let width = args.width.or_else(|| terminal.width());
    let name = store.provider().store();
    let format = args.output.format;
    Ok(output::locks(name, &locks, none, width, format))
}

/// All locks, or only those that cannot be taken now.
pub(crate) async fn all_locks(store: &Store, held_only: bool) -> Result<Vec<LockRecord>, Error> {
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

fn is_wanted(lock: &LockRecord, args: &ListArgs) -> bool {
    let has_state = |state: &StateFilter| {
        let wanted = match state {
            StateFilter::Held => LockState::Held,
            StateFilter::Taken => LockState::Taken,
            StateFilter::Paused => LockState::Paused,
            StateFilter::AtLeast => LockState::AtLeast,
            StateFilter::Free => LockState::Free,
        };
        lock.state == wanted
    };
    let name = lock.name.as_str();
    (args.state.is_empty() || args.state.iter().any(has_state))
        && (args.filter.is_empty() || args.filter.iter().any(|pattern| pattern.matches(name)))
}

/// Locks without a value are last in both orders, and those with the same value are sorted by name.
fn compare(a: &LockRecord, b: &LockRecord, by: SortKey, is_reversed: bool) -> Ordering {
    let directed = |order: Ordering| match is_reversed {
        true => order.reverse(),
        false => order,
    };
    let by_name = a.name.cmp(&b.name);
    let order = match by {
        SortKey::Name => directed(by_name),
        SortKey::State => directed(rank(a.state).cmp(&rank(b.state))),
        SortKey::Age => of_values(age(a), age(b), directed),
        SortKey::Left => of_values(end(a), end(b), directed),
        SortKey::Token => of_values(a.fencing_token, b.fencing_token, directed),
        SortKey::Slot => of_values(a.last_slot, b.last_slot, directed),
    };
    order.then(by_name)
}

/// The end of a lease that has time left. What is left was measured for each lock at a time of its own.
fn end(lock: &LockRecord) -> Option<SystemTime> {
    left(lock).and(lock.locked_until)
}

fn of_values<T: Ord>(
    a: Option<T>,
    b: Option<T>,
    directed: impl Fn(Ordering) -> Ordering,
) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => directed(a.cmp(&b)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn rank(state: LockState) -> u8 {
    match state {
        LockState::Held => 0,
        LockState::Taken => 1,
        LockState::AtLeast => 2,
        LockState::Free => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use shedlock::LockName;

    use super::*;

    fn lock(name: &str, state: LockState, token: Option<u64>) -> LockRecord {
        let mut lock = LockRecord::new(LockName::new(name).unwrap(), state);
        lock.fencing_token = token;
        lock
    }

    #[test]
    fn locks_without_a_value_are_last_in_both_orders() {
        let mut locks = [
            lock("c", LockState::Free, None),
            lock("d", LockState::Held, Some(1)),
            lock("a", LockState::Free, Some(1)),
            lock("b", LockState::AtLeast, Some(2)),
        ];
        for (by, is_reversed, order) in [
            (SortKey::Name, false, "abcd"),
            (SortKey::Name, true, "dcba"),
            (SortKey::Token, false, "adbc"),
            (SortKey::Token, true, "badc"),
            (SortKey::State, false, "dbac"),
            (SortKey::State, true, "acbd"),
            (SortKey::Left, true, "abcd"),
        ] {
            locks.sort_by(|a, b| compare(a, b, by, is_reversed));
            let sorted: String = locks.iter().map(|lock| lock.name.as_str()).collect();
            assert_eq!(sorted, order, "{by:?} {is_reversed}");
        }
    }
}

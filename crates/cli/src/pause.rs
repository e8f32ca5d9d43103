//! `shedlock pause` and `resume`.

use std::process::ExitCode;
use std::time::Duration;

use glob::Pattern;
use shedlock::{
    Clock as _, Error, ErrorKind, Executor, LockName, LockRecord, LockState, PauseRequest, Paused,
    ResumeRequest, Resumed, SkippedSlots, SystemClock,
};
use shedlock_core::{ClockSource, admin, within};
use shedlock_journal::view::about;
use shedlock_support::text;

use crate::args::{NamesArgs, PauseArgs, ResumeArgs, pattern};
use crate::audit::{Action, Trail, taken_from};
use crate::exit::{ABSENT, Failure};
use crate::journal::FLUSH;
use crate::list::all_locks;
use crate::output::{self, PausedLock, visible};
use crate::store::{Store, no_such_lock};
use crate::terminal::Terminal;
use crate::user;
use crate::words;

/// How long a running task is waited for, unless the user sets it.
const WAIT: Duration = Duration::from_secs(60);

/// The stores on which ShedLock unlocks without comparing the owner.
const UNLOCKED_BY_SHEDLOCK: [&str; 4] = ["etcd", "mongodb", "redis", "zookeeper"];

/// How long a pause that took the lock from ShedLock is looked at: up to the end of the old lease if that is near.
const LOOK: Duration = Duration::from_secs(5);
const LONGEST_LOOK: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Pauses the locks, one after the other.
pub(crate) async fn pause(args: &PauseArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let names = Names::read(&args.names)?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let mut pausing = Pausing {
        args,
        store: &store,
        executor: Executor::new(store.provider().clone()),
        trail: Trail::of(&store, terminal),
        terminal,
    };
    let found = names.find(&store, ("lock", |_| true), terminal).await?;
    let is_unseen = warn_of_unseen(&store, &names, args, terminal);
    let mut paused = Vec::new();
    let mut result = Ok(found.is_complete && !(is_unseen && args.names.all));
    for name in found.names {
        let is_typed = names.contains(&name);
        match pausing.pause(name, is_typed).await {
            Ok(Some(lock)) => paused.push(lock),
            Ok(None) => result = Ok(false),
            // The others are paused: they are printed before the failure is.
            Err(failure) => {
                result = Err(failure);
                break;
            }
        }
    }
    if result.is_ok() || !paused.is_empty() {
        for joined in paused.iter().filter_map(joined) {
            terminal.warning(&joined);
        }
        let (kind, format) = (store.provider().store(), args.output.format);
        terminal.print(&output::paused(kind, &paused, has_end(args), format))?;
    }
    let of_shedlock = paused.iter().filter_map(|lock| lock.before.as_ref());
    let of_shedlock = of_shedlock.filter(|lock| lock.state == LockState::Taken);
    let of_shedlock: Vec<&LockRecord> = of_shedlock.collect();
    let lasts = last(&store, &of_shedlock, terminal).await;
    Ok(exit_code(result? && lasts?))
}

/// What the pauses of one command share.
struct Pausing<'a> {
    args: &'a PauseArgs,
    store: &'a Store,
    executor: Executor,
    trail: Trail,
    terminal: Terminal,
}

impl Pausing<'_> {
    /// Pauses a lock, or reports why it is not paused.
    async fn pause(
        &mut self,
        name: LockName,
        is_typed: bool,
    ) -> Result<Option<PausedLock>, Failure> {
        let (args, terminal) = (self.args, self.terminal);
        if !args.create && is_typed && !is_known(self.store, &name).await? {
            terminal.error(&why_unknown(&name, self.store, args));
            return Ok(None);
        }
        let wait = match args.now {
            true => Duration::ZERO,
            false => args.wait.unwrap_or(WAIT),
        };
        let request = request(args, name.clone());
        match self.executor.pause(&request, wait).await {
            Ok(Paused::Done { before, until, .. }) => {
                warn_of_shedlock(self.store, before.as_ref(), terminal);
                let until_when = output::pause_end(until, has_end(args));
                let details = [Some(until_when), taken_from(before.as_ref())];
                let details: Vec<_> = details.into_iter().flatten().collect();
                let action = Action {
                    what: "pause",
                    name: &name,
                    detail: details.join("; "),
                    reason: &args.reason,
                    until: Some(until),
                };
                self.trail.record(action).await;
                Ok(Some(PausedLock {
                    name,
                    owner: request.owner(),
                    until,
                    before,
                }))
            }
            Ok(Paused::Held(lock)) => {
                terminal.error(&why_held(&lock));
                Ok(None)
            }
            Ok(_) => unreachable!("a lock is paused or held"),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                let name = visible(name.as_str());
                let about = format_args!("{name}: not paused");
                Err(Failure::from(error.without_place().about(about)))
            }
            Err(error) => Err(Failure::from(error)),
        }
    }
}

/// Looks at pauses that took their locks from ShedLock for Java, and reports what it saw. Returns whether all of them
/// last.
async fn last(store: &Store, locks: &[&LockRecord], terminal: Terminal) -> Result<bool, Failure> {
    let left = |lock: &&LockRecord| output::left(lock).filter(|left| *left <= LONGEST_LOOK);
    let left = locks.iter().filter_map(left).max().unwrap_or_default();
    let look = LOOK.max(left + LOOK_EVERY);
    let until = SystemClock.now() + look;
    let mut paused: Vec<&LockRecord> = locks.to_vec();
    while !paused.is_empty() && SystemClock.now() < until {
        SystemClock
            .sleep_until(SystemClock.now() + LOOK_EVERY)
            .await;
        let mut still = Vec::with_capacity(paused.len());
        for lock in paused {
            let found = store.provider().inspect(&lock.name).await?;
            match found.filter(|found| found.state != LockState::Paused) {
                None => still.push(lock),
                Some(found) => terminal.error(&why_ended(&found)),
            }
        }
        paused = still;
    }
    for lock in &paused {
        let name = visible(lock.name.as_str());
        terminal.notice(&format!(
            "{name}: still paused {} later; a task of Java's may run for longer: check with `shedlock show {}` when it has \
             ended",
            about(look),
            output::shell_word(lock.name.as_str())
        ));
    }
    Ok(paused.len() == locks.len())
}

fn why_ended(lock: &LockRecord) -> String {
    let now = output::taken_in_words(lock);
    let now = now.unwrap_or_else(|| format!("it is {}", output::state_in_words(lock.state)));
    format!(
        "{}: the pause has ended: ShedLock for Java had the lock, and its unlock or extension replaced the pause; now {now}; \
         pause again when Java's task has ended",
        visible(lock.name.as_str())
    )
}

/// Resumes the locks, one after the other.
pub(crate) async fn resume(args: &ResumeArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let names = Names::read(&args.names)?;
    let store = Store::open_existing(&args.store, terminal).await?;
    let is_paused =
        |lock: &LockRecord| lock.state == LockState::Paused || is_left(lock, args.catch_up);
    let found = names
        .find(&store, ("paused lock", is_paused), terminal)
        .await?;
    let mut resumed = Vec::new();
    let mut trail = Trail::of(&store, terminal);
    let mut result = Ok(found.is_complete);
    for name in found.names {
        match resume_one(&store, &name, args, &mut trail, terminal).await {
            Ok(Some(before)) => resumed.push(before),
            Ok(None) => result = Ok(false),
            Err(error) => {
                result = Err(Failure::from(error));
                break;
            }
        }
    }
    if result.is_ok() || !resumed.is_empty() {
        let (by, provider) = (user::at_host(), store.provider());
        let text = output::resumed(
            provider.store(),
            &resumed,
            (&by, args.catch_up),
            args.output.format,
        );
        terminal.print(&text)?;
    }
    result.map(exit_code)
}

/// Resumes a lock and returns its record from before, or reports why it is not resumed.
async fn resume_one(
    store: &Store,
    name: &LockName,
    args: &ResumeArgs,
    trail: &mut Trail,
    terminal: Terminal,
) -> Result<Option<LockRecord>, Error> {
    let mut request = ResumeRequest::new(name.clone());
    if args.catch_up {
        request = request.catching_up();
    }
    match admin::resume(&**store.provider(), &request).await? {
        Resumed::Resumed(before) => {
            let was = match before.pause() {
                Some(pause) => Some(format!("it was paused {pause}")),
                None => Some("its pause was over".to_owned()),
            };
            let catches_up = args.catch_up.then(|| "--catch-up".to_owned());
            let details: Vec<_> = [was, catches_up].into_iter().flatten().collect();
            let action = Action {
                what: "resume",
                name,
                detail: details.join("; "),
                reason: "",
                until: None,
            };
            trail.record(action).await;
            Ok(Some(before))
        }
        Resumed::NotPaused(lock) => {
            let why = match lock {
                Some(lock) => format!(
                    "it is not paused; it is {}",
                    output::state_in_words(lock.state)
                ),
                None => no_such_lock(store, &args.store),
            };
            let name = visible(name.as_str());
            terminal.error(&format!("{name}: not resumed: {why}"));
            Ok(None)
        }
        _ => unreachable!("a lock is paused or not"),
    }
}

/// Whether a pause that is over has left slots that a resumption would change.
fn is_left(lock: &LockRecord, catches_up: bool) -> bool {
    let has_ended = |it: &SkippedSlots| lock.read_at.is_none_or(|now| it.has_ended(now));
    let skipped = lock.skipped_slots.as_ref();
    skipped.is_some_and(|it| catches_up || !has_ended(it))
}

/// Which slots this pause skips although they fell due before it: those since an earlier pause that the job has not run
/// past.
fn joined(lock: &PausedLock) -> Option<String> {
    let before = lock.before.as_ref()?;
    let skipped = before.slots_skipped_before()?;
    Some(format!(
        "{}: the job has not run since the pause that ended at {}: the slots from then on are skipped too; to run them, \
         resume with `shedlock resume {} --catch-up{}`",
        visible(lock.name.as_str()),
        output::second(skipped.until.instant()),
        output::shell_word(lock.name.as_str()),
        words::store_option(),
    ))
}

fn exit_code(is_complete: bool) -> ExitCode {
    if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ABSENT)
    }
}

/// Whether the user has set an end.
fn has_end(args: &PauseArgs) -> bool {
    args.lasts.is_some() || args.until.is_some()
}

fn request(args: &PauseArgs, name: LockName) -> PauseRequest {
    let mut request = PauseRequest::new(name, &user::user()).with_reason(&args.reason);
    if let Some(duration) = args.lasts {
        request = request.lasting(duration);
    }
    if let Some(until) = args.until {
        request = request.until(until.into());
    }
    if args.now {
        request = request.replacing_holder();
    }
    request
}

/// Whether there is such a lock, or a job that has used it. A journal that cannot be read has none.
async fn is_known(store: &Store, name: &LockName) -> Result<bool, Error> {
    if store.provider().inspect(name).await?.is_some() {
        return Ok(true);
    }
    let Some(journal) = store.journal() else {
        return Ok(false);
    };
    let job = within(&SystemClock, FLUSH, journal.job(name.as_str())).await;
    Ok(matches!(job, Some(Ok(Some(_)))))
}

fn why_unknown(name: &LockName, store: &Store, args: &PauseArgs) -> String {
    format!(
        "{}: not paused: {}; to pause a job before its first run, add --create",
        visible(name.as_str()),
        no_such_lock(store, &args.store)
    )
}

fn why_held(lock: &LockRecord) -> String {
    let name = visible(lock.name.as_str());
    let held = || {
        let owner = visible(lock.owner.as_deref().unwrap_or("another owner"));
        let until = lock.locked_until.map(output::second);
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        format!("held by {owner}{until}")
    };
    let why = output::taken_in_words(lock).unwrap_or_else(held);
    format!(
        "{name}: not paused: {why}; wait longer with --wait, or take the lock from \
         the running task with --now"
    )
}

/// Warns if patterns were typed on a store in which idle jobs of Java cannot be seen. Returns whether it did.
fn warn_of_unseen(store: &Store, names: &Names, args: &PauseArgs, terminal: Terminal) -> bool {
    let is_removed = store.provider().capabilities().removed_by_shedlock;
    if !is_removed || !names.has_pattern() || args.no_shedlock {
        return false;
    }
    let unseen = text::UNSEEN;
    terminal.error(&format!(
        "{unseen} and are not paused: to pause one, name it and add --create; if no ShedLock for Java runs on this store, \
         add --no-shedlock"
    ));
    true
}

fn warn_of_shedlock(store: &Store, before: Option<&LockRecord>, terminal: Terminal) {
    let Some(lock) = before.filter(|lock| lock.state == LockState::Taken) else {
        return;
    };
    let kind = store.provider().store();
    let is_client_time = store.provider().capabilities().clock != ClockSource::Store;
    let who = match UNLOCKED_BY_SHEDLOCK.contains(&kind) {
        true => "",
        // ShedLock's other modules for SQL databases compare the owner.
        false if is_client_time => {
            " if it uses the provider for plain JDBC up to 6.9.2, which unlocks by name alone"
        }
        false => return,
    };
    terminal.error(&format!(
        "{}: ShedLock for Java had the lock: Java's end or next extension may end this pause{who}; check with `shedlock \
         show` when its task has ended, and pause again if needed",
        visible(lock.name.as_str())
    ));
}

/// The names and patterns that were typed.
struct Names(Vec<Typed>);

pub(crate) enum Typed {
    Name(LockName),
    Pattern(Pattern),
}

impl Typed {
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        if !text.contains(['*', '?', '[']) {
            return Ok(Self::Name(LockName::new(text)?));
        }
        let wrong = |why| Failure::usage(format!("{text:?} is not a pattern: {why}"));
        pattern(text).map(Self::Pattern).map_err(wrong)
    }
}

/// The locks that they stand for.
struct Found {
    names: Vec<LockName>,
    /// Whether each pattern matched at least one.
    is_complete: bool,
}

impl Names {
    /// Whether this name was typed, and is not the match of a pattern.
    fn contains(&self, name: &LockName) -> bool {
        let mut typed = self.0.iter();
        typed.any(|typed| matches!(typed, Typed::Name(typed) if typed == name))
    }

    fn has_pattern(&self) -> bool {
        let mut typed = self.0.iter();
        typed.any(|typed| matches!(typed, Typed::Pattern(_)))
    }

    fn read(args: &NamesArgs) -> Result<Self, Failure> {
        if args.all {
            let everything = Pattern::new("*").expect("a star is a pattern");
            return Ok(Self(vec![Typed::Pattern(everything)]));
        }
        let typed = args.names.iter().map(|text| Typed::read(text));
        typed.collect::<Result<_, _>>().map(Self)
    }

    async fn find(
        &self,
        store: &Store,
        (kind, is_wanted): (&str, impl Fn(&LockRecord) -> bool),
        terminal: Terminal,
    ) -> Result<Found, Failure> {
        let mut locks = Vec::new();
        if self.has_pattern() {
            locks = all_locks(store, false).await?;
        }
        let mut found = Found {
            names: Vec::new(),
            is_complete: true,
        };
        for typed in &self.0 {
            let before = found.names.len();
            match typed {
                Typed::Name(name) => found.names.push(name.clone()),
                Typed::Pattern(pattern) => {
                    // A name may contain a star.
                    let is_exact = |lock: &&LockRecord| lock.name.as_str() == pattern.as_str();
                    let matching: Vec<_> = match locks.iter().find(is_exact) {
                        Some(lock) => vec![lock],
                        None => locks
                            .iter()
                            .filter(|lock| pattern.matches(lock.name.as_str()) && is_wanted(lock))
                            .collect(),
                    };
                    found
                        .names
                        .extend(matching.iter().map(|lock| lock.name.clone()));
                    if found.names.len() == before {
                        found.is_complete = false;
                        let place = store.place();
                        terminal.error(&match pattern.as_str() {
                            "*" => format!("there is no {kind} in {place}"),
                            pattern => format!("no {kind} in {place} matches {pattern:?}"),
                        });
                    }
                }
            }
        }
        found.names.sort();
        found.names.dedup();
        Ok(found)
    }
}

//! *Now*: what runs, and what needs attention.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::Extension;
use axum::response::Response;
use futures_util::future::join_all;
use shedlock_core::{Clock as _, Error, LockRecord, LockState, SystemClock};
use shedlock_journal::view::{CurrentJob, JobState, all_jobs, taken_locks};

use super::{Frame, Shared};
use crate::Access;
use crate::components::{Badge, LeaseBar, Text, link};
use crate::failure::render;
use crate::reading::{current, now_of};
use crate::standing::Standing;
use crate::store::Store;

/// More rows are counted and left out.
const MOST: usize = 100;

#[derive(Template)]
#[template(path = "now.html")]
struct Page {
    frame: Frame,
    tiles: Vec<Tile>,
    attention: Vec<Row>,
    running: Vec<Row>,
    left_out: usize,
    has_several_stores: bool,
    /// Stores without a journal.
    notes: Vec<Note>,
    /// What is shown if nothing needs attention, and if nothing runs.
    calm: &'static str,
    idle: &'static str,
}

struct Tile {
    title: &'static str,
    /// `None` if it is not known.
    count: Option<usize>,
    class: &'static str,
}

pub(crate) struct Row {
    pub(crate) store: Text,
    pub(crate) url: String,
    pub(crate) name: Text,
    pub(crate) badge: Badge,
    pub(crate) reason: Text,
    pub(crate) lease: Option<LeaseBar>,
    pub(crate) owner: Option<Text>,
}

impl Row {
    fn of_unreadable(store: &str, error: &Error) -> Self {
        Self {
            store: Text::of(store),
            url: link("stores", &[]),
            name: Text::of(store),
            badge: Badge {
                class: "bad",
                word: "error",
            },
            reason: Text::long(&format!("the store cannot be read: {error:#}")),
            lease: None,
            owner: None,
        }
    }
}

struct Note {
    store: Text,
    badge: Badge,
    text: Text,
}

/// What is known about a store.
pub(crate) struct Seen {
    at: SystemTime,
    /// The same time by the store's clock.
    now: SystemTime,
    taken: Vec<LockRecord>,
    /// None if there is no journal.
    jobs: Option<Vec<CurrentJob>>,
}

#[derive(Default)]
pub(crate) struct Counts {
    running: usize,
    /// By ShedLock for Java.
    taken: usize,
    overdue: usize,
    failed: usize,
    unknown: usize,
    paused: usize,
    expiring: usize,
    jobs: usize,
    /// A store could not be read: there may be more of everything.
    is_unreadable: bool,
    /// A store has no journal: there may be more of what only a journal has.
    lacks_journal: bool,
}

pub(crate) async fn now(dashboard: Shared, Extension(access): Extension<Access>) -> Response {
    let reads = dashboard.places.iter().map(|place| async move {
        let seen = async {
            let store = place.store().await?;
            let seen = store.read_or_error(store.seen.get(see(store))).await?;
            Ok::<_, Error>((store, seen))
        };
        (&*place.name, seen.await)
    });
    let mut counts = Counts::default();
    let (mut attention, mut running) = (Rows::default(), Rows::default());
    let (mut oldest, mut notes) = (SystemClock.system_time(), Vec::new());
    for (name, seen) in join_all(reads).await {
        let note = |class, word, text: &str| Note {
            store: Text::of(name),
            badge: Badge { class, word },
            text: Text::long(text),
        };
        match seen {
            Ok((store, seen)) => {
                if seen.jobs.is_none() {
                    counts.lacks_journal = true;
                    let text = format!("only locks are shown: {}", store.why_no_journal());
                    notes.push(note("idle", "no journal", &text));
                }
                oldest = oldest.min(seen.at);
                counts.add(store, &seen, &mut attention, &mut running);
            }
            Err(error) => {
                counts.is_unreadable = true;
                attention.add(|| Row::of_unreadable(name, &error));
            }
        }
    }
    render(&Page {
        frame: Frame::of("now", "Now", &dashboard, &access, None)
            .with_reading_at(oldest)
            .live(),
        tiles: counts.tiles(),
        calm: counts.calm(),
        idle: match counts.is_unreadable {
            true => "Which locks are held is not known.",
            false => "No lock is held.",
        },
        left_out: attention.left_out + running.left_out,
        attention: attention.shown,
        running: running.shown,
        has_several_stores: dashboard.places.len() > 1,
        notes,
    })
}

/// Reads all jobs of a store, so requests share what it finds.
async fn see(store: &Store) -> Result<Seen, Error> {
    let at = SystemClock.system_time();
    let now = now_of(store).await?;
    let taken = taken_locks(&*store.provider).await?;
    let jobs = match store.existing_journal().await? {
        Some(journal) => {
            let jobs = all_jobs(journal).await?;
            Some(current(store, journal, jobs, &taken, now).await?)
        }
        None => None,
    };
    Ok(Seen {
        at,
        now,
        taken,
        jobs,
    })
}

/// The first rows of a table, and how many more there are.
#[derive(Default)]
struct Rows {
    shown: Vec<Row>,
    left_out: usize,
}

impl Rows {
    /// A row that is left out is not made.
    fn add(&mut self, row: impl FnOnce() -> Row) {
        match self.shown.len() < MOST {
            true => self.shown.push(row()),
            false => self.left_out += 1,
        }
    }
}

impl Counts {
    fn add(&mut self, store: &Store, seen: &Seen, attention: &mut Rows, running: &mut Rows) {
        let now = seen.now;
        let row = |name: &str, standing: &Standing, lock: Option<&LockRecord>| Row {
            store: Text::of(&store.name),
            url: link("job", &[("store", &store.name), ("name", name)]),
            name: Text::of(name),
            badge: standing.badge,
            reason: Text::long(&standing.reason),
            lease: lock.and_then(LeaseBar::of),
            owner: lock.and_then(|lock| Some(Text::of(lock.owner.as_deref()?))),
        };
        const DAY: Duration = Duration::from_secs(86_400);
        let jobs = seen.jobs.as_deref().unwrap_or_default();
        self.jobs += jobs.len();
        for current in jobs {
            let job = &current.job;
            let lock = current.lock.as_ref();
            let standing = Standing::of(current, now);
            match current.state(now) {
                JobState::Overdue => self.overdue += 1,
                JobState::Paused => self.paused += 1,
                JobState::EndUnknown => self.unknown += 1,
                _ => {}
            }
            let is_recent = |at: SystemTime| now.duration_since(at).is_ok_and(|it| it < DAY);
            self.failed += usize::from(job.last_failed.is_some_and(is_recent));
            if standing.needs_attention {
                attention.add(|| row(&job.job, &standing, lock));
            }
        }
        // The jobs are in the byte order of their names, as the locks are.
        let job = |name: &str| {
            let at = jobs.binary_search_by(|it| (*it.job.job).cmp(name));
            at.ok().map(|at| &jobs[at].job)
        };
        for lock in &seen.taken {
            let name = lock.name.as_str();
            match lock.state {
                LockState::Held => {
                    let run = job(name).and_then(|job| job.last_run.as_ref());
                    let lease = run.and_then(|run| run.lock_at_most_for);
                    let standing = Standing::of_held(lock, lease);
                    self.running += 1;
                    self.expiring += usize::from(standing.needs_attention);
                    running.add(|| row(name, &standing, Some(lock)));
                }
                LockState::Taken => {
                    self.taken += 1;
                    running.add(|| row(name, &Standing::of_taken(lock), Some(lock)));
                }
                LockState::Paused if job(name).is_none() => {
                    self.paused += 1;
                    let standing = Standing::of_pause(lock);
                    attention.add(|| row(name, &standing, Some(lock)));
                }
                _ => {}
            }
        }
    }

    fn tiles(&self) -> Vec<Tile> {
        let tile = |title, count, is_incomplete: bool, class| Tile {
            title,
            count: Some(count).filter(|count| *count > 0 || !is_incomplete),
            class: if count == 0 { "zero" } else { class },
        };
        let of_locks = |title, count, class| tile(title, count, self.is_unreadable, class);
        let is_incomplete = self.is_unreadable || self.lacks_journal;
        let of_jobs = |title, count, class| tile(title, count, is_incomplete, class);
        vec![
            of_locks("running", self.running, "run"),
            of_locks("taken by ShedLock", self.taken, "taken"),
            of_jobs("overdue", self.overdue, "bad"),
            of_jobs("failed in 24 h", self.failed, "bad"),
            of_jobs("end unknown", self.unknown, "warn"),
            of_locks("paused", self.paused, "pause"),
            of_jobs("lease about to end", self.expiring, "warn"),
        ]
    }

    /// What is shown if no row needs attention.
    fn calm(&self) -> &'static str {
        match self.jobs {
            0 if self.lacks_journal => {
                "Without a journal, it is not known whether a job needs attention."
            }
            0 => "No job is known yet. A job appears with its first run.",
            _ => "Nothing needs your attention.",
        }
    }
}

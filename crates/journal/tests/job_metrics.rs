//! Tests what `JobMetrics` reports about jobs and locks.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../../core/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{config, secs};
use shedlock_core::{
    Actor, Attempt, AttemptRequest, AuditRecord, BoxFuture, Clock, Error, ErrorKind, Executor,
    ForceUnlockRequest, JobRegistration, ListRequest, LockName, LockProvider, LockRecord,
    ManualClock, Owner, PauseRequest, ResumeRequest, RunsRequest, Slot, admin,
};

use shedlock_journal::{JobMetrics, JobMetricsText, JournalSettings, JournalWriter, MemoryJournal};
use shedlock_provider::MemoryProvider;

struct World {
    clock: Arc<ManualClock>,
    provider: Arc<MemoryProvider>,
    writer: JournalWriter,
    executor: Executor,
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The first full hour after an instant.
fn next_hour(after: SystemTime) -> SystemTime {
    let since = after.duration_since(UNIX_EPOCH).unwrap();
    let next = since.as_secs() / HOUR.as_secs() + 1;
    UNIX_EPOCH + HOUR * u32::try_from(next).unwrap()
}

impl World {
    /// A world whose clock shows a full hour.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let now = clock.system_time();
        clock.advance(next_hour(now).duration_since(now).unwrap());
        let provider = Arc::new(MemoryProvider::with_clock(clock.clone()));
        let journal = Arc::new(MemoryJournal::with_clock(clock.clone()));
        let settings = JournalSettings::new().clock(clock.clone());
        let writer = JournalWriter::with_settings(journal, settings);
        let executor = Executor::new(provider.clone()).clock(clock.clone());
        let executor = executor.journal(&writer);
        Self {
            clock,
            provider,
            writer,
            executor,
        }
    }

    async fn register_hourly(&self, job: &str) {
        let registration = JobRegistration::new(job, "hourly", |after| Some(next_hour(after)));
        self.writer.register(registration.allowance(secs(600)));
        self.writer.flush(secs(60)).await;
    }

    async fn run(&self, name: &str, job: &str, slot: Option<SystemTime>, fails: bool) {
        let mut config = config(name).job(job);
        if let Some(slot) = slot {
            config = config.slot(Slot::at(slot).unwrap());
        }
        let task = async {
            self.clock.advance(secs(2));
            if fails { Err("no paper") } else { Ok(()) }
        };
        let outcome = self.executor.try_execute(&config, task).await.unwrap();
        assert!(outcome.is_executed(), "{outcome:?}");
        assert_eq!(self.writer.flush(secs(60)).await, 0);
    }

    async fn pause(&self, name: &str, lasts: Option<Duration>) {
        let mut request = PauseRequest::new(LockName::new(name).unwrap(), "alice");
        if let Some(lasts) = lasts {
            request = request.lasting(lasts);
        }
        admin::pause(&*self.provider, &request).await.unwrap();
    }

    async fn resume(&self, name: &str) {
        let request = ResumeRequest::new(LockName::new(name).unwrap());
        admin::resume(&*self.provider, &request).await.unwrap();
    }

    fn metrics(&self) -> JobMetrics {
        JobMetrics::of(&self.executor)
            .clock(self.clock.clone())
            .schedules(|_, after| Some(next_hour(after)))
    }

    async fn read(&self) -> BTreeMap<String, f64> {
        values(&self.metrics().read().await)
    }

    async fn deadline(&self, job: &str) -> SystemTime {
        let name = format!("shedlock_job_deadline_timestamp_seconds{{job_name=\"{job}\"}}");
        UNIX_EPOCH + Duration::from_secs_f64(self.read().await[&name])
    }

    async fn is_paused(&self, job: &str) -> bool {
        self.read().await[&format!("shedlock_job_paused{{job_name=\"{job}\"}}")] == 1.0
    }
}

/// A store that does not reply.
#[derive(Debug)]
struct Silent {
    inner: Arc<MemoryProvider>,
}

impl LockProvider for Silent {
    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(std::future::pending())
    }

    shedlock_core::delegate!(inner except list);
}

/// A copy that has what was written until an instant.
#[derive(Debug)]
struct Behind {
    inner: Arc<MemoryProvider>,
    written: SystemTime,
}

impl LockProvider for Behind {
    fn written_until(&self) -> BoxFuture<'_, Result<Option<SystemTime>, Error>> {
        Box::pin(async { Ok(Some(self.written)) })
    }

    shedlock_core::delegate!(inner except written_until);
}

fn values(text: &JobMetricsText) -> BTreeMap<String, f64> {
    let lines = text.as_str().lines().filter(|line| !line.starts_with('#'));
    let values = lines.map(|line| line.rsplit_once(' ').expect(line));
    let values = values.map(|(name, value)| {
        // All series of jobs have it, and only one test has two stores.
        let name = match name.split_once(",store=\"") {
            Some((name, _)) => format!("{name}}}"),
            None if name.starts_with("shedlock_job_") => panic!("{name} has no store"),
            None => name.to_owned(),
        };
        (name, value.parse().expect(value))
    });
    values.collect()
}

fn seconds(instant: SystemTime) -> f64 {
    instant.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[tokio::test]
async fn a_job_has_a_deadline_from_its_registration_and_only_a_success_moves_it() {
    let world = World::new();
    let start = world.clock.system_time();
    world.register_hourly("report").await;
    let metrics = world.read().await;
    let of = |what: &str| {
        metrics
            .get(&format!("shedlock_job_{what}{{job_name=\"report\"}}"))
            .copied()
    };
    assert_eq!(metrics["shedlock_store_up"], 1.0);
    assert_eq!(metrics["shedlock_journal_up"], 1.0);
    assert_eq!(metrics["shedlock_journal_dropped_total"], 0.0);
    let first = seconds(start + HOUR + secs(600));
    assert_eq!(of("deadline_timestamp_seconds"), Some(first));
    assert_eq!(of("paused"), Some(0.0));
    for absent in ["start", "success", "failure"] {
        assert_eq!(of(&format!("last_{absent}_timestamp_seconds")), None);
    }
    assert_eq!(of("last_duration_seconds"), None);

    world.clock.advance(HOUR);
    world
        .run("report", "report", Some(start + HOUR), true)
        .await;
    assert_eq!(world.deadline("report").await, start + HOUR + secs(600));
    world.clock.advance(HOUR);
    world
        .run("report", "report", Some(start + HOUR * 2), false)
        .await;
    let metrics = world.read().await;
    let of = |what: &str| metrics[&format!("shedlock_job_{what}{{job_name=\"report\"}}")];
    let deadline = seconds(start + HOUR * 3 + secs(600));
    assert_eq!(of("deadline_timestamp_seconds"), deadline);
    assert_eq!(
        of("last_failure_timestamp_seconds"),
        seconds(start + HOUR + secs(2))
    );
    let started = start + HOUR * 2 + secs(2);
    assert_eq!(of("last_start_timestamp_seconds"), seconds(started));
    assert_eq!(
        of("last_success_timestamp_seconds"),
        seconds(started + secs(2))
    );
    assert_eq!(of("last_duration_seconds"), 2.0);
}

#[tokio::test]
async fn names_that_were_computed_are_one_job() {
    let world = World::new();
    for tenant in ["a", "b"] {
        let name = format!("expire-{tenant}");
        world.run(&name, "expire-{tenant}", None, false).await;
    }
    let text = world.metrics().read().await;
    let text = text.as_str();
    assert_eq!(text.matches("shedlock_job_paused{").count(), 1, "{text}");
    assert!(!text.contains("expire-a"), "{text}");

    // It is paused if all of its names are.
    world.pause("expire-a", None).await;
    assert!(!world.is_paused("expire-{tenant}").await);
    world.pause("expire-b", None).await;
    assert!(world.is_paused("expire-{tenant}").await);
    let metrics = world.read().await;
    assert_eq!(metrics["shedlock_locks{state=\"paused\"}"], 2.0);
    assert_eq!(metrics["shedlock_locks{state=\"held\"}"], 0.0);
    world.resume("expire-a").await;
    assert!(!world.is_paused("expire-{tenant}").await);
}

#[tokio::test]
async fn during_a_pause_and_until_the_next_run_the_deadline_is_that_of_the_first_slot_after_it() {
    let world = World::new();
    let start = world.clock.system_time();
    let hours = |count: u32| start + HOUR * count;
    world.register_hourly("report").await;
    world.clock.advance(HOUR);
    world.run("report", "report", Some(hours(1)), false).await;
    assert_eq!(world.deadline("report").await, hours(2) + secs(600));

    // A pause of ten hours that ends after three.
    world.pause("report", Some(HOUR * 10)).await;
    assert!(world.is_paused("report").await);
    let deadline = "shedlock_job_deadline_timestamp_seconds{job_name=\"report\"}";
    assert!(!world.read().await.contains_key(deadline));
    world.clock.advance(HOUR * 3);
    world.resume("report").await;
    assert!(!world.is_paused("report").await);
    assert_eq!(world.deadline("report").await, hours(5) + secs(600));

    // The first run after the pause fails. Its claim has cleared the pause, so the job is overdue
    // since its last success.
    world.clock.advance(HOUR);
    world.run("report", "report", Some(hours(5)), true).await;
    assert_eq!(world.deadline("report").await, hours(2) + secs(600));
    world.clock.advance(HOUR);
    world.run("report", "report", Some(hours(6)), false).await;
    assert_eq!(world.deadline("report").await, hours(7) + secs(600));

    // A pause that ended by itself.
    world.pause("report", Some(HOUR * 2)).await;
    world.clock.advance(HOUR * 3);
    assert_eq!(world.deadline("report").await, hours(9) + secs(600));
    // Without its schedule, the deadline is the one that the journal has.
    let unscheduled = JobMetrics::of(&world.executor).read().await;
    assert_eq!(
        values(&unscheduled)[deadline],
        seconds(hours(7) + secs(600))
    );
}

#[tokio::test]
async fn a_report_says_when_and_where_it_was_read() {
    let world = World::new();
    world.register_hourly("report").await;
    let store = world.writer.journal().identity().await.unwrap().unwrap();
    let text = world.metrics().read().await;
    let now = seconds(world.clock.system_time());
    let read = format!("\nshedlock_read_timestamp_seconds{{store=\"{store}\"}} {now}\n");
    assert!(text.as_str().contains(&read), "{text}");
    let job = format!("shedlock_job_paused{{job_name=\"report\",store=\"{store}\"}} 0\n");
    assert!(text.as_str().contains(&job), "{text}");

    // A copy that follows another server reports when what it has was written there.
    let behind = Arc::new(Behind {
        inner: world.provider.clone(),
        written: world.clock.system_time() - secs(90),
    });
    let metrics = JobMetrics::new(behind).writer(&world.writer);
    let text = metrics.clock(world.clock.clone()).read().await;
    let read = format!("{{store=\"{store}\"}} {}\n", now - 90.0);
    assert!(text.as_str().contains(&read), "{text}");
}

#[tokio::test]
async fn a_run_that_lost_its_lock_is_reported_until_the_next_one() {
    let world = World::new();
    let lost = async || world.read().await["shedlock_job_lock_lost{job_name=\"mail\"}"];
    world.run("mail", "mail", None, false).await;
    assert_eq!(lost().await, 0.0);
    let name = LockName::new("mail").unwrap();
    let task = async {
        let request = ForceUnlockRequest::new(name.clone());
        admin::force_unlock(&*world.provider, &request)
            .await
            .unwrap();
        assert_eq!(world.writer.flush(secs(60)).await, 0);
        // It still runs.
        assert_eq!(lost().await, 1.0);
        let other = AttemptRequest::new(name.clone(), Owner::generate(), secs(60));
        let attempt = world.provider.attempt(&other).await.unwrap();
        assert!(matches!(attempt, Attempt::Acquired(_)), "{attempt:?}");
    };
    let ended = world.executor.execute(&config("mail"), task).await;
    assert!(ended.unwrap().is_lost());
    assert_eq!(world.writer.flush(secs(60)).await, 0);
    assert_eq!(lost().await, 1.0);
    world.clock.advance(secs(60));
    world.run("mail", "mail", None, false).await;
    assert_eq!(lost().await, 0.0);
}

#[tokio::test]
async fn a_job_that_an_operator_removed_is_reported_as_such_for_a_day() {
    let world = World::new();
    let forgotten = async |job: &str| {
        let name = format!("shedlock_job_forgotten_timestamp_seconds{{job_name=\"{job}\"}}");
        world.read().await.get(&name).copied()
    };
    for job in ["removed", "back"] {
        world.register_hourly(job).await;
        assert!(world.writer.journal().forget(job).await.unwrap());
        // It is not there any more, which says nothing about why.
        assert_eq!(forgotten(job).await, None);
        let actor = Actor::Claimed("alice@web-1".to_owned());
        let now = world.clock.system_time();
        let action = AuditRecord::new(now, 1, actor, AuditRecord::FORGET, job);
        world.writer.audit(action);
        assert_eq!(world.writer.flush(secs(60)).await, 0);
        assert_eq!(forgotten(job).await, Some(seconds(now)));
    }
    world.register_hourly("back").await;
    assert_eq!(forgotten("back").await, None);
    world.clock.advance(HOUR * 23);
    assert!(forgotten("removed").await.is_some());
    world.clock.advance(HOUR);
    assert_eq!(forgotten("removed").await, None);
}

#[tokio::test]
async fn slots_that_are_caught_up_after_a_pause_keep_their_deadline() {
    let world = World::new();
    let start = world.clock.system_time();
    world.register_hourly("report").await;
    world.clock.advance(HOUR);
    world
        .run("report", "report", Some(start + HOUR), false)
        .await;
    world.pause("report", None).await;
    world.clock.advance(HOUR * 3);
    let request = ResumeRequest::new(LockName::new("report").unwrap());
    admin::resume(&*world.provider, &request.catching_up())
        .await
        .unwrap();
    assert_eq!(world.deadline("report").await, start + HOUR * 2 + secs(600));
}

#[tokio::test]
async fn a_store_or_journal_that_cannot_be_read_is_reported() {
    let world = World::new();
    world.register_hourly("report").await;

    // Without a journal, only locks.
    let held = world.executor.lock(&config("held")).await.unwrap();
    let text = JobMetrics::new(world.provider.clone()).read().await;
    assert!(text.is_store_up() && !text.has_journal() && text.error().is_none());
    let metrics = values(&text);
    assert_eq!(metrics["shedlock_locks{state=\"held\"}"], 1.0);
    assert_eq!(metrics.len(), 5, "{text}");
    drop(held);

    // A store that does not reply.
    let silent = Arc::new(Silent {
        inner: world.provider.clone(),
    });
    let metrics = JobMetrics::new(silent).time_limit(Duration::from_millis(20));
    let text = metrics.read().await;
    assert!(!text.is_store_up());
    assert_eq!(text.error().unwrap().kind(), ErrorKind::Unavailable);

    let text = JobMetricsText::unreachable(Error::new(ErrorKind::Unavailable, "away"));
    assert!(!text.is_store_up());
    assert_eq!(
        values(&text),
        BTreeMap::from([("shedlock_store_up".to_owned(), 0.0)])
    );
    assert_eq!(text.error().unwrap().to_string(), "away");
}

/// Otherwise it is Prometheus that gives up, and what it misses is that the store is down.
#[tokio::test]
async fn a_scrape_of_a_store_that_hangs_is_answered_before_its_timeout() {
    let world = World::new();
    let silent = Arc::new(Silent {
        inner: world.provider.clone(),
    });
    let metrics = JobMetrics::new(silent).clock(world.clock.clone());
    for (timeout, limit) in [
        (Some("5"), 4_500),
        (Some("0.4"), 200),
        (Some("60"), 8_000),
        (Some("soon"), 8_000),
        (Some("-1"), 8_000),
        (None, 8_000),
    ] {
        let mut read = pin!(metrics.read_for_scrape(timeout));
        for wait in [0, limit - 1] {
            world.clock.advance(Duration::from_millis(wait));
            tokio::select! {
                biased;
                text = &mut read => panic!("{timeout:?}: {text:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        world.clock.advance(Duration::from_millis(1));
        assert!(!read.await.is_store_up(), "{timeout:?}");
    }
}

#[tokio::test]
async fn slots_without_a_run_are_counted_by_reason_and_nothing_is_written_for_them() {
    let world = World::new();
    world.register_hourly("report").await;
    let schedules = |_: &shedlock_core::JobRecord, after| Some(next_hour(after));
    let count = async |reason: &str| {
        let metrics = JobMetrics::of(&world.executor).clock(world.clock.clone());
        let text = metrics.schedules(schedules).read().await;
        let name = format!("shedlock_job_missed_slots{{job_name=\"report\",reason=\"{reason}\"}}");
        values(&text)[&name] as u32
    };
    let all = async || {
        [
            count("paused").await,
            count("held").await,
            count("not_started").await,
        ]
    };
    let audit = async |action: &str| {
        let actor = Actor::Claimed("alice@web-1".to_owned());
        let record = AuditRecord::new(world.clock.system_time(), 1, actor, action, "report");
        world.writer.audit(record);
        assert_eq!(world.writer.flush(secs(60)).await, 0);
    };
    let to_next_slot = || {
        let now = world.clock.system_time();
        let slot = next_hour(now);
        world.clock.advance(slot.duration_since(now).unwrap());
        slot
    };
    // A slot that a replica may still start is not missed.
    let slot = to_next_slot();
    assert_eq!(all().await, [0, 0, 0]);
    world.run("report", "report", Some(slot), false).await;
    assert_eq!(all().await, [0, 0, 0]);
    // No replica runs for two slots.
    to_next_slot();
    to_next_slot();
    world.clock.advance(secs(900));
    assert_eq!(all().await, [0, 0, 2]);
    // A run that fails is a run.
    let slot = to_next_slot();
    world.run("report", "report", Some(slot), true).await;
    // A pause of one slot, and one that ends by itself.
    audit("pause").await;
    to_next_slot();
    world.clock.advance(secs(900));
    audit("resume").await;
    assert_eq!(all().await, [1, 0, 2]);
    // A run that goes on for an hour.
    let slot = to_next_slot();
    let config = config("report")
        .lock_at_most_for("3h")
        .slot(Slot::at(slot).unwrap());
    let task = async {
        to_next_slot();
        world.clock.advance(secs(900));
    };
    assert!(
        world
            .executor
            .execute(&config, task)
            .await
            .unwrap()
            .is_executed()
    );
    assert_eq!(world.writer.flush(secs(60)).await, 0);
    assert_eq!(all().await, [1, 1, 2]);
    // They are forgotten after a day.
    world.clock.advance(HOUR * 48);
    assert_eq!(all().await, [0, 0, 24]);
    let runs = world
        .writer
        .journal()
        .runs(&RunsRequest::new())
        .await
        .unwrap();
    assert_eq!(runs.len(), 3);
}

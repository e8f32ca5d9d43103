//! All faults together: processes that are killed and stopped, a network that cuts, delays and
//! drops traffic, and a store that crashes and has faults.

mod clocks;
mod faults;
pub(crate) mod hunt;
mod liveness;
mod network;
mod options;
mod processes;
mod tally;

use std::time::Duration;

use shedlock_conformance::wait::{now, sleep};
use shedlock_conformance::{Stop, Verdict, ensure};
use shedlock_core::Moment;

use crate::Arena;
use crate::jvm::KEEPS_ROWS;
use crate::worker::Job;
use crate::worker_pool::WorkerPool;
use clocks::Clocks;
use faults::StoreFaults;
use network::{KINDS, Network};
pub(crate) use options::{Options, all_wrong_protocols, wrong_protocols};
use processes::Processes;
use shedlock_proof::history::{What, millis};
use tally::Tally;

const WORKERS: usize = 6;

/// The number of the operator among the processes, if there is one.
const OPERATOR: usize = WORKERS;

const NAMES: [&str; 3] = ["hot", "warm", "cold"];

/// The contended locks: some are kept by at-least, some are acquired for slots.
pub(crate) fn jobs(context: &Arena) -> Vec<Job> {
    let at_least = context.timing().short() / 3;
    let mut jobs: Vec<Job> = NAMES.into_iter().map(Job::plain).collect();
    jobs.push(Job::kept("kept", at_least));
    if context.capabilities().slots {
        jobs.push(Job::with_slots("slots"));
    }
    jobs
}

/// How long a request is in flight on a busy machine when no fault holds it up.
const FLIGHT: Duration = Duration::from_secs(1);

/// After faults for this many lease durations, there is a period without faults.
const STRETCH: u32 = 20;

/// Tortures processes over this store, and the store itself if it may be crashed, and judges what
/// all of them did.
pub(crate) async fn torture(context: &Arena, may_crash: bool) -> Verdict {
    let options = Options::from_environment()?;
    let mut run = Run::begin(context, &options, may_crash).await?;
    let verdict = run.until_its_end().await;
    run.tally.heard = run.worker_pool.heard.clone();
    run.tally.heard_of_shedlocks = run.worker_pool.heard_of_shedlocks.clone();
    run.tally.heard_of_olds = run.worker_pool.heard_of_olds.clone();
    run.tally.failure = verdict.as_ref().err().map(ToString::to_string);
    run.tally.tell();
    if let Some(path) = &options.summary {
        run.tally.write(path)?;
    }
    verdict
}

/// Returns the store's version, if the harness supports it.
async fn version_of(context: &Arena) -> Result<Option<String>, Stop> {
    let Some(version) = context.tortured().store_version() else {
        return Ok(None);
    };
    let version = version.await;
    version
        .map(Some)
        .map_err(|error| Stop::harness("ask the store's version", &*error))
}

/// What may be done next.
#[derive(Clone, Copy)]
enum Deed {
    Kill,
    Stop,
    Disturb,
    SetClock,
    Crash,
    StoreFault,
    Nothing,
}

struct Run<'a> {
    context: &'a Arena,
    options: &'a Options,
    at_most: Duration,
    /// The actions to draw from, each as often as it is likely.
    deeds: Vec<Deed>,
    worker_pool: WorkerPool,
    processes: Processes,
    network: Network,
    clocks: Clocks,
    store_faults: StoreFaults,
    tally: Tally,
}

impl<'a> Run<'a> {
    async fn begin(
        context: &'a Arena,
        options: &'a Options,
        may_crash: bool,
    ) -> Result<Self, Stop> {
        let mut jobs = jobs(context);
        // The short run of the tests has to acquire every lock often.
        if options.is_asked_for && context.capabilities().completion {
            jobs.push(Job::with_open_slots("open"));
        }
        let mut worker_pool = WorkerPool::without_workers(context, &jobs).await?;
        worker_pool.rest(options.rest);
        let olds = options.old.as_ref().map_or(0, |(_, count)| *count);
        let operators = usize::from(context.capabilities().completion);
        let workers = WORKERS + operators + olds + options.java;
        let network = Network::before(&mut worker_pool, workers, options.resets, context).await?;
        let mut tally = Tally {
            harness: context.harness().name().to_owned(),
            version: version_of(context).await?,
            seconds: options.length.as_secs(),
            rest_millis: millis(options.rest),
            seed: worker_pool.seed.clone(),
            workers: WORKERS,
            java: options.java,
            old: olds,
            ..Tally::default()
        };
        let mut deeds = [[Deed::Kill; 3], [Deed::Stop; 3]].concat();
        deeds.push(Deed::Nothing);
        if network.is_there() {
            deeds.extend([Deed::Disturb; 6]);
        } else {
            let lacks = "no faults of the network (Namespace::store_addr, TortureNamespace::child_spec_via)";
            tally.not_done.push(lacks.to_owned());
        }
        let clocks = Clocks::before(&mut worker_pool, context, &mut tally)?;
        if clocks.are_wrong() {
            deeds.push(Deed::SetClock);
        }
        if may_crash {
            deeds.push(Deed::Crash);
        } else {
            let lacks = "no crashes of the store (it is not our own, or it does not survive them)";
            tally.not_done.push(lacks.to_owned());
        }
        let store_faults = StoreFaults::of(context, options.is_asked_for);
        if store_faults.are_known() {
            deeds.extend([Deed::StoreFault; 2]);
        } else {
            let lacks = "no faults of the store (TortureNamespace::begin_fault)";
            tally.not_done.push(lacks.to_owned());
        }
        worker_pool.add(WORKERS)?;
        if operators > 0 {
            worker_pool.add_operator()?;
        } else {
            let lacks = "no pauses, which would not skip slots (Capabilities::completion)";
            tally.not_done.push(lacks.to_owned());
        }
        if let Some((executable, count)) = &options.old {
            worker_pool.add_old(*count, executable)?;
        }
        worker_pool.add_shedlocks(options.java)?;
        Ok(Self {
            context,
            options,
            at_most: context.timing().short(),
            deeds,
            worker_pool,
            processes: Processes::default(),
            network,
            clocks,
            store_faults,
            tally,
        })
    }

    async fn until_its_end(&mut self) -> Verdict {
        let ends = now() + self.options.length;
        let mut next_stretch = now() + STRETCH * self.at_most;
        while now() < ends {
            self.worker_pool.read_logs()?;
            self.worker_pool.all_run().await?;
            self.repair(Some(now())).await?;
            if now() >= next_stretch {
                self.goes_on().await?;
                next_stretch = now() + STRETCH * self.at_most;
            }
            self.do_something().await?;
            let pause = self.at_most.max(20 * self.options.rest);
            sleep(self.worker_pool.rng.up_to(pause)).await;
        }
        self.goes_on().await?;
        self.worker_pool.stop().await?;
        self.judge()
    }

    async fn do_something(&mut self) -> Verdict {
        let Self {
            worker_pool,
            processes,
            network,
            clocks,
            store_faults,
            tally,
            at_most,
            context,
            ..
        } = self;
        match *worker_pool.rng.pick(&self.deeds) {
            Deed::Kill => processes.kill(worker_pool, tally).await,
            Deed::Stop => processes.stop(worker_pool, *at_most, tally),
            Deed::Disturb => network.disturb(&KINDS, worker_pool, *at_most, tally).await,
            Deed::SetClock => clocks.jump(worker_pool, tally),
            Deed::Crash if store_faults.is_ongoing() => Ok(()),
            Deed::Crash => self.crash().await,
            Deed::StoreFault => {
                // A stopped process may hold a resource that is needed to begin a fault.
                processes.go_on(worker_pool, None)?;
                store_faults
                    .begin(context, worker_pool, *at_most, tally)
                    .await
            }
            Deed::Nothing => Ok(()),
        }
    }

    /// Crashes the store and starts it again shortly afterwards, with its data.
    async fn crash(&mut self) -> Verdict {
        self.worker_pool.note_of_store(What::StoreKilled)?;
        self.context.stop_store().await?;
        sleep(self.worker_pool.rng.up_to(self.at_most)).await;
        self.context.start_store().await?;
        self.worker_pool.note_of_store(What::StoreStarted)?;
        self.tally.count("crashes of the store");
        Ok(())
    }

    /// Ends the faults that are due; all of them if no instant is given.
    async fn repair(&mut self, by: Option<Moment>) -> Verdict {
        self.processes.go_on(&mut self.worker_pool, by)?;
        let Self {
            worker_pool,
            network,
            store_faults,
            tally,
            context,
            ..
        } = self;
        network.repair(by, worker_pool, tally).await?;
        store_faults.end(context, by, worker_pool).await
    }

    /// A period without faults, in which every lock that becomes free is acquired again.
    async fn goes_on(&mut self) -> Verdict {
        self.repair(None).await?;
        self.clocks.took_effect(&mut self.worker_pool).await?;
        let after = liveness::goes_on(&mut self.worker_pool, &NAMES).await?;
        self.tally.recovered(after);
        Ok(())
    }

    fn judge(&mut self) -> Verdict {
        let started = now();
        let mut rules = self.worker_pool.rules();
        rules.flight = FLIGHT;
        if self.options.java > 0 {
            rules.flight += KEEPS_ROWS;
        }
        rules.skew = self.clocks.apart(self.context);
        rules.withdrawal = Some(hunt::withdrawal(self.at_most));
        let findings = self.worker_pool.judge(&rules)?;
        self.tally.events = findings.events;
        self.tally.runs_again = findings.runs_again;
        self.tally.judged_in_millis = millis(now().saturating_since(started));
        ensure!(
            self.options.java == 0 || findings.shedlocks > 0,
            "ShedLock took part and acquired nothing: {findings:?}"
        );
        ensure!(
            self.options.old.is_none() || self.worker_pool.heard_of_olds.acquisitions > 0,
            "the earlier version took part and acquired nothing: {findings:?}"
        );
        ensure!(
            findings.pauses > 0 || !self.context.capabilities().completion,
            "the operator took part and paused nothing: {findings:?}"
        );
        ensure!(
            findings.acquisitions > 0 && findings.skips > 0,
            "the history proves nothing: {findings:?}"
        );
        Ok(())
    }
}

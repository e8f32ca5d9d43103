//! Everything at once: processes that are killed and stopped, a network that cuts, delays and
//! swallows, a store that crashes and gets into troubles.

mod clocks;
pub(crate) mod hunt;
mod liveness;
mod network;
mod options;
mod processes;
mod tally;
mod troubles;

use std::time::Duration;

use shedlock_core::Moment;

use crate::history::What;
use crate::jvm::KEEPS_ROWS;
use crate::troop::Troop;
use crate::verdict::ensure;
use crate::wait::{now, sleep};
use crate::worker::Job;
use crate::{Setting, Stop, Verdict};
use clocks::Clocks;
use network::Network;
pub(crate) use options::{Options, wrong_protocols};
use processes::Processes;
use tally::{Tally, millis};
use troubles::Troubles;

const WORKERS: usize = 6;

const NAMES: [&str; 3] = ["hot", "warm", "cold"];

/// The locks that are fought for: some are kept for a while, some are taken for slots.
pub(crate) fn jobs(setting: &Setting) -> Vec<Job> {
    let at_least = setting.pace().short() / 3;
    let mut jobs: Vec<Job> = NAMES.into_iter().map(Job::plain).collect();
    jobs.push(Job::kept("kept", at_least));
    if setting.capabilities().slots {
        jobs.push(Job::with_slots("slots"));
    }
    jobs
}

/// How long a request is on its way on a busy machine that no fault holds up.
const FLIGHT: Duration = Duration::from_secs(1);

/// After so many leases' time of faults there is a stretch without any.
const STRETCH: u32 = 20;

/// Tortures processes over this store, and the store itself where it may be crashed, and judges what
/// all of them did.
pub(crate) async fn torture(setting: &Setting, may_crash: bool) -> Verdict {
    let options = Options::from_environment()?;
    let mut run = Run::begin(setting, &options, may_crash).await?;
    let verdict = run.until_its_end().await;
    run.tally.heard = run.troop.heard.clone();
    run.tally.heard_of_shedlocks = run.troop.heard_of_shedlocks.clone();
    run.tally.heard_of_olds = run.troop.heard_of_olds.clone();
    run.tally.failure = verdict.as_ref().err().map(ToString::to_string);
    run.tally.tell();
    if let Some(path) = &options.summary {
        run.tally.write(path)?;
    }
    verdict
}

/// What may be done next.
#[derive(Clone, Copy)]
enum Deed {
    Kill,
    Stop,
    Disturb,
    SetClock,
    Crash,
    Trouble,
    Nothing,
}

struct Run<'a> {
    setting: &'a Setting,
    options: &'a Options,
    at_most: Duration,
    /// What is drawn from, each as often as it is likely.
    deeds: Vec<Deed>,
    troop: Troop,
    processes: Processes,
    network: Network,
    clocks: Clocks,
    troubles: Troubles,
    tally: Tally,
}

impl<'a> Run<'a> {
    async fn begin(
        setting: &'a Setting,
        options: &'a Options,
        may_crash: bool,
    ) -> Result<Self, Stop> {
        let mut jobs = jobs(setting);
        // In the short run of the tests every lock has to be taken often.
        if options.is_asked_for && setting.capabilities().slot_completion {
            jobs.push(Job::with_open_slots("open"));
        }
        let mut troop = Troop::without_workers(setting, &jobs).await?;
        troop.rest(options.rest);
        let olds = options.old.as_ref().map_or(0, |(_, count)| *count);
        let workers = WORKERS + olds + options.java;
        let network = Network::before(&mut troop, workers, setting).await?;
        let mut tally = Tally {
            harness: setting.harness().name().to_owned(),
            version: setting.store_version().await?,
            seconds: options.length.as_secs(),
            rest_millis: millis(options.rest),
            seed: troop.seed.clone(),
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
            let lacks = "no faults of the network (Space::store_addr, Space::child_spec_via)";
            tally.not_done.push(lacks.to_owned());
        }
        let clocks = Clocks::before(&mut troop, setting, &mut tally)?;
        if clocks.are_wrong() {
            deeds.push(Deed::SetClock);
        }
        if may_crash {
            deeds.push(Deed::Crash);
        } else {
            let lacks = "no crashes of the store (not our own, or it forgets)";
            tally.not_done.push(lacks.to_owned());
        }
        let troubles = Troubles::of(setting);
        if troubles.are_known() {
            deeds.extend([Deed::Trouble; 2]);
        } else {
            let lacks = "no troubles of the store (Space::begin_trouble)";
            tally.not_done.push(lacks.to_owned());
        }
        troop.add(WORKERS)?;
        if let Some((executable, count)) = &options.old {
            troop.add_old(*count, executable)?;
        }
        troop.add_shedlocks(options.java)?;
        Ok(Self {
            setting,
            options,
            at_most: setting.pace().short(),
            deeds,
            troop,
            processes: Processes::default(),
            network,
            clocks,
            troubles,
            tally,
        })
    }

    async fn until_its_end(&mut self) -> Verdict {
        let ends = now() + self.options.length;
        let mut next_stretch = now() + STRETCH * self.at_most;
        while now() < ends {
            self.troop.read_logs()?;
            self.troop.all_run().await?;
            self.mend(Some(now())).await?;
            if now() >= next_stretch {
                self.goes_on().await?;
                next_stretch = now() + STRETCH * self.at_most;
            }
            self.do_something().await?;
            let pause = self.at_most.max(20 * self.options.rest);
            sleep(self.troop.chance.up_to(pause)).await;
        }
        self.goes_on().await?;
        self.troop.stop().await?;
        self.judge()
    }

    async fn do_something(&mut self) -> Verdict {
        let Self {
            troop,
            processes,
            network,
            clocks,
            troubles,
            tally,
            at_most,
            setting,
            ..
        } = self;
        match *troop.chance.pick(&self.deeds) {
            Deed::Kill => processes.kill(troop, tally).await,
            Deed::Stop => processes.stop(troop, *at_most, tally),
            Deed::Disturb => network.disturb(troop, *at_most, tally).await,
            Deed::SetClock => clocks.jump(troop, tally),
            Deed::Crash if troubles.is_ongoing() => Ok(()),
            Deed::Crash => self.crash().await,
            Deed::Trouble => {
                // Whoever is stopped may hold what it takes to begin one.
                processes.go_on(troop, None)?;
                troubles.begin(setting, troop, *at_most, tally).await
            }
            Deed::Nothing => Ok(()),
        }
    }

    /// The store ends as in a crash, and is there again a little later, with its data.
    async fn crash(&mut self) -> Verdict {
        self.troop.note_of_store(What::StoreKilled)?;
        self.setting.stop_store().await?;
        sleep(self.troop.chance.up_to(self.at_most)).await;
        self.setting.start_store().await?;
        self.troop.note_of_store(What::StoreStarted)?;
        self.tally.count("crashes of the store");
        Ok(())
    }

    /// Ends what is to end by then; everything where no instant is given.
    async fn mend(&mut self, by: Option<Moment>) -> Verdict {
        self.processes.go_on(&mut self.troop, by)?;
        let Self {
            troop,
            network,
            troubles,
            tally,
            setting,
            ..
        } = self;
        network.mend(by, troop, tally).await?;
        troubles.end(setting, by, troop).await
    }

    /// A stretch without faults: what comes free is taken again, by whoever asks.
    async fn goes_on(&mut self) -> Verdict {
        self.mend(None).await?;
        self.clocks.took_effect(&mut self.troop).await?;
        let after = liveness::goes_on(&mut self.troop, &NAMES).await?;
        self.tally.recovered(after);
        Ok(())
    }

    fn judge(&mut self) -> Verdict {
        let started = now();
        let mut rules = self.troop.rules();
        rules.flight = FLIGHT;
        if self.options.java > 0 {
            rules.flight += KEEPS_ROWS;
        }
        rules.skew = self.clocks.apart(self.setting);
        let findings = self.troop.judge(&rules)?;
        self.tally.events = findings.events;
        self.tally.runs_again = findings.runs_again;
        self.tally.judged_in_millis = millis(now().saturating_since(started));
        ensure!(
            self.options.java == 0 || findings.shedlocks > 0,
            "ShedLock was there and took nothing: {findings:?}"
        );
        ensure!(
            self.options.old.is_none() || self.troop.heard_of_olds.acquisitions > 0,
            "the earlier version was there and took nothing: {findings:?}"
        );
        ensure!(
            findings.acquisitions > 0 && findings.skips > 0,
            "the history proves nothing: {findings:?}"
        );
        Ok(())
    }
}

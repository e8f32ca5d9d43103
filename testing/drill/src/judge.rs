//! Each slot once or explained, each alert for its reason and no other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use crate::alerts::{Alert, Change};
use crate::phase::Phase;
use crate::world::{Episode, Record};

/// An alert that counts missed slots back to the job's 100th run, so it outlasts what caused it.
const LOOKS_BACK: &str = "ShedlockJobMissesSlots";

/// From so many missed slots on, it is right.
const MANY: usize = 3;

/// A run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    job: String,
    slot: Timestamp,
    token: u64,
    host: String,
}

impl Run {
    /// Reads what a job has written.
    pub(crate) fn read(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [job, slot, token, host] = words[..] else {
            anyhow::bail!("a job has written something else: {line}");
        };
        Ok(Self {
            job: job.to_owned(),
            slot: slot.parse().with_context(|| line.to_owned())?,
            token: token.parse().with_context(|| line.to_owned())?,
            host: host.to_owned(),
        })
    }
}

/// The first full minute after this.
pub(crate) fn next_minute(time: Timestamp) -> Timestamp {
    let second = time.as_second();
    let next = Timestamp::from_second(second - second.rem_euclid(60) + 60);
    next.unwrap_or(Timestamp::MAX)
}

/// Whether the alert may outlast its cause.
pub(crate) fn looks_back(alert: &Alert) -> bool {
    alert.name == LOOKS_BACK
}

/// What became of everything.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    rows: Vec<[String; 7]>,
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    /// In Markdown.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "event", "minutes", "slots", "run once", "missed", "alerts", "doctor",
        ]);
        table.add_rows(&self.rows);
        table
    }

    fn fault(&mut self, phase: Phase, what: &str) {
        self.faults.push(format!("{}: {what}", phase.title()));
    }
}

/// Judges what is recorded of these phases.
pub(crate) fn judge(episodes: &[Episode], record: &Record) -> Verdict {
    let mut verdict = Verdict::default();
    let slots = Slots::of(record);
    for (number, episode) in episodes.iter().enumerate() {
        // A phase that has begun is over when the next one begins.
        let end = match episodes.get(number + 1) {
            Some(next) => next.begun,
            // The last slots may still run.
            None => episode.ended - 1.minute(),
        };
        let (due, once, missed) = slots.judge(episode, end, record, &mut verdict);
        let alerts = judge_alerts(
            episode,
            end.max(episode.ended),
            &record.changes,
            &mut verdict,
        );
        let doctor = judge_doctor(episode, &mut verdict);
        verdict.rows.push([
            episode.phase.title().to_owned(),
            minutes(episode.begun.duration_until(episode.ended)),
            due.to_string(),
            once.to_string(),
            missed,
            alerts,
            doctor,
        ]);
    }
    slots.judge_tokens(&mut verdict);
    judge_looking_back(&slots, record, &mut verdict);
    verdict
}

/// All runs of each slot of each job.
struct Slots<'a> {
    runs: BTreeMap<(&'a str, Timestamp), Vec<&'a Run>>,
}

impl<'a> Slots<'a> {
    fn of(record: &'a Record) -> Self {
        let mut runs: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for run in &record.runs {
            runs.entry((&*run.job, run.slot)).or_default().push(run);
        }
        Self { runs }
    }

    /// How many were due in this phase, how many ran once, and which did not run.
    fn judge(
        &self,
        episode: &Episode,
        end: Timestamp,
        record: &Record,
        verdict: &mut Verdict,
    ) -> (usize, usize, String) {
        let (mut due, mut once, mut missed) = (0, 0, 0);
        for ((job, slot), runs) in &self.runs {
            if (episode.begun..end).contains(slot) && runs.len() > 1 {
                let hosts: Vec<_> = runs.iter().map(|run| &*run.host).collect();
                let twice = format!("{job}'s slot {slot} ran on {}", hosts.join(" and "));
                verdict.fault(episode.phase, &twice);
            }
        }
        for job in &record.jobs {
            let until = job.until.map_or(end, |until| until.min(end));
            let mut slot = job.from.max(next_minute(episode.begun));
            while slot < until {
                due += 1;
                match self.runs.get(&(job.name, slot)).map_or(0, Vec::len) {
                    0 => {
                        missed += 1;
                        if episode.phase.expected().misses.is_none() {
                            verdict.fault(
                                episode.phase,
                                &format!("{}'s slot {slot} did not run", job.name),
                            );
                        }
                    }
                    1 => once += 1,
                    _ => {}
                }
                slot += 1.minute();
            }
        }
        let missed = match episode.phase.expected().misses {
            Some(why) if missed > 0 => format!("{missed}: {why}"),
            _ => missed.to_string(),
        };
        (due, once, missed)
    }

    /// Later slots of a job have higher tokens.
    fn judge_tokens(&self, verdict: &mut Verdict) {
        let mut last: Option<&Run> = None;
        for run in self.runs.values().flatten() {
            if let Some(last) = last.filter(|last| last.job == run.job && last.token >= run.token) {
                verdict.faults.push(format!(
                    "{}'s slot {} has token {}, and {} had {}",
                    run.job, run.slot, run.token, last.slot, last.token
                ));
            }
            last = Some(run);
        }
    }

    /// When this job had missed many slots, if it ever had.
    fn many_missed(&self, record: &Record, name: &str) -> Option<Timestamp> {
        let job = record.jobs.iter().find(|job| job.name == name)?;
        let mut runs = self
            .runs
            .keys()
            .filter(|(of, slot)| *of == name && *slot >= job.from);
        let mut missed = 0;
        let mut slot = job.from;
        let last = runs.next_back()?.1;
        while slot < last {
            missed += usize::from(!self.runs.contains_key(&(name, slot)));
            if missed == MANY {
                return Some(slot);
            }
            slot += 1.minute();
        }
        None
    }
}

/// The alerts that were raised in this phase, each with the time until it was and until it was no more.
fn judge_alerts(
    episode: &Episode,
    end: Timestamp,
    changes: &[Change],
    verdict: &mut Verdict,
) -> String {
    let of_phase = |change: &&Change| change.is_raised && (episode.begun..end).contains(&change.at);
    let raised: Vec<_> = changes
        .iter()
        .filter(of_phase)
        .filter(|change| !looks_back(&change.alert))
        .collect();
    let expected: BTreeSet<(&str, &str)> = episode
        .phase
        .expected()
        .alerts
        .iter()
        .flat_map(|(name, jobs)| {
            let about_none: &[&str] = &[""];
            let jobs = if jobs.is_empty() { about_none } else { jobs };
            jobs.iter().map(move |job| (*name, *job))
        })
        .collect();
    let seen: BTreeSet<(&str, &str)> = raised
        .iter()
        .map(|change| (&*change.alert.name, &*change.alert.job))
        .collect();
    for (name, job) in expected.difference(&seen) {
        verdict.fault(episode.phase, &format!("no alert {name} {job}"));
    }
    for (name, job) in seen.difference(&expected) {
        verdict.fault(
            episode.phase,
            &format!("alert {name} {job} without its reason"),
        );
    }
    let mut texts = Vec::new();
    for change in raised {
        let later = changes
            .iter()
            .filter(|it| it.alert == change.alert && it.at > change.at);
        let resolved = later.into_iter().find(|it| !it.is_raised && it.at < end);
        let Some(resolved) = resolved else {
            verdict.fault(episode.phase, &format!("{} is not resolved", change.alert));
            continue;
        };
        let text = format!(
            "{} after {} s, resolved {} s after the end of its cause",
            change.alert,
            episode.begun.duration_until(change.at).as_secs(),
            episode.over.duration_until(resolved.at).as_secs()
        );
        texts.push(text);
    }
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join("; ")
    }
}

/// What `doctor` has found.
fn judge_doctor(episode: &Episode, verdict: &mut Verdict) -> String {
    let expected = episode.phase.expected().doctor;
    for check in expected {
        if !episode.doctor.iter().any(|(found, _)| found == check) {
            verdict.fault(episode.phase, &format!("doctor does not warn of `{check}`"));
        }
    }
    for (check, level) in &episode.doctor {
        if level == "error" && !expected.contains(&&**check) {
            verdict.fault(episode.phase, &format!("doctor has an error of `{check}`"));
        }
    }
    let checks: Vec<_> = episode
        .doctor
        .iter()
        .map(|(check, _)| format!("`{check}`"))
        .collect();
    checks.join(", ")
}

/// The alert that counts missed slots is raised for jobs that have missed many, and for no others.
fn judge_looking_back(slots: &Slots<'_>, record: &Record, verdict: &mut Verdict) {
    for change in record
        .changes
        .iter()
        .filter(|change| change.is_raised && looks_back(&change.alert))
    {
        let many = slots.many_missed(record, &change.alert.job);
        if many.is_none_or(|many| many > change.at) {
            verdict
                .faults
                .push(format!("{} without its reason", change.alert));
        }
    }
}

fn minutes(duration: SignedDuration) -> String {
    let tenths = (duration.as_secs() + 3) / 6;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Job;

    const PHASES: [Phase; 2] = [Phase::Quiet, Phase::StandbyAway];

    fn minute(number: i64) -> Timestamp {
        Timestamp::from_second(number * 60).unwrap()
    }

    /// Five minutes each.
    fn episodes() -> Vec<Episode> {
        let episode = |(number, phase): (i64, Phase)| Episode {
            phase,
            begun: minute(5 * number) - 1.second(),
            over: minute(5 * number + 4),
            ended: minute(5 * number + 5) - 1.second(),
            doctor: match phase {
                Phase::StandbyAway => vec![("commits".to_owned(), "warning".to_owned())],
                _ => Vec::new(),
            },
        };
        (0..).zip(PHASES).map(episode).collect()
    }

    fn run(job: &str, slot: i64) -> Run {
        Run {
            job: job.to_owned(),
            slot: minute(slot),
            token: u64::try_from(slot).unwrap() + 1,
            host: "host-1".to_owned(),
        }
    }

    fn change(name: &str, job: &str, at: i64, is_raised: bool) -> Change {
        Change {
            at: minute(at),
            alert: Alert::of(name, job),
            is_raised,
        }
    }

    /// Everything as it must be: three slots are missed while the standby is away.
    fn record() -> Record {
        let overdue = |job| {
            [true, false].map(|is| change("ShedlockJobOverdue", job, if is { 8 } else { 9 }, is))
        };
        let slots = (0..6).chain(9..10);
        Record {
            jobs: ["mail", "report"]
                .map(|name| Job {
                    name,
                    from: minute(0),
                    until: None,
                })
                .into(),
            runs: slots
                .flat_map(|slot| [run("mail", slot), run("report", slot)])
                .collect(),
            changes: ["mail", "report"].into_iter().flat_map(overdue).collect(),
        }
    }

    fn faults(spoil: impl FnOnce(&mut Vec<Episode>, &mut Record)) -> Vec<String> {
        let (mut episodes, mut record) = (episodes(), record());
        spoil(&mut episodes, &mut record);
        judge(&episodes, &record).faults
    }

    #[test]
    fn what_is_as_it_must_be_has_no_fault() {
        assert_eq!(faults(|_, _| {}), Vec::<String>::new());
        let verdict = judge(&episodes(), &record());
        assert_eq!(verdict.rows[0][2..6], ["10", "10", "0", "none"]);
        assert_eq!(
            verdict.rows[1][2..5],
            ["8", "2", "6: no commit is confirmed"]
        );
    }

    #[test]
    fn each_fault_is_found() {
        let spoiled = [
            faults(|_, record| record.runs.push(run("mail", 2))),
            faults(|_, record| record.runs.retain(|it| *it != run("mail", 2))),
            faults(|_, record| record.runs[4].token = 0),
            faults(|_, record| drop(record.changes.remove(0))),
            faults(|_, record| drop(record.changes.pop())),
            faults(|_, record| {
                record
                    .changes
                    .extend([true, false].map(|is| change("ShedlockStoreDown", "", 3, is)))
            }),
            faults(|_, record| record.changes.push(change(LOOKS_BACK, "mail", 7, true))),
            faults(|episodes, _| episodes[1].doctor.clear()),
            faults(|episodes, _| {
                episodes[0]
                    .doctor
                    .push(("privileges".to_owned(), "error".to_owned()))
            }),
        ];
        let found = spoiled.map(|faults| faults.join("; "));
        let parts = [
            "mail's slot 1970-01-01T00:02:00Z ran on host-1 and host-1",
            "nothing happens: mail's slot 1970-01-01T00:02:00Z did not run",
            "has token 0, and 1970-01-01T00:01:00Z had 2",
            "no alert ShedlockJobOverdue mail",
            "ShedlockJobOverdue report is not resolved",
            "nothing happens: alert ShedlockStoreDown  without its reason",
            "ShedlockJobMissesSlots mail without its reason",
            "doctor does not warn of `commits`",
            "nothing happens: doctor has an error of `privileges`",
        ];
        for (found, part) in found.iter().zip(parts) {
            assert!(found.contains(part), "{part}: {found}");
        }
    }

    #[test]
    fn an_alert_that_counts_missed_slots_may_come_after_them() {
        let late = change(LOOKS_BACK, "mail", 9, true);
        assert_eq!(
            faults(|_, record| record.changes.push(late)),
            Vec::<String>::new()
        );
    }
}

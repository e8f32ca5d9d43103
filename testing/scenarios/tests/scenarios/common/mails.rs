//! The outcome of all mails: the judge of both scenarios with mails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{History, Line};

/// The texts in the log that the judge looks for.
const SENDING: &str = "sending id=";
const MARKED: &str = "marked as sent";
const REFUSED: &str = "not sent: ";
const STOPPED: &str = "sending was stopped";
const TOOK: &str = "took message_id=";
const KILLED: &str = "is killed";
const UNLOCKED: &str = "lock released lock=";

/// What a history shows about its mails.
#[derive(Debug, Default)]
pub(crate) struct Mails {
    /// How many different mails the mail server has accepted.
    pub(crate) taken: usize,
    /// How many times it accepted a mail that it had accepted before.
    pub(crate) repeated: usize,
    /// How many times it refused a mail or stalled.
    pub(crate) refused: usize,
    /// How many times a replica was killed with mails in flight.
    pub(crate) kills: usize,
    /// How many times sending was stopped because the lock was lost or released.
    pub(crate) stopped: usize,
    /// The violations that were found.
    complaints: Vec<String>,
    by_id: BTreeMap<i64, Mail>,
    in_flight: BTreeMap<String, BTreeSet<i64>>,
}

#[derive(Debug, Default)]
struct Mail {
    message_id: Option<String>,
    is_marked: bool,
    /// The sender when it was last accepted.
    taken_from: Option<String>,
    /// The replicas whose sending was cut off, by a kill or with the lock.
    cut_off: BTreeSet<String>,
}

impl Mails {
    /// Reads a history; each line is judged by the lines before it.
    pub(crate) fn of(history: &History) -> Self {
        history.look(Self::judge)
    }

    pub(crate) fn judge(lines: &[Line]) -> Self {
        let mut mails = Self::default();
        for line in lines {
            mails.read(line);
        }
        mails
    }

    fn read(&mut self, line: &Line) {
        if line.says(KILLED) {
            self.killed(&line.who);
        } else if line.says(UNLOCKED) {
            self.unlocked(&line.who);
        } else if let Some(id) = line.id() {
            let who = line.who.clone();
            if line.says(SENDING) {
                self.begins(who, id);
            } else if line.says(TOOK) {
                self.took(line, id);
            } else if line.says(MARKED) {
                self.by_id.entry(id).or_default().is_marked = true;
                self.ends(&who, id);
            } else if line.says(REFUSED) {
                self.refused += 1;
                self.ends(&who, id);
            } else if line.says(STOPPED) {
                self.stopped += 1;
                self.by_id
                    .entry(id)
                    .or_default()
                    .cut_off
                    .insert(who.clone());
                self.ends(&who, id);
            }
        }
    }

    fn begins(&mut self, who: String, id: i64) {
        if self.by_id.entry(id).or_default().is_marked {
            self.complain(format!("{who} sends mail {id}, which was marked as sent"));
        }
        self.in_flight.entry(who).or_default().insert(id);
    }

    fn ends(&mut self, who: &str, id: i64) {
        if let Some(in_flight) = self.in_flight.get_mut(who) {
            in_flight.remove(&id);
        }
    }

    fn took(&mut self, line: &Line, id: i64) {
        let from = line.field("from").unwrap_or_default().to_owned();
        let message_id = line.field("message_id").unwrap_or_default().to_owned();
        let mail = self.by_id.entry(id).or_default();
        let known = mail.message_id.get_or_insert_with(|| message_id.clone());
        let is_same = *known == message_id;
        let before = mail.taken_from.replace(from);
        let was_cut_off = before.as_ref().is_none_or(|it| mail.cut_off.contains(it));
        let is_marked = mail.is_marked;
        if before.is_none() {
            self.taken += 1;
        } else {
            self.repeated += 1;
        }
        if !is_same {
            self.complain(format!("mail {id} came again as {message_id}"));
        }
        if is_marked {
            self.complain(format!("mail {id} came after it was marked as sent"));
        }
        if !was_cut_off {
            let before = before.unwrap_or_default();
            self.complain(format!("mail {id} came again; {before} was not cut off"));
        }
    }

    fn killed(&mut self, who: &str) {
        let in_flight = self.in_flight.remove(who).unwrap_or_default();
        if !in_flight.is_empty() {
            self.kills += 1;
        }
        for id in in_flight {
            let mail = self.by_id.entry(id).or_default();
            mail.cut_off.insert(who.to_owned());
        }
    }

    fn unlocked(&mut self, who: &str) {
        if let Some(in_flight) = self.in_flight.get(who)
            && !in_flight.is_empty()
        {
            let complaint = format!("{who} unlocked and was still sending {in_flight:?}");
            self.complain(complaint);
        }
    }

    fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    /// The mails that are known to be marked.
    pub(crate) fn marked(&self) -> BTreeSet<i64> {
        let marked = self.by_id.iter().filter(|(_, mail)| mail.is_marked);
        marked.map(|(id, _)| *id).collect()
    }

    /// Whether this replica is sending a mail, according to its log.
    pub(crate) fn is_sending(&self, who: &str) -> bool {
        let in_flight = self.in_flight.get(who);
        in_flight.is_some_and(|in_flight| !in_flight.is_empty())
    }

    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// # Panics
    /// If a mail was repeated that must not be.
    pub(crate) fn assert_no_complaints(&self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }

    /// # Panics
    /// If one of these mails never arrived.
    pub(crate) fn assert_all_came(&self, ids: impl IntoIterator<Item = i64>) {
        let came = |id: &i64| {
            let mail = self.by_id.get(id);
            mail.is_some_and(|mail| mail.message_id.is_some())
        };
        let lost: Vec<i64> = ids.into_iter().filter(|id| !came(id)).collect();
        assert!(lost.is_empty(), "lost mails: {lost:?}");
    }
}

impl fmt::Display for Mails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills with mails in flight, {} mails, {} of them repeated, {} refusals, {} stopped",
            self.kills, self.taken, self.repeated, self.refused, self.stopped
        )
    }
}

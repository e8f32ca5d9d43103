//! The values of the journal's hashes. Each is a line of words, with `-` for missing ones, and lines of texts.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shedlock_core::{
    Actor, AuditRecord, Error, JobRecord, LastRun, ReplacedRegistration, RunEnd, RunId, RunOutcome,
    RunRecord, Slot, TakenElsewhere,
};
use shedlock_journal::merge::Limits;
use shedlock_provider::{Result, conflict};
use shedlock_support::text::first_bytes;

use crate::codec::instant;
use crate::key::LONGEST_NAME;

/// The most bytes of a schedule, an owner, a line of an error or a text of an audit record.
const LONGEST_TEXT: usize = 1_024;

/// How much of each text is kept.
pub(super) const LIMITS: Limits = Limits {
    name: LONGEST_NAME,
    text: LONGEST_TEXT,
    line: LONGEST_TEXT,
    word: LONGEST_TEXT,
    cut: first_bytes,
};

/// A text as one line.
fn line(text: &str) -> Cow<'_, str> {
    match text.contains(['\\', '\n']) {
        true => Cow::Owned(text.replace('\\', "\\\\").replace('\n', "\\n")),
        false => Cow::Borrowed(text),
    }
}

/// The text of a line.
fn text(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut escaped = false;
    for c in line.chars() {
        match (escaped, c) {
            (false, '\\') => escaped = true,
            (true, 'n') => {
                text.push('\n');
                escaped = false;
            }
            (_, c) => {
                text.push(c);
                escaped = false;
            }
        }
    }
    text
}

fn line_of(text: Option<&str>) -> Cow<'_, str> {
    line(text.unwrap_or_default())
}

fn micros(duration: Duration) -> String {
    duration.as_micros().to_string()
}

/// An instant in microseconds since 1970. What was before that is 1970.
fn at(instant: SystemTime) -> String {
    micros(instant.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn word<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A text that has no blanks: a host, or the identity of a store.
fn text_word(text: Option<&str>) -> String {
    word(text.and_then(|text| text.split_whitespace().next()))
}

/// The member of a sorted set for a run of this job or lock.
pub(super) fn member(of: &str, id: &str) -> String {
    format!("{}\n{id}", line(of))
}

/// The value of a job: its words and texts in the order in which [`job`] reads them. Words that later releases appended
/// to what it was stay.
pub(super) fn job_text(job: &JobRecord, was: &[u8]) -> String {
    let last = job.last_run.as_ref();
    let (replaced, taken) = (job.replaced.as_ref(), job.elsewhere.as_ref());
    let words = [
        at(job.registered),
        word(job.lock_at_most_for.map(micros)),
        word(last.map(|it| at(it.started))),
        word(job.last_succeeded.map(at)),
        word(job.last_failed.map(at)),
        word(last.and_then(|it| it.outcome)),
        word(job.last_duration.map(micros)),
        word(job.next_slot.map(Slot::as_micros)),
        word(job.deadline.map(at)),
        word(last.and_then(|it| it.lock_at_most_for).map(micros)),
        word(last.and_then(|it| it.slot).map(Slot::as_micros)),
        text_word(last.and_then(|it| it.lock_store.as_deref())),
        text_word(job.registered_by.as_deref()),
        text_word(replaced.map(|it| &*it.by)),
        word(replaced.map(|it| at(it.at))),
        word(replaced.and_then(|it| it.lock_at_most_for).map(micros)),
        word(taken.map(|it| it.slot.as_micros())),
        word(taken.map(|it| at(it.at))),
        word(taken.map(|it| it.slots)),
        text_word(taken.and_then(|it| it.by.as_deref())),
        word(job.is_watched_elsewhere.then_some(1)),
    ];
    let was = String::from_utf8_lossy(was);
    let was = was.split('\n').next().unwrap_or_default();
    let later = was.split(' ').skip(words.len());
    let words: Vec<&str> = words.iter().map(|word| &**word).chain(later).collect();
    let texts = [
        line_of(job.schedule.as_deref()),
        line_of(job.zone.as_deref()),
        line_of(job.last_error.as_deref()),
        line_of(last.map(|it| &*it.name)),
        line_of(last.map(|it| &*it.owner)),
        line_of(replaced.and_then(|it| it.schedule.as_deref())),
        line_of(replaced.and_then(|it| it.zone.as_deref())),
    ];
    format!("{}\n{}", words.join(" "), texts.join("\n"))
}

/// The value of a run: `{outcome} {started} {ran_for} {slot} {attempt} {token} {lock_at_most_for} {lock_store}`, the job, the lock's name unless it is
/// the same, the owner, and the error.
pub(crate) fn run_text(run: &RunRecord) -> String {
    let end = run.end.as_ref();
    let error = end.and_then(|end| end.error.as_deref()).unwrap_or_default();
    let name = Some(&*run.name).filter(|name| *name != run.job);
    format!(
        "{} {} {} {} {} {} {} {}\n{}\n{}\n{}\n{}",
        word(end.map(|end| end.outcome)),
        at(run.started),
        word(end.map(|end| micros(end.ran_for))),
        word(run.slot.map(Slot::as_micros)),
        word(run.attempt),
        word(run.fencing_token),
        word(run.lock_at_most_for.map(micros)),
        text_word(run.lock_store.as_deref()),
        line(&run.job),
        line_of(name),
        line(&run.owner),
        error,
    )
}

/// The value of an audit record: `{at} {claimed|authenticated} {action} {until} {lock_store}`, the user, the lock's name, the detail and the
/// reason.
pub(super) fn audit_text(record: &AuditRecord) -> String {
    let vouched = match record.actor.is_authenticated() {
        true => "authenticated",
        false => "claimed",
    };
    format!(
        "{} {vouched} {} {} {}\n{}\n{}\n{}\n{}",
        at(record.at),
        text_word(Some(&record.action)),
        word(record.until.map(at)),
        text_word(record.lock_store.as_deref()),
        line(record.actor.user()),
        line(&record.name),
        line(&record.detail),
        line_of(record.reason.as_deref()),
    )
}

/// The lines of a value: its words, and its texts. Later versions may append words.
struct Lines<'a> {
    words: std::str::Split<'a, char>,
    texts: std::str::SplitN<'a, char>,
}

impl<'a> Lines<'a> {
    /// `texts` is their number; the last one may contain line feeds.
    fn of(value: &'a [u8], texts: usize) -> Result<Self> {
        let value = std::str::from_utf8(value).map_err(|error| foreign().with_source(error))?;
        let (words, texts_) = value.split_once('\n').ok_or_else(foreign)?;
        Ok(Self {
            words: words.split(' '),
            texts: texts_.splitn(texts, '\n'),
        })
    }

    fn word(&mut self) -> Result<Option<&'a str>> {
        let word = self.words.next().ok_or_else(foreign)?;
        Ok(Some(word).filter(|word| *word != "-"))
    }

    /// A word that earlier releases did not write.
    fn added<T: FromStr>(&mut self) -> Result<Option<T>> {
        let word = self.words.next().filter(|word| *word != "-");
        word.map(str::parse).transpose().map_err(|_| foreign())
    }

    fn number<T: FromStr>(&mut self) -> Result<Option<T>> {
        let number = self.word()?.map(str::parse).transpose();
        number.map_err(|_| foreign())
    }

    fn duration(&mut self) -> Result<Option<Duration>> {
        Ok(self.number()?.map(Duration::from_micros))
    }

    fn instant(&mut self) -> Result<Option<SystemTime>> {
        let micros: Option<u64> = self.number()?;
        // More would be past the end of the platform's calendar.
        if micros.is_some_and(|micros| i64::try_from(micros).is_err()) {
            return Err(foreign());
        }
        Ok(micros.map(instant))
    }

    fn slot(&mut self) -> Result<Option<Slot>> {
        let slot = self.number()?.map(Slot::from_micros).transpose();
        slot.map_err(|error| foreign().with_source(error))
    }

    /// An outcome that only later releases have is none.
    fn outcome(&mut self) -> Result<Option<RunOutcome>> {
        Ok(self.word()?.and_then(RunOutcome::parse))
    }

    fn owned_word(&mut self) -> Result<Option<String>> {
        Ok(self.word()?.map(str::to_owned))
    }

    fn raw(&mut self) -> Result<&'a str> {
        self.texts.next().ok_or_else(foreign)
    }

    fn text(&mut self) -> Result<String> {
        self.raw().map(text)
    }

    fn some_text(&mut self) -> Result<Option<String>> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }
}

pub(crate) fn job(name: &str, value: &[u8]) -> Result<JobRecord> {
    let mut lines = Lines::of(value, 7)?;
    let registered = lines.instant()?.ok_or_else(foreign)?;
    let mut job = JobRecord::new(name, registered);
    job.lock_at_most_for = lines.duration()?;
    let started = lines.instant()?;
    job.last_succeeded = lines.instant()?;
    job.last_failed = lines.instant()?;
    let outcome = lines.outcome()?;
    job.last_duration = lines.duration()?;
    job.next_slot = lines.slot()?;
    job.deadline = lines.instant()?;
    let (lock_at_most_for, slot) = (lines.duration()?, lines.slot()?);
    let lock_store = lines.owned_word()?;
    job.registered_by = lines.owned_word()?;
    let (by, at, at_most) = (lines.word()?, lines.instant()?, lines.duration()?);
    job.replaced = by.zip(at).map(|(by, at)| ReplacedRegistration::new(by, at));
    let taken: (Option<i64>, Option<u64>, _) = (lines.added()?, lines.added()?, lines.added()?);
    job.elsewhere = elsewhere(taken, lines.added()?)?;
    job.is_watched_elsewhere = lines.added::<u8>()? == Some(1);
    job.schedule = lines.some_text()?;
    job.zone = lines.some_text()?;
    job.last_error = lines.some_text()?;
    let (name, owner) = (lines.text()?, lines.text()?);
    let (schedule, zone) = (lines.some_text()?, lines.some_text()?);
    if let Some(replaced) = &mut job.replaced {
        (replaced.schedule, replaced.zone) = (schedule, zone);
        replaced.lock_at_most_for = at_most;
    }
    job.last_run = started.map(|started| {
        let mut run = LastRun::new(name, owner, started);
        (run.lock_at_most_for, run.slot, run.outcome) = (lock_at_most_for, slot, outcome);
        run.lock_store = lock_store;
        run
    });
    Ok(job)
}

/// The latest slot that ShedLock took, from the words of the slot, the time and the number of slots.
fn elsewhere(
    (slot, at, slots): (Option<i64>, Option<u64>, Option<u32>),
    by: Option<String>,
) -> Result<Option<TakenElsewhere>> {
    let (Some(slot), Some(at)) = (slot, at) else {
        return Ok(None);
    };
    let slot = Slot::from_micros(slot).map_err(|error| foreign().with_source(error))?;
    if i64::try_from(at).is_err() {
        return Err(foreign());
    }
    let mut taken = TakenElsewhere::new(slot, instant(at), slots.unwrap_or_default());
    taken.by = by;
    Ok(Some(taken))
}

pub(crate) fn run(id: &str, value: &[u8]) -> Result<RunRecord> {
    let mut lines = Lines::of(value, 4)?;
    let outcome = lines.outcome()?;
    let started = lines.instant()?.ok_or_else(foreign)?;
    let ran_for = lines.duration()?.unwrap_or_default();
    let (slot, attempt, token) = (lines.slot()?, lines.number()?, lines.number()?);
    let (lock_at_most_for, lock_store) = (lines.duration()?, lines.owned_word()?);
    let job = lines.text()?;
    let name = lines.some_text()?.unwrap_or_else(|| job.clone());
    let mut run = RunRecord::new(job, name, lines.text()?, started);
    (run.id, run.slot) = (RunId::from_text(id), slot);
    (run.lock_at_most_for, run.lock_store) = (lock_at_most_for, lock_store);
    (run.attempt, run.fencing_token) = (attempt, token);
    let error = lines.raw()?;
    let error = Some(error.to_owned()).filter(|error| !error.is_empty());
    run.end = outcome.map(|outcome| RunEnd::new(ran_for, outcome, error));
    Ok(run)
}

pub(crate) fn audit(id: &str, value: &[u8]) -> Result<AuditRecord> {
    let mut lines = Lines::of(value, 4)?;
    let at = lines.instant()?.ok_or_else(foreign)?;
    let is_authenticated = lines.word()? == Some("authenticated");
    let action = lines.word()?.unwrap_or_default();
    let (until, lock_store) = (lines.instant()?, lines.owned_word()?);
    let actor = Actor::from_stored(lines.text()?, is_authenticated);
    let mut record = AuditRecord::new(at, 0, actor, action, lines.text()?);
    record.id = RunId::from_text(id);
    record.detail = lines.text()?;
    record.reason = lines.some_text()?;
    (record.until, record.lock_store) = (until, lock_store);
    Ok(record)
}

pub(super) fn foreign() -> Error {
    conflict(
        "a key of the journal (it begins with \"shedlock-rs:journal:\") holds a value that \
             shedlock never writes",
    )
    .advise("check what wrote it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_line_and_comes_back() {
        for it in ["", "plain", "a\nb", r"a\nb", "\\\n\\", "ä\u{2028}"] {
            assert!(!line(it).contains('\n'), "{it:?}");
            assert_eq!(text(&line(it)), it);
        }
    }

    /// The wire format: it must not change.
    #[test]
    fn values_are_as_documented() {
        let started = UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_123);
        let mut run = RunRecord::new("mail", "mail", "web-3/1/ab", started);
        let open = "- 1700000000000123 - - - - - -\nmail\n\nweb-3/1/ab\n";
        assert_eq!(run_text(&run), open);
        run.name = "mail-1".to_owned();
        run.lock_at_most_for = Some(Duration::from_secs(60));
        run.lock_store = Some("db-1/2/cd".to_owned());
        run.slot = Slot::from_micros(1_700_000_000_000_000).ok();
        (run.attempt, run.fencing_token) = (Some(2), Some(7));
        let error = Some("no route\nat all".to_owned());
        run.end = Some(RunEnd::new(
            Duration::from_millis(5),
            RunOutcome::Failed,
            error,
        ));
        let ended = "failed 1700000000000123 5000 1700000000000000 2 7 60000000 db-1/2/cd\nmail\nmail-1\nweb-3/1/ab\n\
                     no route\nat all";
        assert_eq!(run_text(&run), ended);
        let more = ended.replace(" db-1/2/cd\n", " db-1/2/cd and more\n");
        for text in [ended, &more] {
            let mut read = super::run("id", text.as_bytes()).unwrap();
            assert_eq!(read.id.as_str(), "id");
            read.id = run.id.clone();
            assert_eq!(read, run);
        }
        let actor = Actor::Claimed("root".to_owned());
        let mut record = AuditRecord::new(started, 1, actor, "pause", "mail");
        record.detail = "until\nresumed".to_owned();
        record.until = Some(started);
        record.lock_store = Some("db-1/2/cd".to_owned());
        let text = "1700000000000123 claimed pause 1700000000000123 db-1/2/cd\nroot\nmail\nuntil\\nresumed\n";
        assert_eq!(audit_text(&record), text);
        assert_eq!(audit(record.id.as_str(), text.as_bytes()).unwrap(), record);
        let text = "1 60000000 2 3 4 failed 5 6 7 8 9 db-1/2/cd web-3 web-4 10 11\n0 4 * * *\nUTC\n\
                    no route\nmail-1\nweb-3/1/ab\n0 5 * * *\nAsia/Seoul";
        let more = text.replacen(" 10 11\n", " 10 11 - - - - -\n", 1);
        let job = job("mail", text.as_bytes()).unwrap();
        assert_eq!(job_text(&job, text.as_bytes()), more);
        let later = more.replacen('\n', " later words\n", 1);
        assert_eq!(job_text(&job, later.as_bytes()), later);
        let at = |micros| Some(instant(micros));
        assert_eq!(job.registered, instant(1));
        assert_eq!(job.lock_at_most_for, Some(Duration::from_secs(60)));
        let last = job.last_run.as_ref().unwrap();
        assert_eq!((&*last.name, &*last.owner), ("mail-1", "web-3/1/ab"));
        assert_eq!(
            (last.started, last.outcome),
            (instant(2), Some(RunOutcome::Failed))
        );
        assert_eq!(last.lock_at_most_for, Some(Duration::from_micros(8)));
        assert_eq!(last.slot, Slot::from_micros(9).ok());
        assert_eq!(last.lock_store.as_deref(), Some("db-1/2/cd"));
        assert_eq!(job.registered_by.as_deref(), Some("web-3"));
        let replaced = job.replaced.as_ref().unwrap();
        assert_eq!((&*replaced.by, replaced.at), ("web-4", instant(10)));
        assert_eq!(replaced.lock_at_most_for, Some(Duration::from_micros(11)));
        assert_eq!(replaced.schedule.as_deref(), Some("0 5 * * *"));
        assert_eq!(replaced.zone.as_deref(), Some("Asia/Seoul"));
        assert_eq!((job.last_succeeded, job.last_failed), (at(3), at(4)));
        assert_eq!(job.last_duration, Some(Duration::from_micros(5)));
        assert_eq!(job.next_slot, Slot::from_micros(6).ok());
        assert_eq!(job.deadline, at(7));
        assert_eq!(job.schedule.as_deref(), Some("0 4 * * *"));
        assert_eq!(job.zone.as_deref(), Some("UTC"));
        assert_eq!(job.last_error.as_deref(), Some("no route"));
    }
}

//! What stands in a page for a value that differs from run to run: `{time+10m}`, `{owner:a}`, `{duration=5m}`.
//!
//! Each kind accepts the longest text that has its form, and only if its value is possible. There is none for any text.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::duration;

/// What a stage knows about itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The temporary folder.
    pub folder: String,
    /// The name of the host.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// What else has a name on this stage: `url`, that of the store; `place`, the URL without its options; `store`, the
    /// word for it in messages; `server`, what its server calls itself; `namespace`, its table, bucket or prefix.
    pub names: Vec<(&'static str, String)>,
    /// By how much the times of a page of examples were moved, in microseconds.
    pub moved: i64,
}

impl Facts {
    /// What has this name.
    pub(crate) fn named(&self, name: &str) -> Option<&str> {
        let mut names = self.names.iter();
        let found = names.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The time span that a scene has taken so far.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When the scene began.
    pub began: Timestamp,
    /// The present.
    pub now: Timestamp,
}

impl Moment {
    fn elapsed(self) -> Duration {
        let elapsed = self.now.as_microsecond() - self.began.as_microsecond();
        Duration::from_micros(u64::try_from(elapsed).unwrap_or_default())
    }
}

/// What decides about a value: the stage, the time, and the values seen before.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) moment: Moment,
    pub(crate) captured: &'a mut BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Time,
    Unix,
    Token,
    Year,
    Owner,
    Duration,
    Seconds,
    Id,
    /// That of a journal.
    Identity,
    Pid,
    Port,
    Number,
    Dir,
    Host,
    Version,
    Release,
    /// One of [`Facts::names`].
    Named(&'static str),
    /// A value of a page of examples.
    Example(Example),
}

/// The example's time or token in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Example {
    Time(i64),
    Token(i64),
    Owner,
    Duration,
    Version,
    /// The end of a cell that is too wide for its column: how much of it is shown depends on the others.
    Cut,
}

/// A run that starts so shortly before a slot, in microseconds, takes it. If that is more than a tenth of the time
/// between slots, it is a tenth.
const EARLY: i64 = 5_000_000;

const SECOND: Duration = Duration::from_secs(1);

/// How far apart the times of an example and of its replay may lie, in microseconds.
const EXAMPLE_TOLERANCE: i64 = 600_000_000;

const KINDS: [(&str, Kind); 21] = [
    ("time", Kind::Time),
    ("unix", Kind::Unix),
    ("token", Kind::Token),
    ("year", Kind::Year),
    ("owner", Kind::Owner),
    ("duration", Kind::Duration),
    ("seconds", Kind::Seconds),
    ("id", Kind::Id),
    ("identity", Kind::Identity),
    ("pid", Kind::Pid),
    ("port", Kind::Port),
    ("number", Kind::Number),
    ("dir", Kind::Dir),
    ("host", Kind::Host),
    ("version", Kind::Version),
    ("release", Kind::Release),
    ("url", Kind::Named("url")),
    ("place", Kind::Named("place")),
    ("store", Kind::Named("store")),
    ("server", Kind::Named("server")),
    ("namespace", Kind::Named("namespace")),
];

/// One placeholder of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    pub(crate) kind: Kind,
    /// `@1h`: a time is a multiple of it.
    align: Option<Duration>,
    /// `+10m` or `-10m`: how far a time is from the scene, in microseconds, or a year in years.
    offset: i64,
    /// `=5m`: a duration is this long, less what has passed since.
    base: Option<Duration>,
    /// `~2s`: a duration differs by no more.
    tolerance: Option<Duration>,
    /// `:a`: the value is the same wherever this label is.
    pub(crate) label: Option<String>,
}

impl Placeholder {
    pub(crate) fn example(kind: Example, shown: &str) -> Self {
        let label = matches!(kind, Example::Owner).then(|| shown.to_owned());
        Self {
            label,
            ..Self::of(Kind::Example(kind))
        }
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            align: None,
            offset: 0,
            base: None,
            tolerance: None,
            label: None,
        }
    }

    /// The placeholder at the start of this text, and its length.
    pub(crate) fn leading(text: &str) -> Option<(usize, Self)> {
        let inner = text.strip_prefix('{')?;
        let end = inner.find('}')?;
        let word = inner[..end].find(|char: char| !char.is_ascii_lowercase());
        let (word, mut rest) = inner[..end].split_at(word.unwrap_or(end));
        let (_, kind) = KINDS.into_iter().find(|(name, _)| *name == word)?;
        let mut read = Self::of(kind);
        while let Some(sign) = rest.chars().next() {
            let value = &rest[1..];
            let end = value.find([':', '@', '+', '-', '=', '~']);
            let (value, after) = value.split_at(end.unwrap_or(value.len()));
            read.modify(sign, value)?;
            rest = after;
        }
        Some((end + 2, read))
    }

    fn modify(&mut self, sign: char, value: &str) -> Option<()> {
        if sign == ':' {
            let is_label = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric());
            self.label = is_label.then(|| value.to_owned());
            return self.label.as_ref().map(|_| ());
        }
        if self.kind == Kind::Year {
            let years: i64 = value.parse().ok()?;
            self.offset = if sign == '-' { -years } else { years };
            return "+-".contains(sign).then_some(());
        }
        let value = duration::parsed(value)?;
        let micros = i64::try_from(value.as_micros()).ok()?;
        let is_time = matches!(self.kind, Kind::Time | Kind::Unix | Kind::Token);
        match (sign, self.kind) {
            ('@', _) if is_time => self.align = Some(value),
            ('+', _) if is_time => self.offset += micros,
            ('-', _) if is_time => self.offset -= micros,
            ('=', Kind::Duration) => self.base = Some(value),
            ('~', Kind::Duration) => self.tolerance = Some(value),
            _ => return None,
        }
        Some(())
    }

    /// How much of this text is the value. `is_cut`: an ellipsis follows the placeholder.
    pub(crate) fn accept(
        &self,
        text: &str,
        is_cut: bool,
        in_: &mut Context<'_>,
    ) -> Result<usize, String> {
        let length = self.length(text, is_cut, in_.facts)?;
        let value = &text[..length];
        self.check(value, in_)?;
        self.capture(value, is_cut, in_.captured)?;
        Ok(length)
    }

    fn length(&self, text: &str, is_cut: bool, facts: &Facts) -> Result<usize, String> {
        let known =
            |known: &str| (!known.is_empty() && text.starts_with(known)).then_some(known.len());
        let length = match self.kind {
            Kind::Time | Kind::Example(Example::Time(_)) => time(text),
            Kind::Unix | Kind::Seconds => decimal(text),
            Kind::Id => id(text),
            Kind::Identity => identity(text),
            Kind::Owner | Kind::Example(Example::Owner) if is_cut => cut_owner(text),
            Kind::Owner | Kind::Example(Example::Owner) => owner(text),
            Kind::Duration | Kind::Example(Example::Duration) => {
                duration::leading(text).map(|(length, _)| length)
            }
            Kind::Token | Kind::Example(Example::Token(_)) => {
                digits(text).filter(|length| *length == 16)
            }
            Kind::Year => digits(text).filter(|length| *length == 4),
            Kind::Pid | Kind::Port | Kind::Number => digits(text),
            Kind::Dir => known(&facts.folder),
            Kind::Host => known(&facts.host),
            Kind::Version => known(&facts.version),
            Kind::Release => release(text),
            Kind::Named(name) => facts.named(name).and_then(known),
            Kind::Example(Example::Version) => version(text),
            Kind::Example(Example::Cut) => cut(text),
        };
        length.ok_or_else(|| format!("no {} is here: {text:?}", self.name()))
    }

    fn name(&self) -> String {
        let name = KINDS.into_iter().find(|(_, kind)| *kind == self.kind);
        name.map_or_else(|| format!("{:?}", self.kind), |(name, _)| name.to_owned())
    }

    fn check(&self, value: &str, in_: &Context<'_>) -> Result<(), String> {
        let number = || value.parse::<i64>().unwrap_or(i64::MAX);
        let is_possible = match self.kind {
            Kind::Time => is_within(self, instant(value), in_.moment),
            Kind::Unix => is_within(self, unix(value), in_.moment),
            // The clocks of some stores have milliseconds.
            Kind::Token => is_within(self, Some((number(), 1_000)), in_.moment),
            Kind::Year => [in_.moment.began, in_.moment.now]
                .iter()
                .any(|time| year(*time) + self.offset == number()),
            Kind::Seconds => {
                let seconds = value.parse().unwrap_or(f64::MAX);
                seconds <= (in_.moment.elapsed() + SECOND).as_secs_f64()
            }
            Kind::Duration => self.is_duration(value, in_.moment.elapsed()),
            Kind::Pid => (1..1 << 22).contains(&number()),
            Kind::Port => (1..1 << 16).contains(&number()),
            Kind::Example(Example::Time(shown)) => {
                let time = instant(value).map_or(i64::MAX, |(time, _)| time);
                is_near(time, shown, in_.facts.moved)
            }
            Kind::Example(Example::Token(shown)) => is_near(number(), shown, in_.facts.moved),
            _ => true,
        };
        match is_possible {
            true => Ok(()),
            false => Err(format!(
                "{value} is no possible {} in a scene from {} to {}",
                self.name(),
                in_.moment.began,
                in_.moment.now
            )),
        }
    }

    fn is_duration(&self, value: &str, elapsed: Duration) -> bool {
        let Some((_, printed)) = duration::leading(value) else {
            return false;
        };
        let (value, rounded) = (printed.value, printed.precision);
        let tolerance = self.tolerance.unwrap_or(elapsed) + rounded;
        match (self.base, self.tolerance) {
            (None, _) => value <= self.tolerance.unwrap_or(elapsed) + rounded.min(SECOND),
            (Some(base), None) => value + tolerance >= base && value <= base,
            (Some(base), Some(_)) => value.abs_diff(base) <= tolerance,
        }
    }

    /// The same label is the same value, and different labels of owners are different ones.
    fn capture(
        &self,
        value: &str,
        is_cut: bool,
        captured: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let Some(label) = &self.label else {
            return Ok(());
        };
        let known = format!("{}:{label}", self.name());
        let is_same = |other: &str| match is_cut {
            true => other.starts_with(value),
            false => other == value,
        };
        match captured.get(&known) {
            Some(other) if is_same(other) => return Ok(()),
            Some(other) => return Err(format!("{value} is not {{{known}}}, which is {other}")),
            None => {}
        }
        if is_cut {
            // An example may show only the start of an owner.
            return match self.kind {
                Kind::Example(_) => Ok(()),
                _ => Err(format!("{{{known}}} is not known where it is cut")),
            };
        }
        let of_kind = |(other, same): (&String, &String)| {
            (same == value && other.starts_with("owner:")).then(|| other.clone())
        };
        if let Some(other) = captured
            .iter()
            .find_map(of_kind)
            .filter(|_| self.kind == Kind::Owner)
        {
            return Err(format!("{value} is {{{other}}}, not {{{known}}}"));
        }
        captured.insert(known, value.to_owned());
        Ok(())
    }
}

/// Whether this time, rounded to so many microseconds, lies within the scene.
fn is_within(placeholder: &Placeholder, time: Option<(i64, i64)>, moment: Moment) -> bool {
    let Some((time, precision)) = time else {
        return false;
    };
    let (began, now) = (moment.began.as_microsecond(), moment.now.as_microsecond());
    let time = time - placeholder.offset;
    match placeholder.align {
        Some(align) => {
            let align = i64::try_from(align.as_micros()).unwrap_or(i64::MAX).max(1);
            let first = began.div_euclid(align) * align;
            (first..=now + EARLY.min(align / 10)).contains(&time) && time.rem_euclid(align) == 0
        }
        None => (began - precision..=now + precision).contains(&time),
    }
}

fn is_near(time: i64, shown: i64, moved: i64) -> bool {
    time.saturating_add(moved).saturating_sub(shown).abs() <= EXAMPLE_TOLERANCE
}

fn year(time: Timestamp) -> i64 {
    time.strftime("%Y").to_string().parse().unwrap_or_default()
}

/// An instant, and what its last digit is worth, both in microseconds.
pub(crate) fn instant(text: &str) -> Option<(i64, i64)> {
    let time: Timestamp = text.parse().ok()?;
    let fraction = text.split_once('.').map_or(0, |(_, rest)| rest.len() - 1);
    let precision = 10_i64.pow(6_u32.saturating_sub(u32::try_from(fraction).ok()?));
    Some((time.as_microsecond(), precision))
}

/// The same of seconds since 1970.
fn unix(text: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = u32::try_from(fraction.len())
        .ok()
        .filter(|digits| *digits <= 6)?;
    let precision = 10_i64.pow(6 - digits);
    let decimals = if digits == 0 {
        0
    } else {
        fraction.parse::<i64>().ok()?
    };
    let whole = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?;
    Some((whole + decimals * precision, precision))
}

fn length_of(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|char| !is_part(char)).unwrap_or(text.len())
}

fn digits(text: &str) -> Option<usize> {
    let length = length_of(text, |char| char.is_ascii_digit());
    (length > 0).then_some(length)
}

fn decimal(text: &str) -> Option<usize> {
    let whole = digits(text)?;
    let fraction = text[whole..].strip_prefix('.').and_then(digits);
    Some(whole + fraction.map_or(0, |length| length + 1))
}

/// `2026-11-24T03:12:00Z`, with a fraction of a second or without.
pub(crate) fn time(text: &str) -> Option<usize> {
    let length = length_of(text, |char| char.is_ascii_digit() || "-T:.".contains(char));
    let length = text[length..].starts_with('Z').then_some(length + 1)?;
    instant(&text[..length]).map(|_| length)
}

pub(crate) fn token(text: &str) -> Option<usize> {
    let length = digits(text).filter(|length| *length == 16)?;
    let ends = !text[length..].starts_with(|char: char| char.is_ascii_alphanumeric());
    ends.then_some(length)
}

/// The id of an entry of the journal: its time and a random number.
pub(crate) fn id(text: &str) -> Option<usize> {
    const TIME: usize = 14;
    const HASH: usize = 32;
    let hex = |text: &str| length_of(text, |char| char.is_ascii_hexdigit());
    let hash = text.get(TIME..)?.strip_prefix('-')?;
    (hex(text) == TIME && hex(hash) == HASH).then_some(TIME + 1 + HASH)
}

/// 32 hexadecimal digits, 40 where the store makes it from its clock, or 24 where it has identities of its own.
pub(crate) fn identity(text: &str) -> Option<usize> {
    let digits = length_of(text, |char| char.is_ascii_hexdigit());
    [24, 32, 40].contains(&digits).then_some(digits)
}

const RANDOM: usize = 16;

/// `host/process/random`, as the command makes owners.
pub(crate) fn owner(text: &str) -> Option<usize> {
    let host = length_of(text, |char| {
        char.is_ascii_alphanumeric() || "-._".contains(char)
    });
    let process = host + 1 + digits(text[host..].strip_prefix('/')?)?;
    let rest = text[process..].strip_prefix('/')?;
    let is_random = length_of(rest, |char| char.is_ascii_hexdigit()) == RANDOM;
    (host > 0 && is_random).then_some(process + 1 + RANDOM)
}

/// The start of an owner whose end is cut.
pub(crate) fn cut_owner(text: &str) -> Option<usize> {
    let length = length_of(text, |char| {
        char.is_ascii_alphanumeric() || "-._/".contains(char)
    });
    (length > 0 && text[length..].starts_with('…')).then_some(length)
}

/// A word that is cut.
pub(crate) fn cut(text: &str) -> Option<usize> {
    let word = text.split(' ').next().unwrap_or_default();
    (word.chars().count() > 1 && word.ends_with('…')).then_some(word.len())
}

/// What a server calls its version: it begins with a number, and has no blanks outside of parentheses.
fn release(text: &str) -> Option<usize> {
    digits(text)?;
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-+.~:".contains(char);
    let length = length_of(text, is_part);
    let more = text[length..]
        .strip_prefix(" (")
        .and_then(|rest| rest.find(')'));
    Some(length + more.map_or(0, |end| end + " ()".len()))
}

/// Three numbers.
pub(crate) fn version(text: &str) -> Option<usize> {
    let length = length_of(text, |char| char.is_ascii_digit() || char == '.');
    let is_version = text[..length]
        .split('.')
        .filter(|part| !part.is_empty())
        .count()
        == 3;
    is_version.then_some(length)
}

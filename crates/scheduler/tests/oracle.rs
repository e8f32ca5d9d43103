//! The parser croner is the oracle for cron expressions: each schedule is compared with croner's own search, in zones whose
//! clocks change. All differences are those of [`Difference`], and each says what Vixie cron does.
//!
//! `SHEDLOCK_ORACLE_EXPRESSIONS` is the number of expressions, `SHEDLOCK_ORACLE_SEED` where they begin.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use croner::Cron;
use croner::parser::{CronParser, Year};
use fastrand::Rng;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use shedlock_grammar::civil::Day;
use shedlock_grammar::cron::Pattern;
use shedlock_scheduler::Schedule;

/// So many that the test takes less than a minute on a slow core, without optimization. It has passed with 100,000.
const EXPRESSIONS: u64 = 1_000;
const INSTANTS: usize = 200;

const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Seoul",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Pacific/Chatham",
    "Antarctica/Troll",
];

/// How croner and this crate differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// One of two day fields begins with `*`: a day has to match both here, and either for croner. Vixie cron: both.
    StarredDays,
    /// A step of more than its field has, `*/90`: refused here. Vixie cron: the first value alone.
    LongStep,
    /// `*/2`, `SUN/2`, `7-7`, `SUN-SUN` in the day of the week: refused here, because its readers differ. Vixie cron:
    /// counts from Sunday, and takes 7-7 for Sunday.
    AmbiguousWeekday,
    /// `L` alone as the day of the week: refused here, and never for croner. Vixie cron refuses it.
    LastOfNoWeekday,
    /// No date matches: refused here, and an error of the search for croner. Vixie cron accepts it, and never runs it.
    Never,
    /// `/5`: refused here. Vixie cron refuses it.
    NoRange,
    /// What croner lets pass: a name in another field or inside of a word, a field of commas, text after `W` and `L`.
    /// Refused here. Vixie cron refuses it.
    Lax,
    /// `@midnight`: read here and by Vixie cron, and not by croner.
    Midnight,
    /// Near a change of the clock. Here as in Vixie cron: see [`vixie`].
    ChangeOfTheClock,
}

#[derive(Default)]
struct Differences(BTreeMap<Difference, (u64, String)>);

impl Differences {
    fn note(&mut self, difference: Difference, example: impl FnOnce() -> String) {
        let (count, _) = self.0.entry(difference).or_insert_with(|| (0, example()));
        *count += 1;
    }
}

fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// A part of a list in a field with these values.
fn part(random: &mut Rng, first: u8, last: u8, names: &[&str]) -> String {
    let value = |random: &mut Rng| match random.bool() && !names.is_empty() {
        true => pick(random, names).to_owned(),
        false => random.u8(first..=last).to_string(),
    };
    let (a, b) = (random.u8(first..=last), random.u8(first..=last));
    let step = random.u8(1..=last);
    match random.u8(..10) {
        0..=4 => value(random),
        5 => format!("{}-{}", a.min(b), a.max(b)),
        6 => format!("{}-{}/{step}", a.min(b), a.max(b)),
        7 => format!("*/{step}"),
        8 => format!("{}/{step}", value(random)),
        _ => format!("{}-{}", value(random), value(random)),
    }
}

fn field(random: &mut Rng, (first, last): (u8, u8), names: &[&str]) -> String {
    if random.u8(..3) == 0 {
        return "*".to_owned();
    }
    let count = if random.u8(..3) == 0 {
        random.usize(2..4)
    } else {
        1
    };
    let parts = (0..count).map(|_| part(random, first, last, names));
    parts.collect::<Vec<String>>().join(",")
}

fn day(random: &mut Rng) -> String {
    match random.u8(..10) {
        0 => pick(random, &["L", "LW", "?", "L,15", "lw,1W"]).to_owned(),
        1 => format!("{}W", random.u8(1..=31)),
        _ => field(random, (1, 31), &[]),
    }
}

fn weekday(random: &mut Rng) -> String {
    const NAMES: [&str; 8] = ["SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT", "sun"];
    let day = match random.bool() {
        true => pick(random, &NAMES).to_owned(),
        false => random.u8(..=7).to_string(),
    };
    let plus = if random.u8(..10) == 0 { "+" } else { "" };
    match random.u8(..12) {
        0 => format!("{plus}{day}#{}", random.u8(1..=5)),
        1 => format!("{plus}{day}L"),
        2 => pick(
            random,
            &["?", "1-5#2", "MON-FRI", "5#L", "1,3L", "FRI-SUN", "L"],
        )
        .to_owned(),
        3..=6 => "*".to_owned(),
        _ => plus.to_owned() + &field(random, (0, 7), &NAMES),
    }
}

fn expression(random: &mut Rng) -> String {
    const MONTHS: [&str; 4] = ["JAN", "jun", "Dec", "FEB"];
    const NICKNAMES: [&str; 4] = ["@daily", "@HOURLY", "@weekly", "@midnight"];
    if random.u8(..100) == 0 {
        return pick(random, &NICKNAMES).to_owned();
    }
    let mut fields = vec![
        field(random, (0, 59), &[]),
        field(random, (0, 23), &[]),
        day(random),
        match random.u8(..3) {
            0 => field(random, (1, 12), &MONTHS),
            _ => "*".to_owned(),
        },
        weekday(random),
    ];
    if random.u8(..4) == 0 {
        fields.insert(0, field(random, (0, 59), &[]));
    }
    let mut text = fields.join(" ");
    if random.u8(..6) == 0 {
        // One place is made wrong.
        const WRONG: [&str; 14] = [
            "*", "/", "-", ",", "L", "W", "#", "+", "9", "60", "MON", "JAN", "?", " ",
        ];
        let at = random.usize(..=text.len());
        text.insert_str(at, pick(random, &WRONG));
    }
    text
}

fn theirs(expression: &str, both_days: bool) -> Option<Cron> {
    let parser = CronParser::builder()
        .year(Year::Disallowed)
        .dom_and_dow(both_days)
        .sloppy_ranges(true)
        .build();
    parser.parse(expression).ok()
}

/// Why an expression is refused here that croner reads.
fn refused(message: &str) -> Difference {
    for (says, difference) in [
        ("does not fit into", Difference::LongStep),
        ("list the days that you mean", Difference::AmbiguousWeekday),
        ("`L` alone", Difference::LastOfNoWeekday),
        ("has no range", Difference::NoRange),
        ("never fires", Difference::Never),
        (" is not a", Difference::Lax),
        ("must be a whole number", Difference::Lax),
    ] {
        if message.contains(says) {
            return difference;
        }
    }
    panic!("{message}");
}

/// The instants at which the clock of this zone changes, in seconds.
fn changes(zone: &TimeZone) -> Vec<i64> {
    let from: Timestamp = "2000-01-01T00:00:00Z".parse().unwrap();
    let changes = zone.following(from).map(|it| it.timestamp().as_second());
    let changes = changes.take_while(|at| *at < LATEST_SLOT);
    changes
        .filter(|at| offset(zone, *at) != offset(zone, at - 1))
        .collect()
}

/// The instants are in 2000 to 2036. A slot may come decades later.
const EARLIEST: i64 = 946_684_800;
const LATEST: i64 = 2_114_380_800;
const LATEST_SLOT: i64 = 2 * LATEST;

fn offset(zone: &TimeZone, second: i64) -> i64 {
    let at = Timestamp::from_second(second).unwrap();
    i64::from(zone.to_offset(at).seconds())
}

fn matches(pattern: &Pattern, local: i64) -> bool {
    let at = Timestamp::from_second(local)
        .unwrap()
        .to_zoned(TimeZone::UTC);
    let day = Day {
        number: at.day() as u8,
        of: at.days_in_month() as u8,
        weekday: at.weekday().to_sunday_zero_offset() as u8,
    };
    pattern.seconds & (1 << at.second()) != 0
        && pattern.minutes & (1 << at.minute()) != 0
        && pattern.hours & (1 << at.hour()) != 0
        && pattern.has_month(at.month() as u8)
        && pattern.has_day(day)
}

/// When Vixie cron first runs a job after an instant: a transcription of the loop in its `cron.c`, which is that of
/// Debian and cronie. It remembers the local time that it has come to. If the clock is set forward by less than three
/// hours, a job that begins with `*` runs at the new time, and another one at once for each time that was skipped. If it
/// is set back by less, only a job that begins with `*` runs until the clock has come to that time again.
///
/// It has no seconds, so the clock of a pattern with seconds is walked by seconds instead.
fn vixie(pattern: &Pattern, zone: &TimeZone, start: i64, after: i64, until: i64) -> Option<i64> {
    let step = if pattern.seconds == 1 { 60 } else { 1 };
    let start = start.div_euclid(step) * step;
    let mut reached = start + offset(zone, start);
    for now in (start..=until).step_by(step as usize).skip(1) {
        let shown = now + offset(zone, now);
        let mut runs = pattern.runs_through() && matches(pattern, shown);
        while reached < shown {
            reached += step;
            runs |= !pattern.runs_through() && matches(pattern, reached);
        }
        if runs && now > after {
            return Some(now);
        }
    }
    None
}

struct Place {
    zone: TimeZone,
    changes: Vec<i64>,
}

impl Place {
    /// Anywhere, or near a change of the clock.
    fn instant(&self, random: &mut Rng) -> i64 {
        let changes = self.changes.partition_point(|at| *at < LATEST);
        match random.bool() && changes > 0 {
            true => self.changes[random.usize(..changes)] + random.i64(-9_000..9_000),
            false => random.i64(EARLIEST..LATEST),
        }
    }

    /// The changes that explain a difference between two instants, and before.
    fn change_near(&self, from: i64, until: i64) -> Option<i64> {
        let near = from - 3 * 3_600..=until;
        self.changes.iter().copied().find(|at| near.contains(at))
    }
}

fn at(second: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second.unsigned_abs())
}

fn shown(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

fn second(zoned: &Zoned) -> i64 {
    zoned.timestamp().as_second()
}

/// Compares the next slot after instants in all zones.
fn compare(expression: &str, places: &[Place], random: &mut Rng, found: &mut Differences) {
    let either = theirs(expression, false);
    let pattern = match (Pattern::parse(expression), &either) {
        (Ok(pattern), _) => pattern,
        (Err(_), None) => return,
        (Err(message), Some(_)) => {
            return found.note(refused(&message), || expression.to_owned());
        }
    };
    let Some(either) = either else {
        assert_eq!(expression, "@midnight");
        return found.note(Difference::Midnight, || expression.to_owned());
    };
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let is_starred = |field: &&str| field.starts_with(['*', '?']);
    let both_days = match fields.as_slice() {
        [.., day, _, weekday] => is_starred(day) || is_starred(weekday),
        _ => false,
    };
    let theirs = theirs(expression, both_days).unwrap();
    let schedules: Vec<Schedule> = ZONES
        .iter()
        .map(|zone| Schedule::cron_in(expression, zone).unwrap())
        .collect();
    for nth in 0..INSTANTS {
        let (place, schedule) = (&places[nth % ZONES.len()], &schedules[nth % ZONES.len()]);
        let after = place.instant(random);
        let zoned = Timestamp::from_second(after)
            .unwrap()
            .to_zoned(place.zone.clone());
        let ours = schedule.next_after(at(after)).unwrap().as_micros() / 1_000_000;
        let newest = |second| schedule.slot_at(at(second), Duration::ZERO);
        assert_eq!(newest(ours - 1), newest(after), "{expression:?}");
        let next = |cron: &Cron| cron.find_next_occurrence(&zoned, false).ok();
        let expected = second(&next(&theirs).unwrap());
        let context = || {
            let zone = place.zone.iana_name().unwrap();
            format!(
                "{expression:?} in {zone} after {}: {} here, {} for croner",
                shown(after),
                shown(ours),
                shown(expected),
            )
        };
        if both_days && next(&either).map(|it| second(&it)) != Some(expected) {
            found.note(Difference::StarredDays, context);
        }
        if ours != expected {
            let Some(change) = place.change_near(ours.min(expected), ours.max(expected)) else {
                panic!("{}", context());
            };
            let start = change.min(ours).min(expected) - 4 * 3_600;
            let vixie = vixie(&pattern, &place.zone, start, after, ours.max(expected));
            assert_eq!(vixie, Some(ours), "{}", context());
            found.note(Difference::ChangeOfTheClock, context);
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "the differences, and the seed of a failure, are what a reader of the run wants to see"
)]
fn slots_are_those_of_croner_but_for_known_differences() {
    let seed = setting("SHEDLOCK_ORACLE_SEED", 1);
    let count = setting("SHEDLOCK_ORACLE_EXPRESSIONS", EXPRESSIONS);
    let places: Vec<Place> = ZONES
        .iter()
        .map(|name| {
            let zone = TimeZone::get(name).unwrap();
            let changes = changes(&zone);
            Place { zone, changes }
        })
        .collect();
    let mut found = Differences::default();
    for seed in seed..seed + count {
        // A failure is repeated by its seed.
        let random = &mut Rng::with_seed(seed);
        let expression = expression(random);
        let compared = std::panic::AssertUnwindSafe(|| {
            compare(&expression, &places, random, &mut found);
        });
        if let Err(panic) = std::panic::catch_unwind(compared) {
            eprintln!("SHEDLOCK_ORACLE_SEED={seed} {expression:?}");
            std::panic::resume_unwind(panic);
        }
    }
    for (difference, (count, example)) in &found.0 {
        eprintln!("{difference:?}: {count}, such as {example}");
    }
    assert!(found.0.contains_key(&Difference::ChangeOfTheClock));
}

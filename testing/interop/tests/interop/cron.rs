//! Cron expressions, as Spring reads them and as we do. Every difference belongs to a class that the manual lists, in
//! "Coming from Java's ShedLock".

use std::collections::BTreeMap;

use anyhow::ensure;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use shedlock::Slot;
use shedlock::scheduler::Schedule;
use shedlock_interop::Java;
use shedlock_proof::SeededRng;

const CASES: usize = 20_000;
const SLOTS: usize = 3;
const SEED: u64 = 34;
const MICROS: i64 = 1_000_000;

/// An expression, a time zone and an instant in seconds since 1970.
type Case = (String, &'static str, i64);

const ZONES: [&str; 5] = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Seoul",
    "Australia/Lord_Howe",
    "Africa/Cairo",
];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const NICKNAMES: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];
/// The lowest and the highest number of each field, and how many values it has.
const FIELDS: [(u64, u64, u64); 6] = [
    (0, 59, 60),
    (0, 59, 60),
    (0, 23, 24),
    (1, 31, 31),
    (1, 12, 12),
    (0, 7, 7),
];
const DAY: usize = 3;
const WEEKDAY: usize = 5;

/// What the manual says of an expression that the two sides read differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Refused here: a step that does not fit into its field.
    LongStep,
    /// Refused here: a step in the day of the week whose start differs between Spring and crond.
    WeekdayStep,
    /// Refused here: `L-3`.
    BeforeTheLast,
    /// Refused here: a range of weekdays that begins with 7, or from Sunday to Sunday.
    FromSunday7,
    /// Refused here: no date matches.
    NeverFires,
    /// Other slots: two day fields, neither beginning with `*`.
    EitherDay,
    /// Other slots: `31W`, where the day after the 31st is the nearest working day.
    NearNextMonth,
    /// Other slots: a change of the clock.
    ClockChange,
}

impl Class {
    const ALL: [Self; 8] = [
        Self::LongStep,
        Self::WeekdayStep,
        Self::BeforeTheLast,
        Self::FromSunday7,
        Self::NeverFires,
        Self::EitherDay,
        Self::NearNextMonth,
        Self::ClockChange,
    ];

    /// The class of an expression that is refused here, and has these slots in Spring.
    fn of_refusal(expression: &str, theirs: &[i64]) -> Option<Self> {
        let fields: Vec<&str> = expression.split_whitespace().collect();
        let parts = |nth: usize| fields[nth].split(',');
        let is_long = |nth: usize| {
            let steps = parts(nth).filter_map(|part| part.split_once('/'));
            let mut steps = steps.filter_map(|(_, step)| step.parse().ok());
            steps.any(|step: u64| step >= FIELDS[nth].2)
        };
        if fields.len() != FIELDS.len() {
            None
        } else if (0..FIELDS.len()).any(is_long) {
            Some(Self::LongStep)
        } else if parts(WEEKDAY).any(|part| part.starts_with("*/") || part.starts_with("SUN/")) {
            Some(Self::WeekdayStep)
        } else if parts(DAY).any(|part| part.starts_with("L-")) {
            Some(Self::BeforeTheLast)
        } else if parts(WEEKDAY).any(|part| part.starts_with("7-") || part.starts_with("SUN-SUN")) {
            Some(Self::FromSunday7)
        } else {
            theirs.is_empty().then_some(Self::NeverFires)
        }
    }

    /// The class of an expression with other slots here than in Spring.
    fn of_slots((expression, zone, _): &Case, ours: &[i64], theirs: &[i64]) -> Option<Self> {
        let fields: Vec<&str> = expression.split_whitespace().collect();
        // Only what both lists reach can be compared.
        let end = [ours, theirs].map(|slots| match slots {
            [_, _, last] => *last,
            _ => i64::MAX,
        });
        let end = end[0].min(end[1]);
        let missing = |of: &[i64], among: &[i64]| -> Vec<i64> {
            let of = of.iter().copied();
            of.filter(|slot| *slot <= end && !among.contains(slot))
                .collect()
        };
        let (added, left_out) = (missing(ours, theirs), missing(theirs, ours));
        let mut differing = added.iter().chain(&left_out);
        if differing.all(|slot| is_near_change(zone, *slot)) {
            return Some(Self::ClockChange);
        }
        // Here both classes have more slots than Spring.
        let only_added = left_out.iter().all(|slot| is_near_change(zone, *slot));
        let is_restricted = |nth: usize| !fields[nth].starts_with(['*', '?', '+']);
        let is_late_near = |part: &str| {
            let day = part.strip_suffix('W').and_then(|day| day.parse().ok());
            day.is_some_and(|day: u8| day >= 28)
        };
        if is_restricted(DAY) && is_restricted(WEEKDAY) {
            only_added.then_some(Self::EitherDay)
        } else if fields[DAY].split(',').any(is_late_near) {
            only_added.then_some(Self::NearNextMonth)
        } else {
            None
        }
    }
}

/// Returns true if the local clock is changed around this instant.
fn is_near_change(zone: &str, slot: i64) -> bool {
    const AROUND: i64 = 3 * 3_600;
    let zone = TimeZone::get(zone).unwrap();
    let offset = |second| zone.to_offset(Timestamp::from_second(second).unwrap());
    offset(slot - AROUND) != offset(slot + AROUND)
}

pub(crate) async fn differs_as_documented() -> anyhow::Result<()> {
    let mut rng = SeededRng::new(SEED);
    let cases: Vec<Case> = (0..CASES).map(|_| case(&mut rng)).collect();
    let java = Java::start("UTC", &[]).await?;
    let theirs = java.spring_slots(&cases, SLOTS).await?;
    ensure!(theirs.len() == CASES, "Spring did not answer every case");
    let mut seen = BTreeMap::new();
    let mut unexplained = Vec::new();
    for (case, theirs) in cases.iter().zip(&theirs) {
        let ours = slots(case);
        if ours == *theirs {
            continue;
        }
        let class = match (&ours, theirs) {
            (Some(ours), Some(theirs)) => Class::of_slots(case, ours, theirs),
            (None, Some(theirs)) => Class::of_refusal(&case.0, theirs),
            _ => None,
        };
        match class {
            Some(class) => *seen.entry(class).or_insert(0) += 1,
            None => unexplained.push(format!("{case:?}: Spring {theirs:?}, here {ours:?}")),
        }
    }
    ensure!(
        unexplained.is_empty(),
        "{} differences that the manual does not list:\n{}",
        unexplained.len(),
        unexplained[..unexplained.len().min(20)].join("\n")
    );
    // A difference that is gone makes the manual as wrong as a new one.
    ensure!(
        Class::ALL.iter().all(|class| seen.contains_key(class)),
        "the manual lists more differences than there are: {seen:?}"
    );
    Ok(())
}

/// The slots of the scheduler; `None` if it refuses the expression.
fn slots((expression, zone, after): &Case) -> Option<Vec<i64>> {
    let schedule = Schedule::cron_in(expression, zone).ok()?;
    let after = Slot::from_micros(after * MICROS).unwrap();
    let next = |slot: &Slot| schedule.next_after(slot.instant());
    let slots = std::iter::successors(next(&after), next).take(SLOTS);
    Some(slots.map(|slot| slot.as_micros() / MICROS).collect())
}

fn case(rng: &mut SeededRng) -> Case {
    let zone = if rng.flip() { "UTC" } else { rng.pick(&ZONES) };
    // From 2020 to 2040.
    let after = 1_577_836_800 + rng.below(20 * 366 * 86_400);
    (expression(rng), zone, i64::try_from(after).unwrap())
}

fn expression(rng: &mut SeededRng) -> String {
    if rng.one_in(100) {
        return (*rng.pick(&NICKNAMES)).to_owned();
    }
    let fields = [0, 1, 2, DAY, 4, WEEKDAY].map(|nth| field(nth, rng));
    fields.join(" ")
}

fn field(nth: usize, rng: &mut SeededRng) -> String {
    let is_day = nth == DAY || nth == WEEKDAY;
    match rng.below(10) {
        // Most schedules restrict one of the two.
        0..=5 if is_day => rng.pick(&["*", "*", "*", "?"]).to_string(),
        0..=3 => "*".to_owned(),
        4 => [part(nth, rng), part(nth, rng)].join(","),
        _ => part(nth, rng),
    }
}

fn part(nth: usize, rng: &mut SeededRng) -> String {
    let (low, high, size) = FIELDS[nth];
    let number = |rng: &mut SeededRng| low + rng.below(high - low + 1);
    let one = |rng: &mut SeededRng| match nth {
        WEEKDAY if rng.flip() => (*rng.pick(&DAYS)).to_owned(),
        _ => number(rng).to_string(),
    };
    let step = |rng: &mut SeededRng| {
        let most = if rng.one_in(8) { size * 2 } else { size / 2 };
        1 + rng.below(most)
    };
    match rng.below(12) {
        0..=3 => one(rng),
        4 | 5 => {
            let (from, to) = (number(rng), number(rng));
            format!("{}-{}", from.min(to), from.max(to))
        }
        6 => {
            let (from, to) = (number(rng), number(rng));
            format!("{}-{}/{}", from.min(to), from.max(to), step(rng))
        }
        7 => format!("{}/{}", one(rng), step(rng)),
        8 if nth == DAY => rng.pick(&["L", "LW", "L-3"]).to_string(),
        9 if nth == DAY => format!("{}W", number(rng)),
        8 if nth == WEEKDAY => format!("{}L", one(rng)),
        9 if nth == WEEKDAY => format!("{}#{}", one(rng), 1 + rng.below(5)),
        10 if nth == WEEKDAY => format!("{}-{}", one(rng), one(rng)),
        11 if nth == WEEKDAY => format!("+{}", one(rng)),
        _ => format!("*/{}", step(rng)),
    }
}

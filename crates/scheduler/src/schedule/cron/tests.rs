use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::prelude::*;

use super::*;

fn cron(expression: &str, zone: &str) -> Cron {
    let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
    Cron::parse_in(expression, Zone::of(zone)).unwrap()
}

fn micros(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_microsecond()
}

/// The slots between two instants, computed forwards and checked backwards.
fn slots(cron: &Cron, from: i64, until: i64) -> Vec<i64> {
    let mut slots = Vec::new();
    let mut newest = cron.newest_at(from - 1);
    let mut at = from - 1;
    while let Some(slot) = cron.first_after(at).filter(|slot| *slot < until) {
        assert!(slot > at, "{cron}: not ahead");
        assert_eq!(cron.newest_at(slot - 1), newest, "{cron}: from behind");
        newest = Some(slot);
        slots.push(slot);
        at = slot;
    }
    assert_eq!(cron.newest_at(until - 1), newest, "{cron}: from behind");
    slots
}

#[track_caller]
fn assert_slots(expression: &str, zone: &str, from: &str, until: &str, expected: &[&str]) {
    let cron = cron(expression, zone);
    let slots: Vec<String> = slots(&cron, micros(from), micros(until))
        .into_iter()
        .map(|slot| Timestamp::from_microsecond(slot).unwrap().to_string())
        .collect();
    assert_eq!(slots, expected, "{cron}");
}

#[test]
fn a_daily_job_in_the_hour_left_out_runs_at_its_end() {
    // Berlin, 28 March 2027: 02:00 +01:00 becomes 03:00 +02:00 at 01:00 UTC.
    let (from, until) = ("2027-03-27T12:00:00Z", "2027-03-29T12:00:00Z");
    assert_slots(
        "30 2 * * *",
        "Europe/Berlin",
        from,
        until,
        &["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
    );
    // Times of day that map to one instant are one slot.
    assert_slots(
        "0,30 2,3 * * *",
        "Europe/Berlin",
        from,
        "2027-03-28T12:00:00Z",
        &["2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"],
    );
}

#[test]
fn a_daily_job_in_the_hour_that_comes_twice_runs_the_first_time() {
    // Berlin, 31 October 2027: 03:00 +02:00 becomes 02:00 +01:00 at 01:00 UTC.
    let (from, until) = ("2027-10-30T12:00:00Z", "2027-11-01T12:00:00Z");
    assert_slots(
        "30 2 * * *",
        "Europe/Berlin",
        from,
        until,
        &["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"],
    );
    assert_slots(
        "0 3 * * *",
        "Europe/Berlin",
        from,
        until,
        &["2027-10-31T02:00:00Z", "2027-11-01T02:00:00Z"],
    );
}

#[test]
fn what_runs_through_follows_the_clock() {
    assert_slots(
        "*/20 * * * *",
        "Europe/Berlin",
        "2027-03-28T00:40:00Z",
        "2027-03-28T01:30:00Z",
        &[
            "2027-03-28T00:40:00Z",
            "2027-03-28T01:00:00Z",
            "2027-03-28T01:20:00Z",
        ],
    );
    assert_slots(
        "0 30 * * * *",
        "Europe/Berlin",
        "2027-10-30T23:00:00Z",
        "2027-10-31T03:00:00Z",
        &[
            "2027-10-30T23:30:00Z",
            "2027-10-31T00:30:00Z",
            "2027-10-31T01:30:00Z",
            "2027-10-31T02:30:00Z",
        ],
    );
}

#[test]
fn half_hours_midnights_and_whole_days_that_are_left_out() {
    // Lord Howe shifts by half an hour at 02:00.
    assert_slots(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        "2026-10-04T00:00:00Z",
        &["2026-10-03T15:30:00Z"],
    );
    // Cairo has no midnight on 30 April 2027.
    assert_slots(
        "0 0 * * *",
        "Africa/Cairo",
        "2027-04-29T12:00:00Z",
        "2027-04-30T12:00:00Z",
        &["2027-04-29T22:00:00Z"],
    );
    // Samoa had no 30 December 2011: its run is not lost, and has the same instant as the next one.
    assert_slots(
        "0 0 * * *",
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        "2012-01-01T00:00:00Z",
        &[
            "2011-12-29T10:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-31T10:00:00Z",
        ],
    );
}

/// The local minutes that an expression matches, computed without the code under test.
type Fits = fn(DateTime) -> bool;

const EXPRESSIONS: [(&str, bool, Fits); 9] = [
    ("30 2 * * *", false, |t| t.hour() == 2 && t.minute() == 30),
    ("0 0 * * *", false, |t| t.hour() == 0 && t.minute() == 0),
    ("15 1,2,3 * * *", false, |t| {
        (1..=3).contains(&t.hour()) && t.minute() == 15
    }),
    ("0,59 23 * * 0", false, |t| {
        t.hour() == 23 && t.minute() % 59 == 0 && t.weekday() == jiff::civil::Weekday::Sunday
    }),
    ("5 0 1 * *", false, |t| {
        t.day() == 1 && t.hour() == 0 && t.minute() == 5
    }),
    ("*/20 * * * *", true, |t| t.minute() % 20 == 0),
    ("0 * * * *", true, |t| t.minute() == 0),
    ("45 */2 * * *", true, |t| {
        t.hour() % 2 == 0 && t.minute() == 45
    }),
    ("*/30 2 * * *", true, |t| {
        t.hour() == 2 && t.minute() % 30 == 0
    }),
];

/// Steps minute by minute, using only the time that the local clock shows.
fn by_hand(shown: &[(i64, DateTime)], runs_through: bool, fits: Fits) -> Vec<i64> {
    let mut slots = Vec::new();
    let mut reached = shown[0].1;
    for (instant, local) in shown.iter().skip(1) {
        let fires = if runs_through {
            fits(*local)
        } else {
            let mut fires = false;
            while reached < *local {
                reached = reached.checked_add(jiff::Span::new().minutes(1)).unwrap();
                fires |= fits(reached);
            }
            fires
        };
        if fires {
            slots.push(*instant);
        }
    }
    slots
}

#[test]
fn all_changes_of_ten_years_in_all_zones_are_as_computed_by_hand() {
    const MINUTE: i64 = 60;
    const AROUND: i64 = 27 * 3_600;
    let from: Timestamp = "2018-01-01T00:00:00Z".parse().unwrap();
    let until: Timestamp = "2028-01-01T00:00:00Z".parse().unwrap();
    let database = TimeZoneDatabase::bundled();
    let mut seen = BTreeSet::new();
    let (mut zones, mut changes) = (0, 0);
    for name in database.available() {
        let zone = database.get(name.as_str()).unwrap();
        zones += 1;
        for change in zone
            .following(from)
            .take_while(|change| change.timestamp() < until)
        {
            let at = change.timestamp().as_second();
            let offset = |second| offset_of(&zone, second);
            // Many names share their rules. Each change is checked once.
            let key = (
                at,
                offset(at - AROUND),
                offset(at - 1),
                offset(at),
                offset(at + AROUND),
            );
            if offset(at - 1) == offset(at) || !seen.insert(key) {
                continue;
            }
            changes += 1;
            let shown: Vec<(i64, DateTime)> = (at - AROUND..at + AROUND)
                .step_by(60)
                .map(|second| {
                    let timestamp = Timestamp::from_second(second).unwrap();
                    (second * MICROS, zone.to_datetime(timestamp))
                })
                .collect();
            for (expression, runs_through, fits) in EXPRESSIONS {
                let cron = Cron::parse_in(expression, Zone::of(zone.clone())).unwrap();
                let expected = by_hand(&shown, runs_through, fits);
                let (from, until) = ((at - AROUND + MINUTE) * MICROS, (at + AROUND) * MICROS);
                assert_eq!(slots(&cron, from, until), expected, "{cron} around {at}");
            }
        }
    }
    assert!(zones > 400, "only {zones} zones");
    assert!(changes > 500, "only {changes} changes");
}

fn offset_of(zone: &TimeZone, second: i64) -> i32 {
    zone.to_offset(Timestamp::from_second(second).unwrap())
        .seconds()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn slots_grow_and_meet_from_both_sides(
        expression in prop::sample::select(EXPRESSIONS.map(|(expression, ..)| expression).to_vec()),
        zone in prop::sample::select(vec![
            "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Seoul",
            "Africa/Casablanca", "Pacific/Apia", "America/Sao_Paulo", "Antarctica/Troll",
        ]),
        now in 0_i64..4_000_000_000_000_000,
        // A replica that checks a little later, but still before the next slot.
        later in 0.0_f64..1.0,
    ) {
        let cron = cron(expression, zone);
        let next = cron.first_after(now).unwrap();
        prop_assert!(next > now);
        prop_assert_eq!(cron.newest_at(next), Some(next));
        let newest = cron.newest_at(now).unwrap();
        prop_assert!(newest <= now);
        prop_assert_eq!(cron.first_after(newest), Some(next));
        let share = ((next - now - 1) as f64 * later) as i64;
        prop_assert_eq!(cron.first_after(now + share), Some(next));
        prop_assert_eq!(cron.newest_at(now + share), Some(newest));
    }
}

/// 2027 begins on a Friday.
#[test]
fn a_day_matches_both_day_fields_where_one_begins_with_a_star() {
    let days = |expression: &str| {
        let cron = cron(expression, "UTC");
        let all = slots(
            &cron,
            micros("2027-01-01T00:00:00Z"),
            micros("2027-02-01T00:00:00Z"),
        );
        let day = |slot| {
            Timestamp::from_microsecond(slot)
                .unwrap()
                .strftime("%-d")
                .to_string()
        };
        all.into_iter()
            .map(|slot| day(slot).parse().unwrap())
            .collect::<Vec<u8>>()
    };
    // Every other day that is a Monday, and so on.
    assert_eq!(days("0 0 */2 * 1"), [11, 25]);
    assert_eq!(days("0 0 0 */2 * MON"), [11, 25]);
    assert_eq!(days("0 0 ?/2 * 1"), [11, 25]);
    // Neither begins with a star: a match of either field is enough.
    assert_eq!(days("0 0 1,2 * 1"), [1, 2, 4, 11, 18, 25]);
    assert_eq!(days("0 0 1-31/2 * +1"), [11, 25]);
    assert_eq!(days("0 0 * * 1"), [4, 11, 18, 25]);
    assert_eq!(days("0 0 5 * *"), [5]);
}

#[test]
fn an_unknown_zone_is_refused() {
    let refused = Cron::parse("x", "UTC").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(
        refused
            .to_string()
            .starts_with("cannot read \"x\" as a cron")
    );
    let zone = Cron::parse("* * * * *", "Mars/Olympus").unwrap_err();
    assert_eq!(zone.kind(), ErrorKind::InvalidInput);
    assert!(
        zone.to_string()
            .contains("unknown time zone \"Mars/Olympus\"")
    );
}

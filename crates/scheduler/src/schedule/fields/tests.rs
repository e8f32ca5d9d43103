use std::str::FromStr;

use jiff::civil;
use proptest::prelude::*;

use super::*;

fn fields(expression: &str) -> Fields {
    Fields::of(&Parsed::from_str(expression).unwrap())
}

fn local(text: &str) -> i64 {
    let time: DateTime = text.parse().unwrap();
    Offset::UTC.to_timestamp(time).unwrap().as_second()
}

fn shown(local: i64) -> DateTime {
    Offset::UTC.to_datetime(jiff::Timestamp::from_second(local).unwrap())
}

#[track_caller]
fn assert_next(expression: &str, from: &str, expected: &[&str]) {
    let fields = fields(expression);
    let mut from = local(from);
    for expected in expected {
        let next = fields.first_from(from).unwrap();
        assert_eq!(shown(next), expected.parse().unwrap(), "{expression}");
        assert_eq!(fields.last_until(next), Some(next), "{expression}");
        from = next + 1;
    }
}

#[test]
fn every_kind_of_field_is_understood() {
    let start = "2027-01-01T00:00:00";
    assert_next(
        "*/20 * * * *",
        start,
        &["2027-01-01T00:00", "2027-01-01T00:20"],
    );
    assert_next(
        "15,45 30 9 * * *",
        start,
        &["2027-01-01T09:30:15", "2027-01-01T09:30:45"],
    );
    assert_next(
        "0 0 L * *",
        start,
        &["2027-01-31T00:00", "2027-02-28T00:00"],
    );
    // 15 May 2027 is a Saturday, 15 August a Sunday.
    assert_next(
        "0 0 15W 5,8 *",
        start,
        &["2027-05-14T00:00", "2027-08-16T00:00"],
    );
    // 31 January 2027 is a Sunday.
    assert_next("0 0 LW 1 *", start, &["2027-01-29T00:00"]);
    assert_next(
        "0 0 * jan MON#2",
        start,
        &["2027-01-11T00:00", "2028-01-10T00:00"],
    );
    assert_next(
        "0 0 * * 5L",
        start,
        &["2027-01-29T00:00", "2027-02-26T00:00"],
    );
    assert_next(
        "0 0 * * MON-WED",
        start,
        &["2027-01-04T00:00", "2027-01-05T00:00"],
    );
    assert_next("@monthly", "2027-01-01T00:00:01", &["2027-02-01T00:00"]);
    // A match of either day field, and a match of both.
    assert_next(
        "0 0 13 * FRI",
        "2027-08-07T00:00:00",
        &["2027-08-13T00:00", "2027-08-20T00:00"],
    );
    assert_next("0 0 13 * +FRI", start, &["2027-08-13T00:00"]);
    assert_next(
        "0 0 29 2 *",
        start,
        &["2028-02-29T00:00", "2032-02-29T00:00"],
    );
}

#[test]
fn dates_that_never_come_are_detected() {
    assert!(!fields("0 0 30 2 *").ever_fit());
    assert!(!fields("0 0 31 4,6,9,11 *").ever_fit());
    assert!(fields("0 0 29 2 +MON").ever_fit());
}

fn number(low: u8, high: u8) -> impl Strategy<Value = String> {
    let one = low..=high;
    let range = (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let step = (2..=high).prop_map(|step| format!("*/{step}"));
    prop_oneof![
        3 => Just("*".to_owned()),
        3 => one.clone().prop_map(|one| one.to_string()),
        1 => (one.clone(), one).prop_map(|(a, b)| format!("{a},{b}")),
        1 => range,
        1 => step,
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let day = prop_oneof![
        4 => number(1, 28),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (1..=31_u8).prop_map(|day| format!("{day}W")),
    ];
    let weekday = prop_oneof![
        4 => number(0, 6),
        1 => (0..=7_u8, 1..=4_u8).prop_map(|(day, nth)| format!("{day}#{nth}")),
        1 => (0..=6_u8).prop_map(|day| format!("{day}L")),
        1 => Just("+MON".to_owned()),
    ];
    (
        number(0, 59),
        number(0, 59),
        number(0, 23),
        day,
        number(1, 12),
        weekday,
    )
        .prop_map(|(second, minute, hour, day, month, weekday)| {
            format!("{second} {minute} {hour} {day} {month} {weekday}")
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The oracle is the parser's own search, over local times without a zone.
    #[test]
    fn ours_agrees_with_the_parsers_own_search(
        expression in expression(),
        from in 1_700_000_000_i64..2_200_000_000,
    ) {
        let parsed = Parsed::from_str(&expression).unwrap();
        let fields = Fields::of(&parsed);
        prop_assume!(fields.ever_fit());
        let at: civil::DateTime = shown(from);
        let next = parsed.find_next_occurrence(&at, true).unwrap();
        prop_assert_eq!(fields.first_from(from).map(shown), Some(next), "{}", &expression);
        let last = parsed.find_previous_occurrence(&at, true).unwrap();
        prop_assert_eq!(fields.last_until(from).map(shown), Some(last), "{}", &expression);
    }
}

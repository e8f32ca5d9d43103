use super::*;

fn times(expression: &str) -> LocalTimes {
    LocalTimes(Pattern::parse(expression).unwrap())
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
    let times = times(expression);
    let mut from = local(from);
    for expected in expected {
        let next = times.first_from(from).unwrap();
        assert_eq!(shown(next), expected.parse().unwrap(), "{expression}");
        assert_eq!(times.last_until(next), Some(next), "{expression}");
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

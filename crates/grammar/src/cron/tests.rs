use super::*;

#[track_caller]
fn pattern(expression: &str) -> Pattern {
    Pattern::parse(expression).unwrap()
}

#[test]
fn what_cannot_be_read_is_refused() {
    let message = |expression| Pattern::parse(expression).unwrap_err().to_string();
    for expression in [
        "",
        "* * * *",
        "60 * * * *",
        "* * * * * * 2030",
        "@reboot",
        "a b c d e",
    ] {
        assert!(message(expression).contains("cannot read"), "{expression}");
    }
    assert!(message("0 0 30 2 *").contains("never fires"));
    for (expression, says) in [
        ("", "it is empty; write five fields"),
        ("bad", "it has 1 field; write five fields"),
        ("* * * *", "it has 4 fields; write five fields"),
        ("* * * * * * 2030", "it has 7 fields; write five fields"),
        ("@reboot", "use @yearly"),
        ("-", ": `-` disables a task in Spring"),
        ("61 * * * *", ": minute 61 is not in 0-59"),
        ("0 61 * * * *", ": minute 61 is not in 0-59"),
        ("0 0,24 * * *", ": hour 24 is not in 0-23"),
        (
            "30-10 * * * *",
            ": the minute range 30-10 ends before it starts",
        ),
        (
            "0 0 * * FRI-MON",
            ": the day of week range FRI-MON ends before it starts",
        ),
        (
            "*/0 * * * *",
            ": the step in the minute \"*/0\" must be a whole number of 1 or more",
        ),
        (
            "*/10* * * * *",
            ": the step in the minute \"*/10*\" must be a whole number of 1 or more",
        ),
        (
            "0 0 L-3 * *",
            ": \"L-3\" is not a day of month; use 1-31, L, LW, or W after a day, like 15W",
        ),
        (
            "0 0 L-40 * *",
            ": \"L-40\" is not a day of month; use 1-31, L, LW, or W after a day, like 15W",
        ),
        ("0 0 1-40 * *", ": day of month 40 is not in 1-31"),
        ("/10 * * * *", "write */10"),
        ("0 70/10 * * * *", ": minute 70 is not in 0-59"),
        (
            "0 0 * FOO *",
            ": \"FOO\" is not a month; use 1-12 or JAN-DEC",
        ),
        ("0 x * * *", ": \"x\" is not an hour; use 0-23"),
        ("0 0 * * MON#x", ": \"MON#x\" is not a day of week; use 0-7"),
        ("0 0 * * 8#2", ": \"8#2\" is not a day of week; use 0-7"),
        ("0 0 5#6 * *", ": \"5#6\" is not a day of month; use 1-31"),
        (
            "0 0 * * MON#6",
            ": in \"MON#6\", the number after # must be 1-5, like MON#2",
        ),
        (
            "0 0 * * 5#0",
            ": in \"5#0\", the number after # must be 1-5, like 5#2",
        ),
    ] {
        let message = message(expression);
        assert!(message.contains(says), "{expression:?}: {message}");
    }
}

#[test]
fn a_last_day_without_a_weekday_is_refused_in_plain_words() {
    for expression in ["0 0 * * L", "0 0 0 * * l", "0 0 * * 1,L"] {
        let error = Pattern::parse(expression).unwrap_err();
        assert!(error.to_string().contains("`5L`"), "{error}");
    }
    assert!(Pattern::parse("0 0 L * *").is_ok());
}

#[test]
fn a_step_that_does_not_fit_into_its_field_is_refused() {
    for (expression, says) in [
        (
            "*/90 * * * *",
            "a step of 90 minutes does not fit into an hour; use `every` with 90m instead of cron",
        ),
        ("0 */100 * * * *", "into an hour; use `every` with 100m"),
        (
            "*/60 * * * *",
            "into an hour; write one minute to fire once an hour",
        ),
        ("*/060 * * * *", "a step of 60 minutes does not fit"),
        ("5,*/60 * * * *", "a step of 60 minutes does not fit"),
        ("5/60 * * * *", "a step of 60 minutes does not fit"),
        ("0-59/61 * * * *", "into an hour; use `every` with 61m"),
        ("*/99999 * * * *", "into an hour; use `every` with 99999m"),
        (
            "*/61 * * * * *",
            "a step of 61 seconds does not fit into a minute; use `every` with 61s",
        ),
        (
            "0 */48 * * *",
            "a step of 48 hours does not fit into a day; use `every` with 48h",
        ),
        (
            "0 0 */31 * *",
            "a step of 31 days does not fit into a month; write one day of month to fire once a month",
        ),
        (
            "0 0 1 */18 *",
            "a step of 18 months does not fit into a year; list the months, like JAN,JUL",
        ),
        ("0 0 * * 1/8", "into a week; list the days, like MON,THU"),
        (
            "0 0 * * 1/7",
            "a step of 7 days does not fit into a week; write one day of week to fire once a week",
        ),
    ] {
        let error = Pattern::parse(expression).unwrap_err();
        assert!(error.to_string().contains(says), "{expression:?}: {error}");
    }
    for expression in ["*/59 * * * * *", "0 */23 * * *", "0 0 */30 */11 *"] {
        assert!(Pattern::parse(expression).is_ok(), "{expression}");
    }
}

/// Spring counts `*` from Monday, crond from Sunday.
#[test]
fn a_step_in_the_day_of_the_week_is_refused_where_its_readers_differ() {
    for (expression, says) in [
        (
            "0 0 12 * * */2",
            "crond reads the day of week \"*/2\" as SUN,TUE,THU,SAT, and Spring as MON,WED,FRI,SUN; \
             list the days that you mean",
        ),
        ("0 0 * * ?/3", "as SUN,WED,SAT, and Spring as MON,THU,SUN;"),
        ("0 0 * * +*/4", "as SUN,THU, and Spring as MON,FRI;"),
        ("0 0 * * 1,*/6", "as SUN,SAT, and Spring as MON,SUN;"),
        ("0 0 * * 7-7", "\"7-7\" is Sunday for some readers"),
        ("0 0 * * 1,Sun-Sun/3", "\"Sun-Sun/3\" is Sunday for"),
        ("0 0 * * */2#1", "list the days"),
        (
            "0 0 * * sun/2",
            "Kubernetes reads the day of week \"sun/2\" as SUN,TUE,THU,SAT, and Spring as SUN;",
        ),
    ] {
        let error = Pattern::parse(expression).unwrap_err();
        assert!(error.to_string().contains(says), "{expression:?}: {error}");
    }
    for expression in [
        "0 0 * * */1",
        "0 0 * * 0/2",
        "0 0 * * 1-5/2",
        "0 0 * * MON/3",
    ] {
        assert!(Pattern::parse(expression).is_ok(), "{expression}");
    }
}

#[test]
fn a_step_after_one_number_runs_to_the_end_of_the_field() {
    let same = |one: &str, other: &str| {
        assert_eq!(pattern(one), pattern(other), "{one}");
    };
    same("0 0/5 * * * *", "0 0-59/5 * * * *");
    same("5/15 * * * * *", "5-59/15 * * * * *");
    same("10 7/8 * * *", "10 7,15,23 * * *");
    same("0 0 12 1/1 * ?", "0 0 12 1-31 * *");
    same("0 0 1,10/10 3/4 *", "0 0 1,10,20,30 3,7,11 *");
    same("0 0 * * MON/2", "0 0 * * MON,WED,FRI,SUN");
    same("0 0 * * 0/2", "0 0 * * SUN,TUE,THU,SAT");
}

#[test]
fn each_nickname_is_its_expression() {
    for (nickname, expression) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        (" @Midnight ", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ] {
        assert_eq!(pattern(nickname), pattern(expression), "{nickname}");
        assert_eq!(in_words(nickname), in_words(expression), "{nickname}");
    }
}

/// The days of January 2027, which begins on a Friday, or of February 2028, which begins on a Tuesday and is a leap
/// month.
fn days(expression: &str, (year, month): (i64, u8)) -> Vec<u8> {
    let pattern = pattern(expression);
    let days = Day::of_month(year, month).filter(|day| pattern.has_day(*day));
    days.map(|day| day.number).collect()
}

#[test]
fn days_match_by_their_number_their_weekday_or_both() {
    let january = |expression: &str| days(expression, (2027, 1));
    assert_eq!(january("0 0 5 * *"), [5]);
    assert_eq!(january("0 0 ,5,,7, * *"), [5, 7]);
    assert_eq!(january("0 0 L * *"), [31]);
    assert_eq!(january("0 0 LW * *"), [29]);
    // A Saturday and a Sunday, at the ends of the month too.
    assert_eq!(january("0 0 9W,10W * *"), [8, 11]);
    assert_eq!(january("0 0 31W * *"), [29]);
    assert_eq!(days("0 0 1W * *", (2027, 5)), [3]);
    assert_eq!(january("0 0 * * 1"), [4, 11, 18, 25]);
    assert_eq!(
        january("0 0 ? * sat-SUN"),
        [2, 3, 9, 10, 16, 17, 23, 24, 30, 31]
    );
    assert_eq!(january("0 0 * * 7"), january("0 0 * * SUN"));
    assert_eq!(january("0 0 * * MON#2"), [11]);
    assert_eq!(january("0 0 * * FRI#5,0#05"), [29, 31]);
    assert_eq!(january("0 0 * * 5L"), [29]);
    assert_eq!(january("0 0 * * THU-7#L"), [28, 29, 30, 31]);
    assert_eq!(january("0 0 13 * FRI#1"), [1, 13]);
    assert_eq!(january("0 0 1-7 * +MON"), [4]);
    assert_eq!(january("0 0 */2 * MON"), [11, 25]);
    assert_eq!(january("0 0 ?/2 * MON"), [11, 25]);
    assert_eq!(january("0 0 1,2 * MON"), [1, 2, 4, 11, 18, 25]);
    assert_eq!(days("0 0 L * *", (2028, 2)), [29]);
    assert_eq!(days("0 0 * * 2L", (2028, 2)), [29]);
}

#[test]
fn what_other_parsers_let_pass_is_refused() {
    for expression in [
        // A name outside of its field, or in one word with something else.
        "MON * * * *",
        "0 JAN * * *",
        "0 0 JAN * *",
        "0 0 * MON *",
        "0 0 * JANUARY *",
        "0 0 * * 1MON",
        "0 0 * * */TUE",
        "0 0 * * 5#MON",
        // A field without a value.
        ", * * * *",
        "0 0 ,, * MON",
        "0 0 1 * +",
        // What follows a W or an L.
        "0 0 15W5 * *",
        "0 0 15WL * *",
        "0 0 * * 5LL",
        "0 0 * * 5#2L",
        "1,* * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "0 0 * * *#2",
        "0 0 * * 5L/2",
        "0 0 5L * *",
        "0 0 W * *",
    ] {
        assert!(Pattern::parse(expression).is_err(), "{expression}");
    }
}

#[test]
fn what_never_comes_is_refused() {
    for expression in [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 31W 2 *",
        "0 0 30 2 */1",
    ] {
        let refused = Pattern::parse(expression).unwrap_err();
        let says = format!("the cron expression {expression:?} never fires: no date matches");
        assert_eq!(refused, says);
    }
    for expression in ["0 0 29 2 *", "0 0 29 2 +MON", "0 0 30 2 MON"] {
        assert!(Pattern::parse(expression).is_ok(), "{expression}");
    }
}

#[test]
fn a_job_runs_through_if_a_field_of_its_time_begins_with_a_star() {
    for expression in ["*/20 * * * *", "0 * * * *", "* 0 2 * * *", "@hourly"] {
        assert!(pattern(expression).runs_through(), "{expression}");
    }
    for expression in ["0 2 * * *", "0-59 0-23 * * *", "0 0 2 * * *", "@daily"] {
        assert!(!pattern(expression).runs_through(), "{expression}");
    }
}

#[test]
fn the_shortest_gap_is_between_two_times_of_a_day_or_of_two_days() {
    for (expression, seconds) in [
        ("* * * * *", Some(60)),
        ("*/7 1-3 5,22 * *", Some(240)),
        ("0,50 9-17 * * MON-FRI", Some(600)),
        ("10,30,55 5 0 * * *", Some(20)),
        ("0 0,23 * * *", Some(3_600)),
        ("0 0,23 1 * *", Some(82_800)),
        ("0 0 * * *", Some(86_400)),
        ("0 0 * 1-12 *", Some(86_400)),
        ("0 0 * 1-11 *", None),
        ("0 0 * * MON", None),
    ] {
        let seconds = seconds.map(Duration::from_secs);
        assert_eq!(pattern(expression).shortest_gap(), seconds, "{expression}");
    }
}

#[test]
fn either_day_counts_if_neither_field_begins_with_a_star() {
    assert!(pattern("0 0 1 * MON").takes_either_day());
    for expression in [
        "0 0 */2 * MON",
        "0 0 1 * +MON",
        "0 0 1 * *",
        "0 0 * * MON",
        "@weekly",
    ] {
        assert!(!pattern(expression).takes_either_day(), "{expression}");
    }
}

#[test]
fn an_expression_reads_as_a_sentence() {
    for (expression, words) in [
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/45 * * * *", "at minute 0 and 45 past every hour"),
        (
            "*/25 30 2 * * *",
            "at second 0, 25, and 50, at minute 30 past hour 2",
        ),
        ("0 */9 * * *", "at 00:00, 09:00, and 18:00"),
        (
            "*/30 */5 * * *",
            "every 30 minutes past hour 0, 5, 10, 15, and 20",
        ),
        (
            "*/08 */8 * * *",
            "at minute 0, 8, 16, 24, 32, 40, 48, and 56 past every 8th hour",
        ),
        ("@hourly", "at minute 0 past every hour"),
        ("2,4,6 * * * *", "at minute 2, 4, and 6 past every hour"),
        ("30 2 * * *", "at 02:30"),
        ("15 30 2 * * *", "at 02:30:15"),
        ("0 9,17 * * *", "at 09:00 and 17:00"),
        ("*/10 0 14 * * *", "every 10 seconds at 14:00"),
        (
            "10-20 0 14 * * *",
            "at second 10-20, at minute 0 past hour 14",
        ),
        ("* 0 14 * * *", "every second, at minute 0 past hour 14"),
        (
            "0 9-17 * * MON-FRI",
            "at minute 0 past hour 9-17, on Monday to Friday",
        ),
        ("* 0 * * *", "every minute past hour 0"),
        ("0 */2 * * *", "at minute 0 past every 2nd hour"),
        ("*/15 */12 * * *", "every 15 minutes past every 12th hour"),
        ("0 0 1,2,15 * *", "at 00:00, on day 1, 2, and 15"),
        ("0 0 */3 * *", "at 00:00, on every 3rd day of the month"),
        (
            "0 0 L,15W 2 *",
            "at 00:00, on the last day of the month and the working day nearest day 15, in February",
        ),
        (
            "0 0 LW 1-3,6 ?",
            "at 00:00, on the last working day of the month, in January to March and June",
        ),
        (
            "0 0 * * MON#2,5L",
            "at 00:00, on the last Friday of the month and the 2nd Monday of the month",
        ),
        ("0 0 13 * FRI", "at 00:00, on day 13 or Friday"),
        (
            "0 0 13 * +FRI",
            "at 00:00, on day 13 (if it is also Friday)",
        ),
        (
            "0 0 */2 * 1,3",
            "at 00:00, on every 2nd day of the month (if it is also Monday and Wednesday)",
        ),
        (
            "0 0 1-7 * +MON,3#1",
            "at 00:00, on day 1-7 (if it is also one of: the 1st Wednesday of the month and Monday)",
        ),
        ("0 0 */1 */1 *", "at 00:00, on every day"),
    ] {
        assert_eq!(in_words(expression).as_deref(), Some(words), "{expression}");
    }
    assert_eq!(in_words("x"), None);
}

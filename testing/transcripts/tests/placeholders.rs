//! What each placeholder accepts, and what it rejects.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use support::{Fixed, replayed};

/// What is printed by a scene whose page shows this.
fn accepts(shown: &str, printed: &str) -> bool {
    let page = format!("## A scene\n\n```console\n$ print\n{shown}\n```\n");
    replayed(&page, &Fixed::new(&[printed])).is_ok()
}

/// The time of printing, so many seconds later.
fn time(seconds: i64) -> String {
    format!("@({seconds} %Y-%m-%dT%H:%M:%SZ)")
}

/// The same as a number.
fn unix(seconds: i64) -> String {
    format!("@({seconds} %s)")
}

fn check(placeholder: &str, accepted: &[&str], rejected: &[&str]) {
    for value in accepted {
        let (shown, printed) = (format!("a {placeholder} b"), format!("a {value} b\n"));
        assert!(accepts(&shown, &printed), "{placeholder} rejects {value:?}");
    }
    for value in rejected {
        let (shown, printed) = (format!("a {placeholder} b"), format!("a {value} b\n"));
        assert!(
            !accepts(&shown, &printed),
            "{placeholder} accepts {value:?}"
        );
    }
}

#[test]
fn times() {
    let (now, early, late, later) = (time(0), time(-60), time(60), time(660));
    let wrong = ["", "now", "2026-11-26", "2026-11-26T03:00:00", "12"];
    check("{time}", &[&now], &[&[&*early, &late], &wrong[..]].concat());
    check("{time+1m}", &[&late], &[&now, &early, &later]);
    check("{time+1m+10m}", &[&later], &[&now, &late]);
    check("{time-1m}", &[&early], &[&now, &late]);
    let full = |hours: i64| format!("@({} %Y-%m-%dT%H:00:00Z)", hours * 3600);
    let past_full = "@(0 %Y-%m-%dT%H:00:01Z)";
    // A full hour may end between the printing and the check.
    check("{time@1h}", &[&full(0)], &[&full(2), &full(-2), past_full]);
    check(
        "{time@1h+1h}",
        &[&full(1)],
        &[&full(-1), &full(3), past_full],
    );
}

#[test]
fn numbers_of_the_clock() {
    let (early, now, late) = (unix(-60), unix(0), unix(60));
    check("{unix}", &[&now], &[&early, &late, "", "x"]);
    check("{unix+1m}", &[&late], &[&now]);
    let token = |seconds: i64| format!("@({seconds} %s%6f)");
    let is = [token(-60), token(60), now];
    check("{token}", &[&token(0)], &[&is[0], &is[1], &is[2], "x"]);
    check(
        "{year}",
        &["@(0 %Y)"],
        &[&(year() - 1).to_string(), "26", "x"],
    );
}

/// What is exact was not printed before the scene began.
#[test]
fn exact_times() {
    for (shown, form) in [
        ("{time}", "%Y-%m-%dT%H:%M:%S.%6NZ"),
        ("{time}", "%Y-%m-%dT%H:%M:%S.%3NZ"),
        ("{unix}", "%s.%3N"),
        ("{unix}", "%s"),
        ("{token}", "%s%6N"),
    ] {
        let page = format!("## A scene\n\n```console\n$ date -u +{form}\n{shown}\n```\n");
        replayed(&page, &Fixed::new(&[])).unwrap();
        let page = page.replace("date", "date -d '2 seconds ago'");
        replayed(&page, &Fixed::new(&[])).unwrap_err();
    }
}

#[test]
fn durations() {
    check(
        "{duration}",
        &["0s", "0.0s", "1us", "0ms"],
        &["", "0", "5s", "1h", "0sec", "x"],
    );
    check(
        "{duration=5m}",
        &["5m", "4m59s"],
        &["5m1s", "4m", "6m", "5"],
    );
    check(
        "{duration=5m~2s}",
        &["5m", "5m2s", "4m58s"],
        &["5m4s", "4m55s", "1s"],
    );
    check(
        "{duration~2s}",
        &["0s", "2s", "1.5s", "100ms"],
        &["4s", "1m"],
    );
    check(
        "{duration=1h30m}",
        &["1h30m", "1h29m"],
        &["1h31m", "1h28m", "90"],
    );
}

#[test]
fn seconds() {
    check(
        "{seconds}",
        &["0", "0.034369", "1"],
        &["3", "60.5", "-1", "", "0s", "x"],
    );
    check(
        "{year+1}",
        &[&(year() + 1).to_string()],
        &[&year().to_string()],
    );
    check(
        "{year-1}",
        &[&(year() - 1).to_string()],
        &[&year().to_string()],
    );
}

fn year() -> i64 {
    jiff::Timestamp::now()
        .strftime("%Y")
        .to_string()
        .parse()
        .unwrap()
}

#[test]
fn ids() {
    let id = "0661261d87a3c0-747dd4c876179b54747dd4c876179b54";
    check(
        "{id}",
        &[id],
        &[
            "",
            "0661261d87a3c0",
            "0661261d87a3c-747dd4c876179b54",
            "x",
            "0661261d87a3c0-747dd4c876179b5",
        ],
    );
}

#[test]
fn numbers() {
    let [object, random, hash] = [12, 16, 20].map(|bytes| "0f".repeat(bytes));
    check("{identity}", &[&object, &random, &hash], &["", "0f0f", "x"]);
    check("{pid}", &["1", "4711"], &["0", "-1", "99999999", "", "x"]);
    check("{port}", &["80", "65535"], &["0", "65536", "x", ""]);
    check("{number}", &["0", "17"], &["-1", "1.5", "", "x", "1x"]);
}

#[test]
fn what_the_stage_knows() {
    check(
        "{dir}",
        &["/home/of/scene"],
        &["/home/of", "/home/of/scene2", "x"],
    );
    check("{host}", &["web-1"], &["web-2", "web-11", ""]);
    check("{version}", &["1.2.3"], &["1.2.4", "1.2", ""]);
    check("{url}", &["redis://h/0"], &["redis://h/1", "redis://h", ""]);
    check("{store}", &[], &["redis", "", "x"]);
    let releases = ["15.18 (Debian 15.18-0+deb12u1)", "10.11.19-MariaDB", "7"];
    check("{release}", &releases, &["v7", "7 (", "7 x", "x", ""]);
}

#[test]
fn owners() {
    let owner = "web-1/4711/b01aab2164782358";
    let wrong = [
        "web-1/4711",
        "web-1/x/b01aab2164782358",
        "/1/b01aab2164782358",
        "a/1/ff",
        "web-1/4711/b01aab21647823581",
    ];
    check("{owner}", &[owner], &wrong);
    let other = "web-1/4711/b01aab2164782359";
    for (shown, printed, is_accepted) in [
        ("{owner:a} {owner:a}", format!("{owner} {owner}"), true),
        ("{owner:a} {owner:a}", format!("{owner} {other}"), false),
        ("{owner:a} {owner:b}", format!("{owner} {other}"), true),
        ("{owner:a} {owner:b}", format!("{owner} {owner}"), false),
        (
            "{owner:a} {owner:a}…",
            format!("{owner} web-1/4711/b0…"),
            true,
        ),
        (
            "{owner:a} {owner:a}…",
            format!("{owner} web-1/4712/b0…"),
            false,
        ),
        ("{owner}…", "web-1/4711/b0…".to_owned(), true),
        ("{pid:a} {pid:a}", "17 17".to_owned(), true),
        ("{pid:a} {pid:a}", "17 18".to_owned(), false),
    ] {
        assert_eq!(
            accepts(shown, &format!("{printed}\n")),
            is_accepted,
            "{shown}: {printed}"
        );
    }
}

/// There is no placeholder for any text, and a page that misspells one is not one of fewer checks.
#[test]
fn no_other_words() {
    for word in [
        "{any}",
        "{text}",
        "{time:}",
        "{time~2s}",
        "{number+1s}",
        "{duration+1s}",
        "{owner=5m}",
        "{}",
        "{time",
        "{dir@1h}",
    ] {
        assert!(!accepts(word, "x\n"), "{word}");
        assert!(!accepts(word, &format!("{}\n", time(0))), "{word}");
        assert!(accepts(word, &format!("{word}\n")), "{word} is text");
    }
}

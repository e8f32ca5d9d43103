//! Tests that the judge of the scenarios with mails finds violations.

use crate::common::{Line, Mails};

type Case = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Histories, and the text of the violation that each of them must produce.
const CASES: [Case; 7] = [
    (
        "a mail that was in flight at a kill may come again",
        &[
            "a INFO sending id=1",
            "post took message_id=<1> id=1 from=a",
            "a is killed",
            "b INFO sending id=1",
            "post took message_id=<1> id=1 from=b",
            "b INFO marked as sent id=1",
            "b DEBUG lock released lock=\"outbox\"",
        ],
        &[],
    ),
    (
        "the same without a kill",
        &[
            "a INFO sending id=1",
            "post took message_id=<1> id=1 from=a",
            "b INFO sending id=1",
            "post took message_id=<1> id=1 from=b",
        ],
        &["a was not cut off"],
    ),
    (
        "a kill of another replica does not count",
        &[
            "a INFO sending id=1",
            "post took message_id=<1> id=1 from=a",
            "c is killed",
            "post took message_id=<1> id=1 from=b",
        ],
        &["a was not cut off"],
    ),
    (
        "under another Message-ID",
        &[
            "a INFO sending id=1",
            "post took message_id=<1> id=1 from=a",
            "a is killed",
            "post took message_id=<2> id=1 from=b",
        ],
        &["came again as <2>"],
    ),
    (
        "marked by its sender's log",
        &["a INFO marked as sent id=1", "b INFO sending id=1"],
        &["which was marked as sent"],
    ),
    (
        "marked in the table alone",
        &[
            "a INFO sending id=1",
            "post took message_id=<1> id=1 from=a",
            "a is killed",
            "table marked as sent id=1",
            "post took message_id=<1> id=1 from=b",
        ],
        &["came after it was marked"],
    ),
    (
        "sending that outlives the lock",
        &[
            "a INFO sending id=1",
            "a DEBUG lock released lock=\"outbox\"",
        ],
        &["was still sending"],
    ),
];

pub(crate) fn finds_what_must_not_be() {
    for (name, history, expected) in CASES {
        let line = |text: &&str| Line::parse(&format!("2026-11-21T00:00:00Z {text}"));
        let lines: Vec<Line> = history.iter().map(line).collect();
        let mails = Mails::judge(&lines);
        let complaints = mails.complaints();
        assert_eq!(complaints.len(), expected.len(), "{name}: {complaints:?}");
        for (complaint, words) in complaints.iter().zip(expected) {
            assert!(complaint.contains(words), "{name}: {complaint}");
        }
    }
}

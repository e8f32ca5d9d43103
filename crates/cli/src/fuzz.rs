//! The readers of untrusted text in this crate, as fuzz targets. Each panics if a promise is broken.

#[path = "../../../testing/fuzz/promises.rs"]
mod promises;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use clap::Parser as _;
use promises::{holds_secret, is_refusal};
use serde_json::Value;
use shedlock::{LeaseClock, LockName, LockRecord, ManualClock, Slot};
use shedlock_core::ErrorKind;

use crate::args::{Cli, Command, Format};
use crate::output;
use crate::watchdog::{Inbox, Order, Report, Supervision, frame};
use shedlock_support::redact;

/// Represents a password in the corpora.
const SECRET: &str = "geheim";

/// The command's arguments, one per line.
fn arguments(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let lines: Vec<OsString> = lines
        .map(|line| OsString::from_vec(line.to_vec()))
        .collect();
    let program = [OsString::from("shedlock")];
    match Cli::try_parse_from(program.iter().chain(&lines)) {
        Ok(cli) => {
            if let Command::Run(run) = cli.command {
                assert!(!run.command.is_empty());
                let claim = run.claim();
                let _ = (claim.config(), claim.defaults(), run.retries());
                if let Err(error) = run.schedule() {
                    is_refusal(&error, &[ErrorKind::InvalidInput]);
                }
            }
        }
        Err(error) if error.use_stderr() => {
            assert_eq!(error.exit_code(), 2);
            let said = error.render().to_string();
            let said = redact(&said);
            assert!(said.len() > 10);
            let urls = lines.iter().filter_map(|line| line.to_str());
            let is_secret = urls.clone().any(is_url_with_secret)
                && urls.filter(|line| line.contains(SECRET)).count() == 1;
            assert!(
                !is_secret || !said.contains(SECRET),
                "contains a password: {said}"
            );
        }
        Err(error) => assert_eq!(error.exit_code(), 0),
    }
}

/// Printed texts: no password is left in them, and clean text is unchanged.
fn redacted(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let clean = redact(&text);
    assert_eq!(redact(&clean), clean);
    assert!(
        !is_url_with_secret(&text) || !clean.contains(SECRET),
        "contains a password: {clean}"
    );
}

/// After a blank another word begins, which is not part of the URL.
fn is_url_with_secret(text: &str) -> bool {
    holds_secret(text) && !text.contains(char::is_whitespace)
}

/// Messages between `run` and its watchdog, whole and cut, and the plans that result from them.
fn message(data: &[u8]) {
    let whole = u32::try_from(data.len())
        .expect("it is short")
        .to_le_bytes();
    let whole = [&whole, data].concat();
    for bytes in [data, &whole] {
        let (mut at_once, mut by_bytes) = (Inbox::default(), Inbox::default());
        at_once.extend(bytes);
        let first = at_once.next::<Order>();
        let mut later = Vec::new();
        for byte in bytes {
            by_bytes.extend(&[*byte]);
            later.push(by_bytes.next::<Order>());
            if later.last().is_some_and(|next| !matches!(next, Ok(None))) {
                break;
            }
        }
        assert_eq!(first.is_err(), later.iter().any(Result::is_err));
        if let Ok(Some(order)) = first {
            let mut again = Inbox::default();
            again.extend(&frame(&order).expect("it is short"));
            let again = again.next::<Order>().expect("we have written it");
            assert_eq!(format!("{again:?}"), format!("{:?}", Some(&order)));
            let plan = match order {
                Order::Start(start) => start.plan,
                Order::Extend(plan) => plan,
                Order::Signal(_)
                | Order::Kill
                | Order::Stop(_)
                | Order::Release(_)
                | Order::Leave => continue,
            };
            let manual = ManualClock::new();
            let clock = LeaseClock::new(Arc::new(manual.clone()));
            let plan = plan.received(clock.read());
            let mut supervision = Supervision::new(plan);
            for seconds in [0, 1_000, 1 << 40] {
                manual.advance(Duration::from_secs(seconds));
                let now = clock.read();
                let _ = (
                    supervision.step(now),
                    supervision.is_hopeless(now),
                    plan.stop(),
                );
                supervision.extend(plan);
            }
        }
        let mut reports = Inbox::default();
        reports.extend(bytes);
        let _ = reports.next::<Report>();
    }
}

/// What is printed of a foreign record: owner and numbers, one per line.
fn printed(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (numbers, owner) = text.split_once('\n').unwrap_or(("", &text));
    let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().ok());
    let mut number = || numbers.next().flatten();
    let name = LockName::new("job").expect("it is a name");
    let mut record = LockRecord::from_stored(name, owner, data.len().is_multiple_of(2));
    let instant = |micros| UNIX_EPOCH.checked_add(Duration::from_micros(micros));
    record.locked_at = number().and_then(instant);
    record.locked_until = number().and_then(instant);
    record.read_at = number().and_then(instant);
    record.fencing_token = number();
    let micros = number().and_then(|micros| i64::try_from(micros).ok());
    record.last_slot = micros.and_then(|micros| Slot::from_micros(micros).ok());
    let records = [record];
    let [record] = &records;
    let table = [
        output::locks("sqlite", &records, "no locks", Some(80), Format::Table),
        output::lock("sqlite", Some(record), Format::Table),
        output::unlock("sqlite", Some(record), Some("root"), Format::Table),
    ];
    for text in table {
        assert!(
            !text.contains(|char: char| char.is_control() && char != '\n'),
            "{text:?}"
        );
        assert!(text.ends_with('\n'));
    }
    let json = output::lock("sqlite", Some(record), Format::Json);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["lock"]["owner"].as_str(), record.owner.as_deref());
    assert_eq!(json["lock"]["fencing_token"].as_u64(), record.fencing_token);
}

shedlock_fuzz::tests!(arguments, redacted, message, printed);

//! What is published about a store, compared with what its provider declares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use shedlock_core::{AttemptRequest, Budget, Capabilities, ClockSource};

use crate::{Harness, Namespace, Provider, RoundTrips, Stop, Verdict};

/// The environment variable that makes the case write the profile files instead of comparing them.
const VARIABLE: &str = "SHEDLOCK_SHEETS";

/// The data profile of a store, for a table of stores in your documentation: one row for each law
/// and each capability. The rows come from what the provider declares, from its round trips
/// ([`RoundTrips`](crate::RoundTrips)), and from the few facts that only people can supply.
///
/// The case `declared::what_is_published_holds` compares it with a file that is kept with the
/// documentation. With `SHEDLOCK_SHEETS=write` in the environment it writes the file. The table
/// in shedlock's own documentation is built from such files.
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreProfile {
    file: PathBuf,
    title: String,
    defaults: Option<Provider>,
    shares_records: bool,
    notes: Vec<(&'static str, String)>,
    instead: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    rows: BTreeMap<&'static str, String>,
}

impl StoreProfile {
    /// Creates the profile of the store with this display name, kept in this JSON file. The path is
    /// relative to the folder of the package, in which cargo runs its tests.
    pub fn new(title: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            title: title.into(),
            defaults: None,
            shares_records: false,
            notes: Vec::new(),
            instead: Vec::new(),
        }
    }

    /// Publishes what this provider declares. Use it if the harness configures its providers
    /// differently from what users get.
    pub fn of_provider(mut self, provider: Provider) -> Self {
        self.defaults = Some(provider);
        self
    }

    /// Declares that the records are those of ShedLock for Java.
    pub fn shares_records(mut self) -> Self {
        self.shares_records = true;
        self
    }

    /// Appends to the generated text of this row: ``note("durable", "with `appendfsync always`")``.
    pub fn note(mut self, row: &'static str, text: impl Into<String>) -> Self {
        self.notes.push((row, text.into()));
        self
    }

    /// Sets the text of a row that the code cannot fill, or whose value changes from day to day.
    pub fn says(mut self, row: &'static str, text: impl Into<String>) -> Self {
        self.instead.push((row, text.into()));
        self
    }

    /// Compares the profile with its file, or writes the file.
    pub(crate) async fn hold(
        &self,
        harness: &dyn Harness,
        namespace: &dyn Namespace,
        declared: &Capabilities,
    ) -> Verdict {
        let mut capabilities = declared.clone();
        if let Some(provider) = &self.defaults {
            provider.check().await?;
            capabilities = provider.capabilities();
        }
        let mut rows = self.rows(&capabilities, harness.round_trips());
        // The futures are dropped unpolled: they only show whether the harness supports
        // transactions.
        let has_transactions = namespace
            .inside_rolled_back_transaction(Box::new(|_| Box::pin(async {})))
            .is_some();
        if !has_transactions {
            rows.insert("law11", "no transactions".to_owned());
        }
        for (row, text) in &self.notes {
            let cell = rows.get_mut(row).ok_or_else(|| unknown(row))?;
            *cell = format!("{cell}, {text}");
        }
        for (row, text) in &self.instead {
            *rows.get_mut(row).ok_or_else(|| unknown(row))? = text.clone();
        }
        let title = &self.title;
        let page = serde_json::to_string_pretty(&Page { title, rows })? + "\n";
        compare(&self.file, &page)
    }

    /// The rows that the code can fill.
    fn rows(
        &self,
        capabilities: &Capabilities,
        round_trips: Option<RoundTrips>,
    ) -> BTreeMap<&'static str, String> {
        let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
        let clock = match capabilities.clock {
            ClockSource::Clients { tolerated_skew } => {
                format!("the clients (up to {} apart)", spoken(tolerated_skew))
            }
            _ => "the server".to_owned(),
        };
        let round_trips = round_trips.map_or_else(
            || "no round trips".to_owned(),
            |it| {
                format!(
                    "{} / {} / {} / {} / {}",
                    it.won, it.first, it.lost, it.extend, it.unlock
                )
            },
        );
        BTreeMap::from([
            ("law01", clock),
            ("law02", yes(true)),
            ("law03", yes(true)),
            ("law04", yes(true)),
            ("law05", spoken(capabilities.granularity)),
            ("law06", yes(true)),
            ("law07", yes(true)),
            ("law08", yes(capabilities.fencing)),
            ("law09", yes(capabilities.slots)),
            ("law09_open", yes(capabilities.completion)),
            ("law10", longest_name(capabilities.longest_name)),
            ("law11", yes(true)),
            ("law12", yes(self.shares_records)),
            ("law13", round_trips),
            ("law13_worst", worst(capabilities)),
            (
                "longest",
                longest_lock(capabilities.longest_lock_at_most_for),
            ),
            ("durable", yes(capabilities.durable)),
            ("hosts", "yes".to_owned()),
            ("tested_on", String::new()),
        ])
    }
}

fn unknown(row: &str) -> Stop {
    Stop::failed(format!("a profile has no row {row:?}"))
}

fn compare(file: &Path, page: &str) -> Verdict {
    if std::env::var(VARIABLE).is_ok_and(|word| word == "write") {
        return Ok(fs::write(file, page)?);
    }
    let published = fs::read_to_string(file).unwrap_or_default();
    if published == page {
        return Ok(());
    }
    Err(Stop::failed(format!(
        "{} does not match what the provider declares: run this case with {VARIABLE}=write, then \
         update what is built from the file; it should be\n{page}",
        file.display()
    )))
}

/// The worst case of an attempt: no copy gets a reply, and each has sent as much as it may.
fn worst(capabilities: &Capabilities) -> String {
    let copy = capabilities
        .longest_call
        .min(AttemptRequest::DEFAULT_TIMEOUT);
    format!(
        "{} / {}",
        Budget::COPIES * capabilities.most_requests,
        spoken(Budget::COPIES * copy + Budget::PAUSES)
    )
}

/// With a space before the unit: "1 ms".
fn spoken(duration: Duration) -> String {
    if duration.is_zero() {
        return "0".to_owned();
    }
    let text = format!("{duration:?}");
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    format!("{digits} {}", &text[digits.len()..])
}

fn longest_name(bytes: usize) -> String {
    match bytes {
        usize::MAX => "any".to_owned(),
        bytes if bytes % 1024 == 0 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} B"),
    }
}

fn longest_lock(duration: Duration) -> String {
    const YEAR: u64 = 365 * 86_400;
    match duration.as_secs() / YEAR {
        // Longer than the calendar allows.
        1_000.. => "any".to_owned(),
        0 => format!("{} h", duration.as_secs() / 3_600),
        years => format!("{years} years"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_for_people() {
        assert_eq!(spoken(Duration::ZERO), "0");
        assert_eq!(spoken(Duration::from_millis(1)), "1 ms");
        assert_eq!(spoken(Duration::from_micros(1)), "1 µs");
        assert_eq!(spoken(Duration::from_millis(1_001)), "1.001 s");
        assert_eq!(longest_name(64), "64 B");
        assert_eq!(longest_name(16 * 1024), "16 KiB");
        assert_eq!(longest_name(usize::MAX), "any");
        assert_eq!(longest_lock(Duration::MAX), "any");
        assert_eq!(
            longest_lock(Duration::from_secs(100 * 366 * 86_400)),
            "100 years"
        );
    }

    #[test]
    fn a_file_with_other_content_is_reported() {
        let missing = Path::new("no/such/file.json");
        let Err(Stop::Failed(message)) = compare(missing, "{}\n") else {
            panic!("there is no such file");
        };
        assert!(message.contains("SHEDLOCK_SHEETS=write"), "{message}");
    }
}

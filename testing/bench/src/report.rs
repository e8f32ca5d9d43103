//! The measurements, as a table and as JSON, compared with the budgets.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::store::{Store, reads_first};

/// All rows of a run, in the order in which they were measured.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Row {
    store: &'static str,
    what: String,
    ours: f64,
    baseline: Option<f64>,
    /// Our value divided by the baseline: the median over the rounds, if there were rounds.
    ratio: Option<f64>,
    unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Unit {
    /// Lock and unlock, per second.
    #[serde(rename = "pairs/s")]
    PairsPerSecond,
    /// Attempts per second.
    #[serde(rename = "attempts/s")]
    AttemptsPerSecond,
    /// For one step.
    #[serde(rename = "µs")]
    Microseconds,
    /// For one step.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Run by the server, for one call.
    #[serde(rename = "statements")]
    Statements,
    /// Over the wire and back, for one call.
    #[serde(rename = "round trips")]
    RoundTrips,
    /// Of the server's write-ahead log or on the wire, for one call.
    #[serde(rename = "bytes")]
    Bytes,
    /// Calls of the allocator.
    #[serde(rename = "allocations")]
    Allocations,
    /// Of memory.
    #[serde(rename = "bytes allocated")]
    Allocated,
    /// Of the thread that waits for timers.
    #[serde(rename = "wake-ups/s")]
    WakeUpsPerSecond,
    /// Of a task.
    #[serde(rename = "runs")]
    Runs,
}

/// The limit for a row.
enum Budget {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtMost(f64),
    Exactly(f64),
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a row. The baseline comes with the ratio to it.
    pub(crate) fn add(
        &mut self,
        store: Store,
        what: &str,
        unit: Unit,
        ours: f64,
        baseline: Option<(f64, f64)>,
    ) {
        self.rows.push(Row {
            store: store.name(),
            what: what.to_owned(),
            ours,
            baseline: baseline.map(|(baseline, _)| baseline),
            ratio: baseline
                .map(|(_, ratio)| ratio)
                .filter(|ratio| ratio.is_finite()),
            unit,
        });
    }

    /// Writes the rows as a JSON array.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(&self.rows)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "store", "what", "ours", "baseline", "ratio", "unit", "budget",
        ]);
        for row in &self.rows {
            table.add_row([
                row.store.to_owned(),
                row.what.clone(),
                row.unit.show(row.ours),
                row.baseline
                    .map_or_else(String::new, |baseline| row.unit.show(baseline)),
                row.ratio
                    .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                row.unit.word().to_owned(),
                row.judged(),
            ]);
        }
        for column in 2..=4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        write!(f, "{table}")
    }
}

impl Row {
    fn judged(&self) -> String {
        let Some(budget) = self.budget() else {
            return String::new();
        };
        let (keeps, words) = match budget {
            Budget::RatioAtLeast(least) => (
                self.ratio.is_some_and(|ratio| ratio >= least),
                format!("ratio at least {least}"),
            ),
            Budget::RatioAtMost(most) => (
                self.ratio.is_some_and(|ratio| ratio <= most),
                format!("ratio at most {most}"),
            ),
            Budget::AtMost(most) => (self.ours <= most, format!("at most {most}")),
            Budget::Exactly(number) => (
                self.ours.total_cmp(&number).is_eq(),
                format!("exactly {number}"),
            ),
        };
        let verdict = if keeps { "ok" } else { "OVER" };
        format!("{verdict}: {words}")
    }

    /// Whether an attempt is one conditional write. Otherwise it reads first, and the rate of a
    /// bare write is not required of it.
    fn takes_one_turn(&self) -> bool {
        !reads_first(self.store)
    }

    fn budget(&self) -> Option<Budget> {
        Some(match self.what.as_str() {
            "pairs_per_second" if self.takes_one_turn() => Budget::RatioAtLeast(0.85),
            "turns_won_attempt" | "turns_unlock" | "turns_extend" if self.takes_one_turn() => {
                Budget::AtMost(1.0)
            }
            "turns_lost_attempt" if self.takes_one_turn() => Budget::AtMost(2.0),
            // It has read, and need not write.
            "turns_lost_attempt" => Budget::AtMost(1.0),
            "statements_lost_attempt" => Budget::AtMost(2.0),
            "statements_first_attempt" => Budget::AtMost(3.0),
            "statements_won_attempt" | "statements_unlock" | "statements_extend" => {
                Budget::AtMost(1.0)
            }
            // Other servers also write to their logs in the background.
            "wal_bytes_lost_attempt" if self.store == "postgres" => Budget::AtMost(0.0),
            "executor_per_run" => Budget::AtMost(2_000.0),
            "idle_job" => Budget::AtMost(1_023.0),
            "idle_wake_ups" => Budget::AtMost(0.0),
            "firing_error_p99" => Budget::AtMost(5_000.0),
            "runs_of_1000_contenders" => Budget::Exactly(1.0),
            "run_with_journal_p99" => Budget::RatioAtMost(1.05),
            "attempt_among_many_names" => Budget::RatioAtMost(1.2),
            _ => return None,
        })
    }
}

impl Unit {
    fn word(self) -> &'static str {
        match self {
            Self::PairsPerSecond => "pairs/s",
            Self::AttemptsPerSecond => "attempts/s",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
            Self::Statements => "statements",
            Unit::RoundTrips => "round trips",
            Self::Bytes => "bytes",
            Self::Allocations => "allocations",
            Self::Allocated => "bytes allocated",
            Self::WakeUpsPerSecond => "wake-ups/s",
            Self::Runs => "runs",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Statements | Self::Allocations | Self::WakeUpsPerSecond => format!("{value:.2}"),
            _ => format!("{value:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, ours: f64, ratio: Option<f64>) -> Row {
        Row {
            store: "postgres",
            what: what.to_owned(),
            ours,
            baseline: None,
            ratio,
            unit: Unit::Bytes,
        }
    }

    #[test]
    fn budgets_are_held_against_the_ratio_or_the_number() {
        let judged = |what, ours, ratio| row(what, ours, ratio).judged();
        assert!(judged("pairs_per_second", 1.0, Some(0.86)).starts_with("ok"));
        assert!(judged("pairs_per_second", 1.0, Some(0.84)).starts_with("OVER"));
        assert!(judged("wal_bytes_lost_attempt", 0.0, None).starts_with("ok"));
        assert!(judged("wal_bytes_lost_attempt", 1.0, None).starts_with("OVER"));
        assert!(judged("runs_of_1000_contenders", 1.0, None).starts_with("ok"));
        assert!(judged("runs_of_1000_contenders", 0.0, None).starts_with("OVER"));
        assert!(judged("attempt_among_many_names", 9.0, Some(1.2)).starts_with("ok"));
        assert!(judged("attempt_among_many_names", 1.0, Some(1.3)).starts_with("OVER"));
        assert_eq!(judged("pair_p50", 1.0, None), "");
    }

    #[test]
    fn rows_have_the_documented_fields() {
        let json = serde_json::to_value(row("wal_bytes_lost_attempt", 0.0, None)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "store": "postgres",
                "what": "wal_bytes_lost_attempt",
                "ours": 0.0,
                "baseline": null,
                "ratio": null,
                "unit": "bytes",
            })
        );
    }
}

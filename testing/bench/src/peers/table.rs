//! The tables of a run in `docs/performance.md`.

use std::fmt::Write as _;

use super::contender::Contender;
use super::outcome::{Cell, Mode, Outcome};
use super::verdict;

const FREE: [Mode; 3] = [Mode::free(1), Mode::free(16), Mode::free(64)];
const CONTENDED: [Mode; 2] = [Mode::contended(16), Mode::contended(64)];

/// All tables. Writing to a string does not fail.
pub(super) fn markdown(outcome: &Outcome) -> String {
    let mut text = made_on(outcome);
    if outcome.sites().iter().any(|(store, _)| *store != "redis") {
        let _ = write!(
            text,
            "\nResults compared with the goals; missed goals are bold:\n\n{}",
            verdict::table(outcome)
        );
    }
    for site in outcome.sites() {
        let _ = write!(text, "\n### {}\n\n{}", title(site), free(outcome, site));
        let _ = write!(
            text,
            "\nAll workers contend for one lock:\n\n{}",
            contended(outcome, site)
        );
    }
    let _ = write!(text, "\n### On the wire\n\n{}", wire(outcome));
    let _ = write!(
        text,
        "\n### A program that takes one lock\n\n{}",
        programs(outcome)
    );
    text
}

/// For people.
pub(super) fn title((store, fsync): (&str, bool)) -> String {
    match store {
        "redis" => "Redis".to_owned(),
        _ => {
            let store = if store == "postgres" {
                "PostgreSQL"
            } else {
                "MariaDB"
            };
            let fsync = if fsync { "fsync" } else { "no fsync" };
            format!("{store}, {fsync}")
        }
    }
}

fn made_on(outcome: &Outcome) -> String {
    let machine = &outcome.machine;
    let mut text = format!(
        "{} cores of {}, {} GiB, {}, Linux {}, loopback; load average before the run {:.1}. {} rounds of \
         {} ms for each contender. Servers:",
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.system,
        machine.kernel,
        machine.load,
        outcome.rounds,
        outcome.slice_millis,
    );
    for version in outcome.servers.values() {
        let _ = write!(text, " {version};");
    }
    text.pop();
    text += ".\n\n| contender | versions |\n|---|---|\n";
    for (who, versions) in &outcome.versions {
        let (key, store) = who.split_once(" on ").unwrap_or((who, ""));
        let title = of_key(key);
        let _ = writeln!(text, "| {title}, {store} | {versions} |");
    }
    text
}

fn free(outcome: &Outcome, site: (&str, bool)) -> String {
    let mut text = String::from(
        "| workers | pairs/s: 1 | 16 | 64 | p50 / p99, µs: 1 | 16 | 64 | client CPU, µs per pair: 1 | 16 \
         | 64 | ours / this: 1 | 16 | 64 |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let columns: [fn(&Cell) -> String; 4] = [
        |cell| format!("{:.0}", cell.pairs_per_second),
        |cell| format!("{:.0} / {:.0}", cell.p50_micros, cell.p99_micros),
        |cell| format!("{:.0}", cell.cpu_micros_per_pair),
        |cell| {
            if cell.who == Contender::Ours.key() {
                return String::new();
            }
            format!("{:.2}", cell.ours_by_this)
        },
    ];
    rows(&mut text, outcome, site, &FREE, &columns);
    text
}

fn contended(outcome: &Outcome, site: (&str, bool)) -> String {
    let mut text = String::from(
        "| workers | pairs/s: 16 | 64 | lost attempts/s: 16 | 64 | p50 / p99 of a pair, µs: 16 | 64 |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    let columns: [fn(&Cell) -> String; 3] = [
        |cell| format!("{:.0}", cell.pairs_per_second),
        |cell| format!("{:.0}", cell.lost_per_second),
        |cell| format!("{:.0} / {:.0}", cell.p50_micros, cell.p99_micros),
    ];
    rows(&mut text, outcome, site, &CONTENDED, &columns);
    text
}

fn rows(
    text: &mut String,
    outcome: &Outcome,
    site: (&str, bool),
    modes: &[Mode],
    columns: &[fn(&Cell) -> String],
) {
    for who in outcome.contenders(site.0) {
        let cells: Vec<_> = modes
            .iter()
            .map(|mode| outcome.cell(site, who, *mode))
            .collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(text, "| {} |", who.title());
        for column in columns {
            for cell in &cells {
                let _ = write!(text, " {} |", cell.map_or_else(String::new, column));
            }
        }
        text.push('\n');
    }
}

/// For people.
fn of_key(key: &str) -> &str {
    match Contender::of_key(key) {
        Some(contender) => contender.title(),
        None => key,
    }
}

fn wire(outcome: &Outcome) -> String {
    let mut text = String::from(
        "| one pair | store | statements | round trips | bytes sent | bytes received |\n\
         |---|---|--:|--:|--:|--:|\n",
    );
    for row in &outcome.wire {
        let title = of_key(&row.who);
        let statements = row
            .statements
            .map_or_else(String::new, |it| format!("{it:.1}"));
        let _ = writeln!(
            text,
            "| {title} | {} | {statements} | {:.1} | {:.0} | {:.0} |",
            row.store, row.round_trips, row.bytes_sent, row.bytes_received
        );
    }
    text
}

fn programs(outcome: &Outcome) -> String {
    let mut text = String::from(
        "| program | store | total time, ms | peak memory, MiB |\n|---|---|--:|--:|\n",
    );
    for row in &outcome.programs {
        let title = of_key(&row.who);
        let _ = writeln!(
            text,
            "| {title} | {} | {:.0} | {:.0} |",
            row.store, row.millis, row.peak_mib
        );
    }
    text
}

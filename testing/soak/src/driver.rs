//! Starts the parts side by side, and judges what they report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use comfy_table::{Table, presets};
use shedlock_rig::{Running, wait};

use crate::Cli;
use crate::parts::Part;
use crate::quantity::{Kind, Quantity};
use crate::verdict::{Verdict, judge};

/// What a part has printed.
#[derive(Default)]
struct Report {
    samples: BTreeMap<String, Vec<(f64, f64)>>,
    ends: Vec<(String, usize, usize)>,
    notes: Vec<String>,
    lines: Vec<String>,
    failure: Option<String>,
}

/// True if nothing grows, nothing becomes slower, and nothing is left at the end.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<bool> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "store",
        "part",
        "quantity",
        "first",
        "last",
        "slope an hour",
        "limit",
        "verdict",
    ]);
    let mut samples = cli.samples.as_ref().map(File::create).transpose()?;
    let (mut is_level, mut notes) = (true, Vec::new());
    for store in &cli.stores {
        for (part, report) in reports(cli, store)? {
            let word = part.word();
            if let Some(file) = &mut samples {
                for line in &report.lines {
                    writeln!(file, "{store}\t{word}\t{line}")?;
                }
            }
            notes.extend(
                report
                    .notes
                    .iter()
                    .map(|note| format!("{store}, {word}: {note}")),
            );
            for row in rows(&report)? {
                is_level &= row.is_level;
                table.add_row([&[store.clone(), word.clone()], &row.cells[..]].concat());
            }
            if let Some(why) = report.failure {
                is_level = false;
                notes.push(format!("{store}, {word}: FAILED: {why}"));
            }
        }
    }
    println!("{table}\n");
    for note in notes {
        println!("- {note}");
    }
    Ok(is_level)
}

/// Runs all parts on this store.
fn reports(cli: &Cli, store: &str) -> anyhow::Result<Vec<(Part, Report)>> {
    let named = if cli.parts.is_empty() {
        Part::value_variants()
    } else {
        &cli.parts
    };
    let parts = named.iter().copied().filter(|part| part.is_for(store));
    let program = env::current_exe().context("this program is gone")?;
    let threads: anyhow::Result<Vec<_>> = parts
        .map(|part| {
            let mut command = Command::new(&program);
            command
                .args(["--run", &part.word(), "--store", store])
                .args(["--minutes", &cli.minutes.to_string()])
                .args(cli.plant_leak.then_some("--plant-leak"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped());
            let running = Running::start(&mut command)?;
            Ok((part, thread::spawn(move || read(running))))
        })
        .collect();
    let mut reports = Vec::new();
    for (part, thread) in threads? {
        let report = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reports.push((part, report));
    }
    Ok(reports)
}

/// Everything until its end.
fn read(mut running: Running) -> Report {
    let mut report = Report::default();
    let heard = loop {
        match running.output.next(wait::PATIENCE) {
            Ok(Some(line)) => {
                if let Err(error) = report.hear(&line) {
                    break Err(error);
                }
                report.lines.push(line);
            }
            Ok(None) => break running.wait(Duration::from_secs(60)),
            Err(error) => break Err(error),
        }
    };
    report.failure = match heard {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(format!("{error:#}")),
    };
    report
}

impl Report {
    fn hear(&mut self, line: &str) -> anyhow::Result<()> {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["sample", hours, quantity, value] => {
                let of = self.samples.entry(quantity.to_owned()).or_default();
                of.push((hours.parse()?, value.parse()?));
            }
            ["end", what, value, at_most] => {
                self.ends
                    .push((what.to_owned(), value.parse()?, at_most.parse()?));
            }
            ["note", text] => self.notes.push(text.to_owned()),
            _ => bail!("a part printed something else: {line}"),
        }
        Ok(())
    }
}

struct Row {
    cells: [String; 6],
    is_level: bool,
}

fn rows(report: &Report) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, samples) in &report.samples {
        let quantity =
            Quantity::named(name).with_context(|| format!("{name} is not a quantity"))?;
        let judged = judge(quantity, samples);
        let slope = |value: f64| match quantity.kind {
            Kind::Size => format!("{value:+.1}"),
            Kind::Time => format!("{:+.0} %", value * 100.0),
        };
        rows.push(Row {
            cells: [
                name.clone(),
                format!("{:.1}", judged.first),
                format!("{:.1}", judged.last),
                slope(judged.slope),
                slope(quantity.per_hour),
                judged.verdict.word().to_owned(),
            ],
            is_level: judged.verdict == Verdict::Level,
        });
    }
    for (what, value, at_most) in &report.ends {
        let is_level = value <= at_most;
        let verdict = if is_level { "level" } else { "LEFT" };
        let cells = [
            format!("{what}, at the end"),
            String::new(),
            value.to_string(),
            String::new(),
            at_most.to_string(),
            verdict.to_owned(),
        ];
        rows.push(Row { cells, is_level });
    }
    Ok(rows)
}

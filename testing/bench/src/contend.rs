//! A thousand contenders for one slot, in ten processes: this program, started again.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, bail};
use shedlock_core::{Executor, LockConfig, Outcome, Slot};
use shedlock_sqlx::PostgresProvider;
use tokio::task::JoinSet;

use crate::Effort;
use crate::meter::Meter;
use crate::provider::AT_MOST;
use crate::report::{Report, Unit};
use crate::rounds::median;
use crate::site::Site;

const PROCESSES: u32 = 10;
const EACH: u32 = 100;

/// How often the task of a slot ran, the statements that the server received for it, and the time
/// until the last contender had its result. Each round is one slot. The baseline is one statement
/// per contender.
pub(crate) async fn measure(
    site: &Site,
    effort: Effort,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut meter, _provider) = Meter::new(site).await?;
    let url = site.logged_url()?;
    let mut troop = Vec::new();
    for _ in 0..PROCESSES {
        troop.push(Contenders::start(&url)?);
    }
    let (mut runs, mut statements, mut micros) = (Vec::new(), Vec::new(), Vec::new());
    // The first round, in which they connect and prepare, does not count.
    for round in 0..=effort.rounds {
        let before = meter.read().await?.statements;
        let slot = Slot::at(SystemTime::now())?;
        let begun = Instant::now();
        for contenders in &mut troop {
            contenders.go(slot)?;
        }
        let mut ran = 0;
        for contenders in &mut troop {
            ran += contenders.ran()?;
        }
        let took = begun.elapsed();
        let asked = meter.read().await?.statements - before;
        runs.push(f64::from(ran));
        if round > 0 {
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            statements.push(asked as f64);
            micros.push(took.as_secs_f64() * 1e6);
        }
    }
    // Not the median: even a single slot that ran twice, or never, is a failure.
    let worst = runs.iter().copied().find(|runs| (runs - 1.0).abs() > 0.5);
    let bare = f64::from(PROCESSES * EACH);
    let asked = median(&statements);
    let mut add = |what, unit, own, base| report.add(site.store, what, unit, own, base);
    add(
        "runs_of_1000_contenders",
        Unit::Runs,
        worst.unwrap_or(1.0),
        None,
    );
    add(
        "statements_of_1000_contenders",
        Unit::Statements,
        asked,
        Some((bare, asked / bare)),
    );
    add(
        "time_of_1000_contenders",
        Unit::Microseconds,
        median(&micros),
        None,
    );
    Ok(())
}

/// One of the processes, from outside. It ends when its orders do.
struct Contenders {
    process: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Contenders {
    fn start(url: &str) -> anyhow::Result<Self> {
        let program = env::current_exe().context("this program cannot be found again")?;
        let mut process = Command::new(program)
            .arg("contend")
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a process of contenders could not be started")?;
        let answers = process.stdout.take();
        let answers = answers.context("a process of contenders has no output")?;
        Ok(Self {
            orders: process.stdin.take(),
            process,
            answers: BufReader::new(answers).lines(),
        })
    }

    fn go(&mut self, slot: Slot) -> anyhow::Result<()> {
        let orders = self.orders.as_mut();
        let orders = orders.context("a process of contenders has no input")?;
        Ok(writeln!(orders, "{}", slot.as_micros())?)
    }

    fn ran(&mut self) -> anyhow::Result<u32> {
        let answer = self.answers.next();
        let answer =
            answer.context("a process of contenders has ended: see its message above")??;
        Ok(answer.parse()?)
    }
}

impl Drop for Contenders {
    fn drop(&mut self) {
        self.orders = None;
        if let Err(error) = self.process.wait() {
            eprintln!("bench: a process of contenders cannot be waited for: {error}");
        }
    }
}

/// The variable that contains the URL for a process of contenders. It is not visible to other
/// users.
const URL: &str = "SHEDLOCK_BENCH_CONTEND_URL";

/// One of the processes, from inside: reads one slot per line, and writes the number of runs.
pub(crate) async fn obey() -> anyhow::Result<()> {
    let url = env::var(URL).with_context(|| format!("{URL} is not set"))?;
    let executor = Executor::new(Arc::new(PostgresProvider::connect(&url).await?));
    for order in std::io::stdin().lines() {
        let slot = Slot::from_micros(order?.parse()?)?;
        println!("{}", contend(&executor, slot).await?);
    }
    Ok(())
}

/// How many of our contenders ran.
async fn contend(executor: &Executor, slot: Slot) -> anyhow::Result<u32> {
    let mut contenders = JoinSet::new();
    for _ in 0..EACH {
        let executor = executor.clone();
        contenders.spawn(async move {
            let config = LockConfig::new("contended").lock_at_most_for(AT_MOST);
            executor.execute(&config.slot(slot), async {}).await
        });
    }
    let mut runs = 0;
    while let Some(ended) = contenders.join_next().await {
        match ended?? {
            Outcome::Executed { .. } => runs += 1,
            Outcome::Skipped(_) => {}
            other => bail!("expected a run or a skip, got {other:?}"),
        }
    }
    Ok(runs)
}

//! Sides of a comparison, measured interleaved.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use shedlock_core::BoxFuture;

/// One worker of a side: repeats the same step.
pub(crate) trait Worker: Send {
    /// Runs one step.
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// How long it waits between two steps, which is not measured.
    fn rest(&self) -> Duration {
        Duration::ZERO
    }
}

/// One side: its workers run at the same time.
pub(crate) struct Side {
    workers: Vec<Box<dyn Worker>>,
    /// Steps per second, round by round.
    rates: Vec<f64>,
    /// Nanoseconds of each step.
    latencies: Histogram<u64>,
}

/// The longest step that is distinguished from longer ones.
const LONGEST: Duration = Duration::from_secs(60);

impl Side {
    pub(crate) fn new(workers: Vec<Box<dyn Worker>>) -> Self {
        Self {
            workers,
            rates: Vec::new(),
            latencies: histogram(),
        }
    }

    /// Median of the rounds, in steps per second.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Median of the rounds' ratios to another side.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self
            .rates
            .iter()
            .zip(&other.rates)
            .map(|(own, others)| own / others)
            .collect();
        median(&ratios)
    }

    /// A quantile of all steps, in microseconds.
    pub(crate) fn micros_at(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.latencies.value_at_quantile(quantile)).as_secs_f64() * 1e6
    }

    /// Runs steps on every worker until `slice` has passed.
    async fn run(&mut self, slice: Duration) -> anyhow::Result<Ran> {
        let begun = Instant::now();
        let running: Vec<_> = self
            .workers
            .drain(..)
            .map(|worker| tokio::spawn(work(worker, begun + slice)))
            .collect();
        let mut latencies = histogram();
        for running in running {
            let (worker, own) = running.await??;
            self.workers.push(worker);
            latencies.add(own)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Ran { seconds, latencies })
    }
}

struct Ran {
    seconds: f64,
    latencies: Histogram<u64>,
}

async fn work(
    mut worker: Box<dyn Worker>,
    until: Instant,
) -> anyhow::Result<(Box<dyn Worker>, Histogram<u64>)> {
    let mut latencies = histogram();
    let mut last = Instant::now();
    while last < until {
        worker.step().await?;
        let now = Instant::now();
        let nanos = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
        latencies.saturating_record(nanos);
        last = now;
        let rest = worker.rest();
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
            last = Instant::now();
        }
    }
    Ok((worker, latencies))
}

/// Measures all sides in each round, in alternating order, so that whatever slows the machine for a
/// while slows all of them. A round before the first one does not count.
pub(crate) async fn take_turns(
    sides: &mut [Side],
    rounds: u32,
    slice: Duration,
) -> anyhow::Result<()> {
    for side in sides.iter_mut() {
        side.run(slice).await?;
    }
    for round in 0..rounds {
        let mut order: Vec<&mut Side> = sides.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for side in order {
            let ran = side.run(slice).await?;
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            side.rates.push(ran.latencies.len() as f64 / ran.seconds);
            side.latencies.add(ran.latencies)?;
        }
    }
    Ok(())
}

/// The median. 0 if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => 0.0,
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(*upper, sorted[middle - 1]),
    }
}

fn histogram() -> Histogram<u64> {
    let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(100, longest, 3).expect("these bounds are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let near = |values: &[f64], expected: f64| (median(values) - expected).abs() < 1e-9;
        assert!(near(&[3.0, 1.0, 2.0], 2.0));
        assert!(near(&[4.0, 1.0, 3.0, 2.0], 2.5));
        assert!(near(&[], 0.0));
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let side = |rates: &[f64]| Side {
            rates: rates.to_vec(),
            ..Side::new(Vec::new())
        };
        // Each round at 0.9, while the machine became slower and slower.
        let (ours, bare) = (side(&[90.0, 45.0, 9.0]), side(&[100.0, 50.0, 10.0]));
        assert!((ours.ratio_to(&bare) - 0.9).abs() < 1e-9);
    }
}

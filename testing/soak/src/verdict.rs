//! What became of a quantity: level, or not.

use crate::quantity::{Kind, Quantity};

/// How many blocks the samples after the warm-up are divided into.
const BLOCKS: usize = 10;

/// The share of pairs of blocks of which the later one must be the higher one.
const RISING: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Level,
    Grows,
    Degrades,
    /// There is nothing to judge.
    TooFew,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Grows => "GROWS",
            Self::Degrades => "DEGRADES",
            Self::TooFew => "TOO FEW SAMPLES",
        }
    }
}

/// A quantity of one part, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// Per hour; of a time, as a share of its level.
    pub(crate) slope: f64,
    pub(crate) verdict: Verdict,
}

/// Judges samples, which are hours and values in the order of their times.
///
/// The first third is warm-up. Each block of the rest counts by its lower quartile: a leak raises what is there between
/// two peaks, and other work on the machine does not. The slope is the median over all pairs of blocks (Theil-Sen).
pub(crate) fn judge(quantity: &Quantity, samples: &[(f64, f64)]) -> Judged {
    let blocks = blocks(samples);
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
        return Judged {
            first: f64::NAN,
            last: f64::NAN,
            slope: f64::NAN,
            verdict: Verdict::TooFew,
        };
    };
    let level = match quantity.kind {
        Kind::Size => 1.0,
        Kind::Time => quantile(blocks.iter().map(|(_, value)| *value), 0.5).max(f64::MIN_POSITIVE),
    };
    let slopes: Vec<f64> = pairs(&blocks)
        .map(|(a, b)| (b.1 - a.1) / (b.0 - a.0) / level)
        .collect();
    let rising = slopes.iter().filter(|slope| **slope > 0.0).count();
    let slope = quantile(slopes.iter().copied(), 0.5);
    #[expect(clippy::cast_precision_loss, reason = "there are 45 pairs")]
    let is_rising = rising as f64 >= RISING * slopes.len() as f64;
    // Growth that the noise of a short run explains is none.
    let is_seen = slope * (last.0 - first.0) > quantity.step;
    let verdict = match quantity.kind {
        _ if !(is_rising && is_seen && slope > quantity.per_hour) => Verdict::Level,
        Kind::Size => Verdict::Grows,
        Kind::Time => Verdict::Degrades,
    };
    Judged {
        first: first.1,
        last: last.1,
        slope,
        verdict,
    }
}

/// The middle of the times, and the lower quartile of the values, of each block. None if a block would have
/// fewer than three samples.
fn blocks(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let rest = &samples[samples.len() / 3..];
    if rest.len() < 3 * BLOCKS {
        return Vec::new();
    }
    let block = |nth: usize| {
        let of = &rest[rest.len() * nth / BLOCKS..rest.len() * (nth + 1) / BLOCKS];
        let times = of.iter().map(|(time, _)| *time);
        let values = of.iter().map(|(_, value)| *value);
        (quantile(times, 0.5), quantile(values, 0.25))
    };
    (0..BLOCKS).map(block).collect()
}

/// Each two, the earlier one first.
fn pairs(blocks: &[(f64, f64)]) -> impl Iterator<Item = ((f64, f64), (f64, f64))> {
    let later = move |nth: usize| blocks[nth + 1..].iter().map(move |b| (blocks[nth], *b));
    (0..blocks.len()).flat_map(later)
}

/// The value below which this share of them lies.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a list in memory"
    )]
    let nth = ((values.len().saturating_sub(1)) as f64 * share).round() as usize;
    values.get(nth).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{HEAP, PAIR};

    /// Five minutes of samples every two seconds. The noise is always the same.
    fn samples(value: impl Fn(f64, f64) -> f64) -> Vec<(f64, f64)> {
        let mut chance = fastrand::Rng::with_seed(35);
        let at = |nth: u32| {
            let hours = f64::from(nth) / 1_800.0;
            (hours, value(hours, chance.f64()))
        };
        (0..150).map(at).collect()
    }

    fn verdict(quantity: &Quantity, value: impl Fn(f64, f64) -> f64) -> Verdict {
        judge(quantity, &samples(value)).verdict
    }

    #[test]
    fn noise_around_a_level_is_level() {
        assert_eq!(
            verdict(&HEAP, |_, noise| 4_000.0 + 3_000.0 * noise),
            Verdict::Level
        );
        assert_eq!(verdict(&PAIR, |_, noise| 2.0 + noise), Verdict::Level);
        // Other work that begins in the last minute.
        let busy = |hours: f64, noise: f64| {
            if hours > 0.07 {
                3.0 + 3.0 * noise
            } else {
                2.0 + noise
            }
        };
        assert_eq!(verdict(&PAIR, busy), Verdict::Level);
    }

    #[test]
    fn a_saw_is_level() {
        // What is written is pruned after every 32 runs.
        assert_eq!(
            verdict(&HEAP, |hours, _| 4_000.0
                + 10_000.0 * (hours * 60.0).fract()),
            Verdict::Level
        );
    }

    #[test]
    fn a_slow_leak_below_the_noise_grows() {
        // 100 bytes a run, 100 runs a second: 36 MB an hour, 2 MB in the time that is judged.
        let leak = |hours: f64, noise: f64| 4_000.0 + 3_000.0 * noise + 36_000.0 * hours;
        let judged = judge(&HEAP, &samples(leak));
        assert_eq!(judged.verdict, Verdict::Grows);
        assert!(
            (20_000.0..50_000.0).contains(&judged.slope),
            "{}",
            judged.slope
        );
    }

    #[test]
    fn a_plateau_after_the_warm_up_is_level() {
        let fills = |hours: f64, noise: f64| 10_000.0 * (hours / 0.025).min(1.0) + 100.0 * noise;
        assert_eq!(verdict(&HEAP, fills), Verdict::Level);
    }

    #[test]
    fn less_than_the_limit_is_level_in_any_time() {
        let hours_long = |per_hour: f64| -> Vec<(f64, f64)> {
            let at = |nth: u32| f64::from(nth) / 150.0 * 10.0;
            (0..150)
                .map(|nth| (at(nth), 4_000.0 + per_hour * at(nth)))
                .collect()
        };
        assert_eq!(
            judge(&HEAP, &hours_long(HEAP.per_hour * 0.9)).verdict,
            Verdict::Level
        );
        assert_eq!(
            judge(&HEAP, &hours_long(HEAP.per_hour * 1.1)).verdict,
            Verdict::Grows
        );
    }

    #[test]
    fn what_becomes_slower_degrades_and_what_becomes_faster_does_not() {
        assert_eq!(
            verdict(&PAIR, |hours, noise| 2.0 + noise + 40.0 * hours),
            Verdict::Degrades
        );
        assert_eq!(
            verdict(&PAIR, |hours, noise| 9.0 + noise - 40.0 * hours),
            Verdict::Level
        );
    }

    #[test]
    fn too_few_samples_are_not_judged() {
        let few = &samples(|_, noise| noise)[..40];
        assert_eq!(judge(&HEAP, few).verdict, Verdict::TooFew);
    }
}

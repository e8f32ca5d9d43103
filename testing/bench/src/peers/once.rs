//! A program that takes one lock, gives it back and exits: its duration and its memory.

use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::Lengths;
use super::contender::Contender;
use super::outcome::{Outcome, Program};
use crate::rounds::median;
use crate::site::Site;

/// Starts the programs, interleaved.
pub(super) fn measure(site: &Site, lengths: Lengths, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut seen: Vec<(Contender, Vec<f64>, Vec<f64>)> = Contender::of(site.store)
        .into_iter()
        .map(|contender| (contender, Vec::new(), Vec::new()))
        .collect();
    for start in 0..=lengths.starts {
        for (contender, millis, kib) in &mut seen {
            let Some(mut command) = contender.once(site)? else {
                continue;
            };
            let begun = Instant::now();
            let ran = command.output();
            let took = begun.elapsed();
            let ran = ran.with_context(|| format!("{} could not be started", contender.key()))?;
            let said = String::from_utf8_lossy(&ran.stdout);
            ensure!(
                ran.status.success(),
                "{} ended with {}: {}",
                contender.key(),
                ran.status,
                String::from_utf8_lossy(&ran.stderr)
            );
            // The first start, which fills the system's cache, does not count.
            if start > 0 {
                millis.push(took.as_secs_f64() * 1e3);
                let peak = said.trim().parse::<f64>();
                kib.push(peak.with_context(|| format!("{} said {said:?}", contender.key()))?);
            }
        }
    }
    for (contender, millis, kib) in seen.into_iter().filter(|(_, millis, _)| !millis.is_empty()) {
        outcome.programs.push(Program {
            store: site.store.name().to_owned(),
            who: contender.key().to_owned(),
            millis: median(&millis).round(),
            peak_mib: (median(&kib) / 102.4).round() / 10.0,
        });
    }
    Ok(())
}

//! A program that takes one lock, gives it back, and prints its peak memory in KiB. `cargo xtask bench --peers`
//! compares it with the same program in Java.
#![allow(clippy::print_stdout, reason = "the number is what it is for")]

use std::env;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use shedlock::{Executor, LockConfig};

fn main() -> anyhow::Result<()> {
    let url = env::var("SHEDLOCK_BENCH_CONTEND_URL").context("there is no URL")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let executor = Executor::new(shedlock::connect(&url).await?);
        let config = LockConfig::new("once").lock_at_most_for(Duration::from_secs(600));
        let outcome = executor.execute(&config, async {}).await?;
        anyhow::ensure!(outcome.is_executed(), "another process holds the lock");
        Ok(())
    })?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.context("the system does not report the peak")?;
    println!("{}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}

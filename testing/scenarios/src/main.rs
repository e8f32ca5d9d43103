//! One replica of a small service, as a user would write it.

use clap::Parser as _;
use shedlock_scenarios::{Args, run};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    run(Args::parse()).await
}

//! One side of a comparison of locks, in a separate process, so that its CPU time can be measured
//! separately.
//!
//! For each line on standard input, an [`Order`], it runs a round of pairs of lock and unlock, and
//! writes a line on standard output, an [`Answer`]. Before the first one it writes that it is
//! [`Ready`]. `testing/bench/java` uses the same protocol. The process ends when standard input
//! does.
#![allow(
    clippy::print_stdout,
    reason = "its answers go to standard output: that is its product"
)]
#![allow(clippy::disallowed_methods, reason = "it measures with the real clock")]

mod contestant;
mod ours;
mod round;
mod wire;

pub use contestant::{BoxFuture, Contestant, Worker};
pub use ours::{AT_MOST, Ours, give_back};
pub use round::Rounds;
pub use wire::{Answer, Order, Ready, histogram};

/// Executes the orders on standard input until it ends.
///
/// # Errors
/// The errors of the lock, and invalid orders.
pub async fn serve(contestant: impl Contestant, versions: &str) -> anyhow::Result<()> {
    let mut rounds = Rounds::new(contestant);
    let ready = Ready {
        versions: versions.to_owned(),
    };
    println!("{}", serde_json::to_string(&ready)?);
    for order in std::io::stdin().lines() {
        let answer = rounds.run(&serde_json::from_str(&order?)?).await?;
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

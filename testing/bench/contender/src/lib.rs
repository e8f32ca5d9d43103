//! One side of a comparison of locks, as a process of its own, so that its CPU time is its own.
//!
//! It does a round of pairs of lock and unlock for each line on standard input, an [`Order`], and
//! answers each in a line on standard output, an [`Answer`]; before the first it says that it is
//! [`Ready`]. `testing/bench/java` speaks the same. It ends when standard input does.
#![allow(
    clippy::print_stdout,
    reason = "its answers go to standard output: that is its product"
)]
#![allow(clippy::disallowed_methods, reason = "it measures with the real clock")]

mod contestant;
mod round;
mod wire;

pub use contestant::{BoxFuture, Contestant, Worker};
pub use round::Rounds;
pub use wire::{Answer, Order, Ready, histogram};

/// Does what standard input says, until it ends.
///
/// # Errors
/// Whatever the lock fails with, and orders that are none.
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

//! The laws of shedlock as test cases that the author of any provider can run.

mod case;
mod harness;
pub mod laws;
mod pace;
mod runner;
mod setting;
mod steps;
mod verdict;
mod wait;

pub use case::Case;
pub use harness::{BoxError, Cost, Harness, JavaRecord, Power, Provider, Space, Work, power};
pub use pace::Pace;
pub use runner::{main, run_case};
pub use setting::Setting;
pub use verdict::{Stop, Verdict};

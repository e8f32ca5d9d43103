//! The laws of shedlock as test cases that the author of any provider can run.

mod case;
mod chance;
mod child;
mod harness;
pub mod history;
pub mod laws;
mod line;
mod pace;
pub mod proxy;
mod puppet;
mod runner;
mod setting;
mod signal;
mod steps;
mod troop;
mod verdict;
mod wait;
mod worker;
mod wrapped;

pub use case::Case;
pub use child::play_child;
pub use harness::{BoxError, Cost, Harness, JavaRecord, Power, Provider, Space, Work, power};
pub use pace::Pace;
pub use runner::{main, run_case};
pub use setting::Setting;
pub use verdict::{Stop, Verdict};
pub use wrapped::{Wrapped, wrapped};

//! What runs in the world, and what goes wrong in it.

mod actor;
mod body;
mod counting;
mod plan;
mod process;

pub(crate) use plan::{Family, Plan, Struck};
pub(crate) use process::Process;

//! `#[scheduled]`: turns a function with a lock into a job.

mod attr;
pub(crate) mod check;
mod completion;
mod expand;
mod parameters;
mod refusal;

pub(crate) use expand::{expand, is_attribute};

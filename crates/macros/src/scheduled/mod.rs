//! `#[scheduled]`: turns a function with a lock into a job.

mod attr;
mod completion;
mod expand;
mod parameters;

pub(crate) use expand::{expand, is_attribute};

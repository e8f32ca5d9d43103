#![doc = include_str!("../README.md")]

pub mod civil;
pub mod cron;
pub mod duration;
pub mod instant;
pub mod period;
pub mod template;
pub mod zone;

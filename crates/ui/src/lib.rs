#![doc = include_str!("../README.md")]

mod access;
mod act;
mod action;
mod api;
mod assets;
mod components;
mod dashboard;
mod failure;
mod guard;
mod pages;
mod reading;
mod shared;
mod slots;
mod standing;
mod store;

pub use access::Access;
pub use dashboard::{Builder, Dashboard};

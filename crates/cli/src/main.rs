//! The command `shedlock`.
fn main() {}

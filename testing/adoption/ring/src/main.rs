//! Has nothing to do: what counts is which features its dependencies have.

fn main() {}

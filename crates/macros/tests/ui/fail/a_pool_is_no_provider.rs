//! A pool where a provider is expected: the error says how to make one.

use std::sync::Arc;

#[derive(Debug)]
struct Pool;

fn main() {
    let _ = shedlock::set_global_provider(Arc::new(Pool));
}

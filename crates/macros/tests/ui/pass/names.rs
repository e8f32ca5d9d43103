//! All expressions that are allowed between the braces of a name.

#![deny(warnings)]

use shedlock::scheduler_lock;

struct Tenant {
    id: u32,
    shards: Vec<String>,
    pair: (u8, u8),
}

impl Tenant {
    const KIND: &'static str = "tenant";

    fn id(&self) -> u32 {
        self.id
    }

    #[scheduler_lock(name = "{Self::KIND}-{self.id}-{self.pair.1}-{{{self.shards[0]}}}")]
    async fn fields(&self) {}

    #[scheduler_lock(name = "{self.id()}-{u32::MAX}-{std::process::id()}")]
    fn calls(self) {}
}

#[scheduler_lock(name = "{a}-{b:>04}-{c:?}-{Tenant::KIND}")]
async fn arguments(a: &str, mut b: u32, c: Option<char>, _: u8) {
    b += 1;
    let _ = b;
}

#[scheduler_lock(name = "{a:width$}-{a:.precision$}")]
async fn formats(a: &str, width: usize, precision: usize) {}

#[scheduler_lock(name = "{first}-{id}-{}", name = "unused")]
#[cfg(any())]
async fn not_compiled() {}

#[scheduler_lock(name = "{first}-{id}")]
async fn patterns((first, _second): (u8, u8), Tenant { id, .. }: Tenant) {
    let _ = id;
}

#[scheduler_lock(name = "taken-{tenant.id}")]
async fn argument_is_moved(tenant: Tenant) -> Option<Tenant> {
    Some(tenant)
}

fn main() {
    let _ = (Tenant::calls, Tenant::fields, arguments, formats, patterns, argument_is_moved);
}

use shedlock::scheduler_lock;

struct Tenant {
    id: u32,
}

#[scheduler_lock(name = "sync-{tenent.id}", lock_at_most_for = "10m")]
async fn misspelt_argument(tenant: Tenant) {
    let _ = tenant.id;
}

#[scheduler_lock(name = "sync-{tenant.name}", lock_at_most_for = "10m")]
async fn missing_field(tenant: Tenant) {
    let _ = tenant.id;
}

#[scheduler_lock(name = "sync-{tenant}", lock_at_most_for = "10m")]
async fn not_printable(tenant: Tenant) {
    let _ = tenant.id;
}

#[scheduler_lock(name = "sync-{self.id}", lock_at_most_for = "10m")]
async fn no_self() {}

#[scheduler_lock(name = "sync-{tenant.id:nonsense}", lock_at_most_for = "10m")]
async fn bad_specification(tenant: Tenant) {
    let _ = tenant.id;
}

fn main() {}

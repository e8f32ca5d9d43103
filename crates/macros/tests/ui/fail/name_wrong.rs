use shedlock::scheduler_lock;

#[scheduler_lock(name = "", lock_at_most_for = "10m")]
async fn empty() {}

#[scheduler_lock(name = "  ", lock_at_most_for = "10m")]
async fn blank() {}

#[scheduler_lock(name = "a\nb", lock_at_most_for = "10m")]
async fn control() {}

#[scheduler_lock(name = 5, lock_at_most_for = "10m")]
async fn number() {}

#[scheduler_lock(name = 5 + 5, lock_at_most_for = "10m")]
async fn computed_number() {}

#[scheduler_lock(name = "a-{", lock_at_most_for = "10m")]
async fn never_closed() {}

#[scheduler_lock(name = "a-}", lock_at_most_for = "10m")]
async fn closes_nothing() {}

#[scheduler_lock(name = "a-{}", lock_at_most_for = "10m")]
async fn nothing_inside() {}

#[scheduler_lock(name = "a-{a + 1}", lock_at_most_for = "10m")]
async fn operator_inside() {}

fn main() {}

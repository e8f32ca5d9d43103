//! A job that other programs call.

use shedlock::{Outcome, scheduler_lock};

/// Sends the invoices of the night, on one replica.
#[scheduler_lock(name = "invoices", lock_at_most_for = "1m")]
pub async fn invoices() -> Result<Outcome<u32>, shedlock::Error> {
    Ok(3)
}

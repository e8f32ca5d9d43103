//! The values of a call: durations as the table can hold them, names as long as it takes.

use std::time::{Duration, UNIX_EPOCH};

use shedlock_core::{LockName, Owner};
use shedlock_store::{Result, configuration, invalid};

use crate::call::SqlStore;
use crate::driver::Driver;
use crate::options::Options;
use crate::shape::Shape;
use crate::statement::Values;

impl<B: Driver> SqlStore<B> {
    pub(crate) fn values<'a>(&self, name: &'a LockName) -> Values<'a> {
        self.values_of(name, "", "")
    }

    /// With the owner, and its text once the lease is over.
    pub(crate) fn values_of<'a>(
        &self,
        name: &'a LockName,
        owner: &'a str,
        released: &'a str,
    ) -> Values<'a> {
        Values {
            name: name.as_str(),
            owner,
            released,
            now: self.now(),
            ..Values::default()
        }
    }

    /// The client's time, where it rules: in whole milliseconds, as ShedLock's clock has it.
    pub(crate) fn now(&self) -> i64 {
        if !self.options.time.is_client() {
            return 0;
        }
        let since = self.options.clock.system_time().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| floor_micros(since) / 1_000 * 1_000)
    }

    /// A duration in microseconds, rounded up to what the table can tell apart.
    pub(crate) fn micros(&self, what: &str, duration: Duration, shape: &Shape) -> Result<i64> {
        let longest = (B::DIALECT.longest_lease)(&self.options, shape);
        if duration > longest {
            return Err(invalid(format!(
                "{what} of {} s is longer than table {} can express: at most {} s from now",
                duration.as_secs(),
                self.options.table,
                longest.as_secs()
            )));
        }
        let micros = duration.as_nanos().div_ceil(1_000);
        let unit = u128::from(B::DIALECT.unit.unsigned_abs().max(1));
        Ok(i64::try_from(micros.div_ceil(unit) * unit).unwrap_or(i64::MAX))
    }
}

pub(crate) fn check_length(name: &LockName, shape: &Shape) -> Result<()> {
    let (characters, longest) = (name.as_str().chars().count(), shape.name.length);
    if characters <= longest {
        return Ok(());
    }
    Err(invalid(format!(
        "the name has {characters} characters and the table's column holds {longest}: shorten it, or \
         widen the column"
    )))
}

/// Some servers cut what is too long for its column: no lease would ever be found again.
pub(crate) fn check_owner(owner: &Owner, shape: &Shape, options: &Options) -> Result<()> {
    let (needed, longest) = (owner.released().chars().count(), shape.locked_by.length);
    if needed <= longest {
        return Ok(());
    }
    let (column, table) = (&options.columns.locked_by, &options.table);
    Err(configuration(format!(
        "the owner {:?} and its mark need {needed} characters and column {column} of table {table} \
         holds {longest}: widen the column to VARCHAR(255)",
        owner.as_str()
    )))
}

pub(crate) fn floor_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

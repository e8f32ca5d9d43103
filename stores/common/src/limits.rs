//! Limits of what every store can express.

use std::time::Duration;

use shedlock_core::LockName;

use crate::errors::{Result, invalid};

/// The longest duration that stores accept. Every store's calendar can represent an instant that far away, and every
/// script can count it in microseconds.
pub const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Refuses names of more than `longest` bytes as `InvalidInput`.
pub fn check_name_length(name: &LockName, longest: usize) -> Result<()> {
    let length = name.as_str().len();
    if length <= longest {
        return Ok(());
    }
    let what =
        format!("the lock's name has {length} bytes, but the store accepts at most {longest}");
    Err(invalid(what).advise("shorten it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_can_express_is_refused() {
        assert!(shedlock_core::check_longest("it", HUNDRED_YEARS).is_ok());
        assert!(
            shedlock_core::check_longest("it", HUNDRED_YEARS + Duration::from_nanos(1)).is_err()
        );
        let name = LockName::new("four").unwrap();
        assert!(check_name_length(&name, 4).is_ok());
        let error = check_name_length(&name, 3).unwrap_err();
        assert!(error.to_string().contains("4 bytes"), "{error}");
    }
}

//! Limits of what every store can express.

use shedlock_core::LockName;

use crate::errors::{Result, invalid};

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
    use std::time::Duration;

    use shedlock_core::{HUNDRED_YEARS, check_longest};

    use super::*;

    #[test]
    fn what_no_store_can_express_is_refused() {
        assert!(check_longest("it", HUNDRED_YEARS).is_ok());
        assert!(check_longest("it", HUNDRED_YEARS + Duration::from_nanos(1)).is_err());
        let name = LockName::new("four").unwrap();
        assert!(check_name_length(&name, 4).is_ok());
        let error = check_name_length(&name, 3).unwrap_err();
        assert!(error.to_string().contains("4 bytes"), "{error}");
    }
}

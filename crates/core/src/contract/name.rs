//! The name of a lock.

use std::fmt;
use std::sync::Arc;

use crate::contract::{Error, ErrorKind};

/// The name of a lock: any text that is not blank and contains no control characters.
///
/// Names are compared exactly, byte for byte. A store that cannot distinguish a name from another
/// one (too long for its column, not in its alphabet) refuses it with its own error. It never lets
/// two names share a record (law 10).
///
/// ```
/// use shedlock::LockName;
/// assert_eq!(LockName::new("payroll")?.as_str(), "payroll");
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("a\nb").is_err());
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

/// The name of the record with the identity of the store.
const OF_STORE: &str = "shedlock:identity";

impl LockName {
    /// Creates a name.
    ///
    /// # Errors
    /// `InvalidInput` for an empty or blank name, for one with control characters, and for the one that
    /// holds the [identity of the store](crate::store_identity).
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        check(name)?;
        Ok(Self(name.into()))
    }

    /// As `new`, for a text that is shared already.
    pub(crate) fn shared(name: Arc<str>) -> Result<Self, Error> {
        check(&name)?;
        Ok(Self(name))
    }

    /// Creates the name of a record that a provider was asked for elsewhere, which may be the one with the
    /// [identity of the store](crate::store_identity). For providers that pass names on as texts.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_record(name: impl AsRef<str>) -> Result<Self, Error> {
        match name.as_ref() == OF_STORE {
            true => Ok(Self::of_store()),
            false => Self::new(name),
        }
    }

    /// The name of the record with the identity of the store, which no lock can have.
    pub(crate) fn of_store() -> Self {
        Self(OF_STORE.into())
    }

    /// Returns whether it is that name.
    pub(crate) fn is_of_store(&self) -> bool {
        &*self.0 == OF_STORE
    }

    /// Returns the name as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(name: &str) -> Result<(), Error> {
    if name.trim().is_empty() {
        return Err(
            Error::new(ErrorKind::InvalidInput, "the lock's name is empty or blank")
                .advise("set one"),
        );
    }
    if name == OF_STORE {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("the lock name {name:?} is reserved for the identity of the store"),
        )
        .advise("choose another one"));
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("lock name {name:?} contains the control character {control:?}"),
        )
        .advise("remove it"));
    }
    Ok(())
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for LockName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

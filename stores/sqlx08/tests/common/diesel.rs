//! In place of diesel-async, which the kit of sqlx 0.9 tests too.

use std::sync::Arc;

use shedlock_conformance::{BoxError, LeftOpen, Provider, Work};
use shedlock_core::Clock;

const NO_DIESEL: &str = "diesel-async is tested with the kit of sqlx 0.9";

pub(crate) mod over_mysql {
    use super::*;

    pub(crate) fn with_clock(_: &str, _: Arc<dyn Clock>) -> Result<Provider, BoxError> {
        Err(NO_DIESEL.into())
    }

    pub(crate) async fn inside_rolled_back(_: &str, _: Work) -> Result<(), BoxError> {
        Err(NO_DIESEL.into())
    }

    pub(crate) fn left_open(_: &str, _: [&'static str; 2]) -> Result<LeftOpen, BoxError> {
        Err(NO_DIESEL.into())
    }

    pub(crate) fn by(_: &str, _: &str, _: [&'static str; 2]) -> Result<Provider, BoxError> {
        Err(NO_DIESEL.into())
    }
}

pub(crate) fn way(_: &str) -> Option<(String, &str)> {
    None
}

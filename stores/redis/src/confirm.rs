//! Replicas that confirm writes.

use std::time::Duration;

use redis::{Cmd, FromRedisValue as _, RedisError, Value, cmd};
use shedlock_core::{Error, ErrorKind};
use shedlock_provider::{Result, invalid, maybe};

/// The confirmation that is required after a lock was taken or extended, or a slot was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) replicas: u32,
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct Shortfall {
    message: String,
    source: Option<RedisError>,
}

/// The default time to wait for replicas.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// The longest time to wait. `WAIT` treats a timeout of zero as no limit.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl Confirmation {
    pub(crate) fn new(replicas: Option<u32>, timeout: Option<Duration>) -> Result<Option<Self>> {
        let replicas = match replicas {
            Some(replicas) => replicas,
            None if timeout.is_none() => return Ok(None),
            None => {
                return Err(invalid(
                    "wait_timeout needs wait_replicas, which is not set",
                ));
            }
        };
        let timeout = timeout.unwrap_or(WAIT);
        if replicas == 0 || timeout.is_zero() || timeout > LONGEST_WAIT {
            return Err(
                invalid(format!("cannot wait {timeout:?} for {replicas} replicas")).advise(
                    "set wait_replicas to at least 1, and wait_timeout above zero and up to 1h",
                ),
            );
        }
        Ok(Some(Self { replicas, timeout }))
    }

    pub(crate) fn command(&self) -> Cmd {
        let millis = self.timeout.as_nanos().div_ceil(1_000_000);
        let mut wait = cmd("WAIT");
        wait.arg(self.replicas).arg(millis.to_string());
        wait
    }

    pub(crate) fn shortfall(&self, answer: Value) -> Option<Shortfall> {
        let known = answer.extract_error();
        let (message, source) = match known.and_then(|known| Ok(u32::from_redis_value(known)?)) {
            Ok(known) if known >= self.replicas => return None,
            Ok(known) => {
                let Self { replicas, timeout } = self;
                let message =
                    format!("{known} of {replicas} replicas confirmed the call within {timeout:?}");
                (message, None)
            }
            Err(error) => {
                let message = "the server did not report whether its replicas got the call (the \
                    user needs the command WAIT too)";
                (message.to_owned(), Some(error))
            }
        };
        Some(Shortfall { message, source })
    }
}

impl Shortfall {
    /// The error for an attempt that was given back.
    pub(crate) fn taken_back(self) -> Error {
        self.error(ErrorKind::Unavailable, "the lock was released")
            .advise("check the replication")
            .retry_later()
    }

    /// The error for a call that took effect on the primary, but that too few replicas have confirmed.
    pub(crate) fn in_doubt(self) -> Error {
        self.error(ErrorKind::OutcomeUnknown, "a failover may undo the call")
            .retry()
    }

    fn error(self, kind: ErrorKind, what_follows: &str) -> Error {
        let error = Error::new(kind, format!("{}; {what_follows}", self.message));
        maybe(error, self.source, Error::with_source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_as_wanted_are_enough() {
        let wanted = Confirmation {
            replicas: 2,
            timeout: Duration::from_micros(1_500_100),
        };
        let command = wanted.command().get_packed_command();
        let command = String::from_utf8(command).unwrap();
        assert!(
            command.contains("WAIT") && command.contains("1501"),
            "{command}"
        );
        assert!(wanted.shortfall(Value::Int(2)).is_none());
        assert!(wanted.shortfall(Value::Int(3)).is_none());
        let error = wanted.shortfall(Value::Int(1)).unwrap().taken_back();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("1 of 2"), "{error}");
        let refused = wanted.shortfall(Value::Okay).unwrap().in_doubt();
        assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown);
    }
}

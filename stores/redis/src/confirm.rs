//! Replicas that confirm what was written.

use std::time::Duration;

use redis::{Cmd, FromRedisValue as _, RedisError, Value, cmd};
use shedlock_core::{Error, ErrorKind};

/// What is waited for after a lock was taken or extended, or a slot was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) replicas: u32,
    pub(crate) timeout: Duration,
}

/// Why a call is not confirmed.
#[derive(Debug)]
pub(crate) enum Shortfall {
    TooFew { known: u32, wanted: Confirmation },
    Refused(RedisError),
}

impl Confirmation {
    pub(crate) fn command(&self) -> Cmd {
        let millis = self.timeout.as_nanos().div_ceil(1_000_000);
        let mut wait = cmd("WAIT");
        wait.arg(self.replicas).arg(millis.to_string());
        wait
    }

    /// Judges the answer to the command.
    pub(crate) fn shortfall(&self, answer: Value) -> Option<Shortfall> {
        let known = answer.extract_error();
        match known.and_then(|known| Ok(u32::from_redis_value(known)?)) {
            Ok(known) if known >= self.replicas => None,
            Ok(known) => Some(Shortfall::TooFew {
                known,
                wanted: *self,
            }),
            Err(error) => Some(Shortfall::Refused(error)),
        }
    }
}

impl Shortfall {
    /// Of an attempt that was taken back.
    pub(crate) fn taken_back(self) -> Error {
        self.error(
            ErrorKind::Unavailable,
            "so the lock was given back: look at the replication, and retry later",
        )
    }

    /// Of a call that stands where it was sent to.
    pub(crate) fn in_doubt(self) -> Error {
        self.error(
            ErrorKind::Unknown,
            "so that a failover may undo the call: ask again with the same owner",
        )
    }

    fn error(self, kind: ErrorKind, what_follows: &str) -> Error {
        match self {
            Self::TooFew { known, wanted } => {
                let Confirmation { replicas, timeout } = wanted;
                Error::new(
                    kind,
                    format!(
                        "{known} of {replicas} replicas confirmed the call within {timeout:?}, \
                         {what_follows}"
                    ),
                )
            }
            Self::Refused(source) => Error::new(
                kind,
                format!(
                    "the server did not tell whether replicas have the call (WAIT; the user needs \
                     that command too), {what_follows}"
                ),
            )
            .with_source(source),
        }
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
        assert!(error.message().contains("1 of 2"), "{error}");
        let refused = wanted.shortfall(Value::Okay).unwrap().in_doubt();
        assert_eq!(refused.kind(), ErrorKind::Unknown);
    }
}

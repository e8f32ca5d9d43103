//! Parses and interprets the output of a process of ShedLock.

use serde::Deserialize;
use shedlock_conformance::BoxError;

use shedlock_proof::history::What;

/// The result of one call.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Line")]
pub(super) struct Answer {
    /// The lock, if it was granted or extended.
    pub(super) handle: Option<u64>,
    /// Whether ShedLock threw.
    pub(super) is_error: bool,
    /// Whether ShedLock hides a possible store failure: then a "no" proves nothing, and an unlock
    /// that was given up looks as if it had succeeded.
    is_doubtful: bool,
}

#[derive(Deserialize)]
struct Line {
    handle: Option<u64>,
    error: Option<String>,
    #[serde(default)]
    doubtful: bool,
}

impl From<Line> for Answer {
    fn from(line: Line) -> Self {
        Self {
            handle: line.handle,
            is_error: line.error.is_some(),
            is_doubtful: line.doubtful,
        }
    }
}

impl Answer {
    /// Parses a line of JSON.
    pub(super) fn read(line: &str) -> Result<Self, BoxError> {
        serde_json::from_str(line)
            .map_err(|error| format!("ShedLock answered {line:?}: {error}").into())
    }

    /// As the result of an attempt.
    pub(super) fn to_lock(&self) -> What {
        match self.handle {
            Some(_) => What::Acquired {
                token: None,
                acquired_at: None,
                locked_until: None,
            },
            None if self.may_have_failed() => What::Unknown,
            None => What::Skipped {
                locked: true,
                slot_taken: false,
                holder: None,
                until: None,
            },
        }
    }

    /// As the result of an extension.
    pub(super) fn to_extend(&self) -> What {
        match self.handle {
            Some(_) => What::Renewed { locked_until: None },
            None if self.may_have_failed() => What::CallFailed,
            None => What::RenewLost,
        }
    }

    /// As the result of an unlock.
    pub(super) fn to_unlock(&self) -> What {
        if self.may_have_failed() {
            What::CallFailed
        } else {
            What::Released
        }
    }

    fn may_have_failed(&self) -> bool {
        self.is_error || self.is_doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Answer {
        Answer::read(line).expect("an answer")
    }

    #[test]
    fn a_handle_is_a_lock_whatever_else_the_answer_holds() {
        for line in [
            r#"{"id":1,"handle":7}"#,
            r#"{"handle":7,"doubtful":true,"id":1}"#,
        ] {
            assert!(matches!(read(line).to_lock(), What::Acquired { .. }));
            assert!(matches!(read(line).to_extend(), What::Renewed { .. }));
            assert_eq!(read(line).handle, Some(7));
        }
    }

    #[test]
    fn an_empty_answer_is_a_skip_or_a_successful_unlock() {
        let answer = read(r#"{"id":2}"#);
        let locked = What::Skipped {
            locked: true,
            slot_taken: false,
            holder: None,
            until: None,
        };
        assert_eq!(answer.to_lock(), locked);
        assert_eq!(answer.to_extend(), What::RenewLost);
        assert_eq!(answer.to_unlock(), What::Released);
    }

    #[test]
    fn what_may_have_failed_is_unknown() {
        for line in [
            r#"{"error":"java.sql.SQLException: gone","id":3}"#,
            r#"{"doubtful":true,"id":3}"#,
        ] {
            assert_eq!(read(line).to_lock(), What::Unknown);
            assert_eq!(read(line).to_extend(), What::CallFailed);
            assert_eq!(read(line).to_unlock(), What::CallFailed);
        }
    }

    #[test]
    fn an_invalid_answer_is_reported() {
        let error = Answer::read("Exception in thread").expect_err("no JSON");
        assert!(error.to_string().contains("Exception in thread"));
    }
}

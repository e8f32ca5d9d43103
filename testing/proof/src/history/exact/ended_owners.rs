//! Locks that are held by owners that have ended.

use super::{Asked, Ending, Exact, Grant, SlotsSeen};
use crate::history::Earlier;

/// How much later than its timeout a copy may be granted, as in the runtime.
const SLACK: u64 = 100_000_000;

/// The law: a lock is held by no one who uses it.
const RETURNS: &str = "owner returns";

impl<'a> Exact<'a> {
    /// A client withdraws what it may have won.
    pub(super) fn withdraws(&mut self, owner: &str) {
        if let Some(asked) = self.owners.get_mut(owner) {
            asked.goes_astray();
            asked.withdrawn_at = Some(self.now);
            asked.is_last_withdrawal_sent |= self.now >= asked.bound();
        }
    }

    /// A withdrawal got its reply, which is final if it was sent after the bound.
    pub(super) fn withdrew(&mut self, name: &str, owner: &str) {
        let Some(asked) = self.owners.get_mut(owner) else {
            return;
        };
        if asked.withdrawn_at.is_none_or(|sent| sent < asked.bound()) {
            return;
        }
        asked.is_settled = true;
        let grant = self.locks.get(name).and_then(|lock| lock.grant.as_ref());
        let runs = grant.is_some_and(|grant| {
            grant.owner == owner && grant.ended.is_none() && grant.until > self.now
        });
        if runs && !self.is_excused(name, owner) {
            let what = format!("{name} is held by {owner}, whose attempt was finally withdrawn");
            self.findings.violated(RETURNS, &what);
        }
    }

    /// A record is deleted or reverts to an earlier one. The holder no longer has the lock, whatever
    /// reply it got; the holder in the earlier record has it again.
    pub(super) fn reverts(&mut self, name: &'a str, owner: &'a str, earlier: Option<&Earlier>) {
        let now = self.now;
        let lock = self.locks.entry(name).or_default();
        let before = lock.grant.as_ref().map(|grant| grant.owner);
        for owner in before.into_iter().chain(earlier.map(|_| owner)) {
            if let Some(asked) = self.owners.get_mut(owner) {
                asked.is_forced = true;
                asked.has_ended = true;
                asked.told_until = 0;
            }
        }
        lock.reverted = Some(now);
        lock.last_change = now;
        // If clients' clocks judge, the next token may be an earlier one again.
        if self.limits.skew > 0 {
            lock.token = None;
        }
        lock.slots = earlier.map_or_else(SlotsSeen::default, |earlier| SlotsSeen {
            last: earlier.slot,
            is_done: earlier.is_done,
            attempts: earlier.attempts,
        });
        let reverted = earlier.map(|earlier| Grant {
            owner,
            token: earlier.token,
            slot: None,
            at: now,
            from: earlier.from,
            until: earlier.until,
            ended: earlier.is_released.then_some(Ending::Forced),
            is_copy: false,
        });
        match (reverted, &mut lock.grant) {
            (Some(reverted), grant) => *grant = Some(reverted),
            (None, Some(grant)) => {
                grant.ended = Some(Ending::Forced);
                grant.until = now;
            }
            (None, None) => {}
        }
    }

    /// Checks the locks that are held at the end.
    pub(super) fn judge_end(&mut self) {
        let mut not_withdrawn: Vec<String> = self
            .owners
            .iter()
            .filter_map(|(owner, asked)| self.not_withdrawn(owner, asked))
            .collect();
        not_withdrawn.sort_unstable();
        for what in not_withdrawn {
            self.findings.violated("not withdrawn", &what);
        }
        let names: Vec<&str> = self.locks.keys().copied().collect();
        for name in names {
            if let Some((law, what)) = self.was_held_by_no_one(name) {
                self.findings.violated(law, &what);
            }
        }
    }

    /// Returns the violation if copies of this attempt may have won until a moment since which it was
    /// not withdrawn, although its process was running all the time.
    fn not_withdrawn(&self, owner: &str, asked: &Asked<'_>) -> Option<String> {
        let withdrawal = self.limits.withdrawal?;
        let bound = asked.strays_until?;
        let disturbed = self.disturbed.get(&asked.process).copied();
        let is_excused = disturbed >= Some(asked.first_sent)
            || self.now <= bound.saturating_add(SLACK + withdrawal)
            || asked.withdrawn_at >= Some(bound)
            // What held the lock until then needs none.
            || asked.has_won && asked.unlocked_at.is_none_or(|at| at >= bound);
        (!is_excused).then(|| {
            let sent = match asked.withdrawn_at {
                Some(sent) => format!("its last withdrawal was sent at {sent} ns"),
                None => "it was not withdrawn".to_owned(),
            };
            format!(
                "a copy of {owner} at {} could win until {bound} ns, and {sent}",
                asked.name
            )
        })
    }

    /// Whether the record of the lock was deleted or reverted since this owner's request. Then its
    /// versions are those of before, and withdrawals no longer hold.
    fn is_excused(&self, name: &str, owner: &str) -> bool {
        let reverted = self.locks.get(name).and_then(|lock| lock.reverted);
        let asked = self.owners.get(owner);
        asked.is_none_or(|asked| reverted >= Some(asked.first_sent))
    }

    /// Returns why this grant is a violation, if it goes to an owner that has ended and is past all
    /// bounds.
    pub(super) fn granted_to_no_one(
        &self,
        name: &str,
        grant: &Grant<'_>,
    ) -> Option<(&'static str, String)> {
        let owner = grant.owner;
        let asked = self.owners.get(owner)?;
        let before = self.locks.get(name).and_then(|lock| lock.grant.as_ref());
        let finds_its_mark =
            before.is_some_and(|before| before.owner == owner && before.ended.is_some());
        let is_excused = self.is_excused(name, owner);
        let is_late = self.now > asked.bound().saturating_add(SLACK);
        let why = if finds_its_mark && !is_excused {
            "found its own released mark"
        } else if asked.is_settled && !is_excused {
            "was finally withdrawn"
        } else if !self.limits.clients_write && is_late {
            "was sent longer ago than its timeout"
        } else {
            return None;
        };
        let what = format!("{name} was granted to {owner}, whose attempt {why}");
        Some((RETURNS, what))
    }

    /// Returns why the last lease is a violation, if an owner that had ended held it for too long:
    /// the last withdrawal was not even sent, although the owner's process was running all the time.
    pub(super) fn was_held_by_no_one(&self, name: &str) -> Option<(&'static str, String)> {
        let withdrawal = self.limits.withdrawal?;
        let grant = self.locks.get(name)?.grant.as_ref()?;
        let asked = self.owners.get(grant.owner)?;
        // The lock was unlocked and then won again by a copy of the attempt.
        let came_back = asked.unlocked_at.is_some_and(|at| grant.at > at);
        if asked.has_won && !came_back {
            return None;
        }
        let disturbed = self.disturbed.get(&asked.process).copied();
        let is_excused = grant.ended.is_some()
            || grant.is_copy
            || asked.is_last_withdrawal_sent
            || disturbed >= Some(asked.first_sent)
            || self.is_excused(name, grant.owner);
        let held = grant.until.min(self.now);
        let bound = asked.bound().saturating_add(SLACK + withdrawal);
        (!is_excused && held > bound).then(|| {
            let owner = grant.owner;
            let what = format!(
                "{name} was held by {owner}, {} ns past its bound",
                held - bound
            );
            (RETURNS, what)
        })
    }
}

//! The leases that the store granted, extended and ended.

use super::{Ending, Exact, Grant};

impl<'a> Exact<'a> {
    /// The store has granted a lock.
    pub(super) fn granted(&mut self, name: &'a str, grant: Grant<'a>) {
        let wrong = self
            .wrong_grant(name, &grant)
            .or_else(|| self.granted_to_no_one(name, &grant))
            .or_else(|| self.was_held_by_no_one(name))
            .or_else(|| self.wrong_length(name, &grant));
        if let Some((law, what)) = wrong {
            self.findings.violated(law, &what);
        }
        self.findings.acquisitions += 1;
        let now = self.now;
        let lock = self.locks.entry(name).or_default();
        lock.slots.take(grant.slot);
        lock.token = lock.token.max(grant.token);
        lock.grant = Some(grant);
        lock.last_change = now;
    }

    /// Why this grant is a violation, if it is one.
    fn wrong_grant(&self, name: &str, grant: &Grant<'_>) -> Option<(&'static str, String)> {
        let lock = self.locks.get(name)?;
        let before = lock.grant.as_ref()?;
        let (to, now) = (grant.owner, self.now);
        let says = |law, why: String| {
            Some((
                law,
                format!("{name} was granted to {to} at {now} ns: {why}"),
            ))
        };
        let late = self.now.saturating_add(self.limits.skew);
        let is_another = before.owner != grant.owner;
        if before.ended.is_none() && late < before.until && is_another {
            let why = format!(
                "the lease of {} runs until {} ns",
                before.owner, before.until
            );
            return says("overlap in the store", why);
        }
        if lock.token.is_some() && grant.token <= lock.token {
            let why = format!("token {:?} after {:?}", grant.token, lock.token);
            return says("token goes back", why);
        }
        let kept = self.owners.get(before.owner);
        let kept = before.from.saturating_add(kept.map_or(0, |it| it.at_least));
        let honours = matches!(before.ended, None | Some(Ending::Unlocked));
        if honours && is_another && late < kept {
            let why = format!("{} keeps it until {kept} ns", before.owner);
            return says("at-least", why);
        }
        let most = self.owners.get(grant.owner)?.slot_attempts;
        let (law, why) = lock.slots.wrong(grant.slot?, most)?;
        says(law, why)
    }

    /// Why the length of this lease is a violation, if it is one.
    fn wrong_length(&self, name: &str, grant: &Grant<'_>) -> Option<(&'static str, String)> {
        let asked = self.owners.get(grant.owner)?;
        // The holder counts from its request, the store from the grant at the latest.
        let earliest = asked.first_sent.saturating_add(asked.lease);
        let latest = self.now.saturating_add(asked.lease);
        let tolerated = self.limits.skew + self.limits.granularity;
        let (law, due) = if grant.until > latest.saturating_add(tolerated) {
            ("taken for too long", latest)
        } else if grant.until.saturating_add(self.limits.skew) < earliest {
            ("shortened", earliest)
        } else {
            return None;
        };
        let what = format!(
            "{name} was granted to {} until {} ns instead of {due} ns",
            grant.owner, grant.until
        );
        Some((law, what))
    }

    /// The store has extended a lease.
    pub(super) fn extended(&mut self, name: &str, owner: &str, until: u64) {
        if let Some((law, what)) = self.not_held_by(name, owner, false) {
            let law = law.unwrap_or("revived");
            let what = format!("an extension of {name} at {} ns: {what}", self.now);
            self.findings.violated(law, &what);
        }
        let told = self.owners.get(owner).map_or(0, |asked| asked.told_until);
        if until < told {
            let what = format!("{name} of {owner} ends at {until} ns, but {told} ns was reported");
            self.findings.violated("shortened", &what);
        }
        if let Some(lock) = self.locks.get_mut(name) {
            lock.last_change = self.now;
            if let Some(grant) = &mut lock.grant {
                grant.until = until;
            }
        }
    }

    /// The store has ended a lease; a lock kept by at-least becomes free at `free`.
    pub(super) fn ended(
        &mut self,
        name: &str,
        owner: &str,
        is_withdrawn: Option<bool>,
        is_done: bool,
        free: u64,
    ) {
        let asked = self.owners.get(owner);
        // A withdrawal ends an expired lease too. If nothing ran under a lease, it still holds its slot.
        let has_started = asked.is_none_or(|asked| asked.has_started);
        let includes_expired = is_withdrawn == Some(true) || !has_started;
        let ending = match (is_withdrawn, asked) {
            (Some(true), _) => Ending::Withdrawn,
            (Some(false), _) => Ending::Unlocked,
            (None, Some(asked)) if asked.unlocked_at.is_some() => Ending::Unlocked,
            (None, Some(asked)) if asked.withdrawn_at.is_some() => Ending::Withdrawn,
            (None, _) => Ending::Forced,
        };
        if let Some((law, what)) = self.not_held_by(name, owner, includes_expired) {
            let law = law.unwrap_or("unlocked too late");
            let what = format!("an unlock of {name} at {} ns: {what}", self.now);
            self.findings.violated(law, &what);
        }
        if let Some(asked) = self.owners.get_mut(owner) {
            asked.has_ended = true;
            asked.is_forced |= ending == Ending::Forced;
        }
        if let Some((law, what)) = self.wrong_end(name, owner, ending, free) {
            self.findings.violated(law, &what);
        }
        let Some(lock) = self.locks.get_mut(name) else {
            return;
        };
        lock.last_change = self.now;
        let Some(grant) = &mut lock.grant else { return };
        grant.ended = Some(ending);
        grant.until = free;
        if ending == Ending::Unlocked && is_done && grant.slot.is_some() {
            lock.slots.is_done = true;
        }
    }

    /// Why an unlock that makes the lock free at this moment is a violation, if it is one.
    fn wrong_end(
        &self,
        name: &str,
        owner: &str,
        ending: Ending,
        free: u64,
    ) -> Option<(&'static str, String)> {
        let grant = self.locks.get(name)?.grant.as_ref()?;
        if grant.owner != owner || ending != Ending::Unlocked {
            return None;
        }
        let asked = self.owners.get(owner)?;
        let kept = grant.from + asked.at_least;
        let latest = kept.max(self.now) + self.limits.skew + self.limits.granularity;
        // After a failed run an open slot waits for its next attempt.
        let (law, due) = if free > latest && asked.slot_attempts.is_none() {
            ("taken for too long", kept.max(self.now))
        } else if free.saturating_add(self.limits.skew) < kept {
            ("at-least", kept)
        } else {
            return None;
        };
        let what = format!("{owner} keeps {name} until {free} ns instead of {due} ns");
        Some((law, what))
    }

    /// The store has freed a lock for an operator, regardless of its holder and of what kept it.
    pub(super) fn forced(&mut self, name: &str) {
        let Some(lock) = self.locks.get_mut(name) else {
            return;
        };
        lock.last_change = self.now;
        let Some(grant) = &mut lock.grant else { return };
        grant.ended = Some(Ending::Forced);
        grant.until = self.now;
        if let Some(asked) = self.owners.get_mut(grant.owner) {
            asked.has_ended = true;
            asked.is_forced = true;
        }
    }

    /// Checks the holder and the end of the lease in the record.
    pub(super) fn compare(&mut self, name: &str, holder: &str, until: u64) {
        let grant = self.locks.get(name).and_then(|lock| lock.grant.as_ref());
        let Some(grant) = grant else { return };
        let runs = grant.ended.is_none() && grant.until > self.now;
        if runs && (grant.owner, grant.until) != (holder, until) {
            let what = format!(
                "the lease of {} on {name} until {} ns became one of {holder:?} until {until} ns",
                grant.owner, grant.until
            );
            self.findings.violated("not the owner", &what);
        }
    }

    /// Why this owner cannot change the lock; no law if only its own lease is over.
    fn not_held_by(
        &self,
        name: &str,
        owner: &str,
        includes_expired: bool,
    ) -> Option<(Option<&'static str>, String)> {
        let not_the_owner = |what| Some((Some("not the owner"), what));
        let Some(grant) = self.locks.get(name).and_then(|lock| lock.grant.as_ref()) else {
            return not_the_owner(format!("{owner} never had it"));
        };
        if grant.owner != owner {
            return not_the_owner(format!("{owner} changed a lock held by {}", grant.owner));
        }
        // A write that a client judged in time, or that a stopped process sends on resuming, may
        // arrive late: no one has had the lock since.
        let may_be_late = self.limits.clients_write || includes_expired;
        let is_over = grant.ended.is_some() || !may_be_late && grant.until <= self.now;
        is_over.then(|| (None, format!("the lease of {owner} was over")))
    }
}

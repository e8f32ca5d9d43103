//! What tasks did, and what their clients reported.

use super::Exact;

impl<'a> Exact<'a> {
    /// A task starts under the lock of this owner.
    pub(super) fn starts(&mut self, owner: &'a str) {
        let asked = self.owners.get_mut(owner);
        if asked.is_some_and(|asked| std::mem::replace(&mut asked.has_started, true)) {
            self.findings.violated("ran twice", owner);
        }
        self.works(owner);
    }

    /// The task does something that only the holder of the lock may do.
    pub(super) fn works(&mut self, owner: &'a str) {
        let Some(asked) = self.owners.get(owner).filter(|it| !it.is_forced) else {
            return;
        };
        let name = asked.name;
        let wrong = if asked.is_followed {
            Some(("overlap", "after another owner began"))
        } else if self.now > asked.over {
            Some(("outlived", "past its lease"))
        } else if asked.has_ended {
            Some(("outlived", "after its unlock"))
        } else {
            None
        };
        if let Some((law, why)) = wrong {
            let what = format!("{owner} continues with {name} {why}, at {} ns", self.now);
            self.findings.violated(law, &what);
        }
        let lock = self.locks.entry(name).or_default();
        let before = lock.worker.replace(owner).filter(|it| *it != owner);
        if let Some(before) = before.and_then(|before| self.owners.get_mut(before)) {
            before.is_followed = true;
        }
    }

    /// The holder was notified that its lock was given back.
    pub(super) fn was_released(&mut self, owner: &str) {
        let held = self.owners.get(owner).filter(|it| !it.has_ended);
        if let Some(asked) = held {
            let what = format!("{owner} still holds {}, at {} ns", asked.name, self.now);
            self.findings.violated("not given back", &what);
        }
    }
}

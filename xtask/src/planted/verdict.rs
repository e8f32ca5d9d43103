//! What became of each planted defect, and the record of it.

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// The file with the verdicts, beside the patches.
const FILE: &str = "verdicts.txt";

/// What became of a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A test failed, twice: the target and the names of what failed in it.
    Convicted(String),
    /// All tests that concern it passed.
    Acquitted,
    /// It was not judged, with the reason: it does not fit the code, or does not compile.
    Unfit(String),
}

/// The verdicts on all patches, by name.
#[derive(Default)]
pub(super) struct Record(BTreeMap<String, Verdict>);

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convicted(by) => write!(f, "convicted by {by}"),
            Self::Acquitted => f.write_str("acquitted"),
            Self::Unfit(why) => write!(f, "unfit: {why}"),
        }
    }
}

impl Record {
    /// Reads the record in this folder; empty if there is none.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join(FILE);
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&file);
        text.map(|text| Self::parse(&text))
            .with_context(|| format!("cannot read {}", file.display()))
    }

    fn parse(text: &str) -> Self {
        let verdict = |line: &str| {
            let (name, verdict) = line.split_once(": ")?;
            let verdict = match verdict.strip_prefix("convicted by ") {
                Some(by) => Verdict::Convicted(by.to_owned()),
                None => match verdict.strip_prefix("unfit: ") {
                    Some(why) => Verdict::Unfit(why.to_owned()),
                    None => Verdict::Acquitted,
                },
            };
            Some((name.to_owned(), verdict))
        };
        Self(text.lines().filter_map(verdict).collect())
    }

    /// Writes it into this folder.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let lines = self.0.iter();
        let text: String = lines
            .map(|(name, verdict)| format!("{name}: {verdict}\n"))
            .collect();
        fs::write(folder.join(FILE), text).context("the verdicts cannot be written")
    }

    /// The verdict on the patch of this name.
    pub(super) fn verdict(&self, name: &str) -> Option<&Verdict> {
        self.0.get(name)
    }

    /// The names of all patches with a verdict.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether the new verdict protects no less than the one on record.
    pub(super) fn permits(&self, name: &str, new: &Verdict) -> bool {
        let is_convicted = |verdict: &Verdict| matches!(verdict, Verdict::Convicted(_));
        is_convicted(new)
            || (*new == Verdict::Acquitted && !self.verdict(name).is_some_and(is_convicted))
    }

    /// Replaces the verdict on a patch.
    pub(super) fn set(&mut self, name: &str, verdict: Verdict) {
        self.0.insert(name.to_owned(), verdict);
    }

    /// How many were convicted, and the names of the others.
    pub(super) fn summary(&self) -> String {
        let convicted =
            |(_, verdict): &(&String, &Verdict)| matches!(verdict, Verdict::Convicted(_));
        let (yes, no): (Vec<_>, Vec<_>) = self.0.iter().partition(convicted);
        let others = no
            .iter()
            .map(|(name, verdict)| format!("\n  {name}: {verdict}"));
        format!(
            "{} of {} convicted{}",
            yes.len(),
            self.0.len(),
            others.collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convicted() -> Verdict {
        Verdict::Convicted("core lost: a, b".to_owned())
    }

    #[test]
    fn a_record_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::default();
        record.set("h01", convicted());
        record.set("h02", Verdict::Acquitted);
        record.set("h03", Verdict::Unfit("does not compile: E0308".to_owned()));
        record.write(folder.path()).unwrap();
        let read = Record::read(folder.path()).unwrap();
        assert_eq!(read.0, record.0);
        assert!(read.summary().starts_with("1 of 3 convicted"));
    }

    #[test]
    fn an_acquittal_is_permitted_only_if_it_was_one() {
        let mut record = Record::default();
        record.set("h01", convicted());
        record.set("h02", Verdict::Acquitted);
        assert!(!record.permits("h01", &Verdict::Acquitted));
        assert!(record.permits("h01", &convicted()));
        assert!(record.permits("h02", &Verdict::Acquitted));
        assert!(record.permits("h02", &convicted()));
        assert!(!record.permits("h02", &Verdict::Unfit(String::new())));
        assert!(record.permits("new", &Verdict::Acquitted));
    }
}

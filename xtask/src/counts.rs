//! The results that test programs print at their ends.

/// How many lines are kept of a program that fails in a thousand places.
const LINES_KEPT: usize = 400;

/// How many lines are kept of a program that was aborted.
const LAST: usize = 15;

/// How many of the longest targets are listed.
const LISTED: usize = 15;

/// Tests as their harness counts them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Cases of the kit that variants of harnesses do not run.
    pub(crate) left_out: u64,
    failures: Vec<String>,
    in_failures: bool,
    /// The targets that failed or broke off.
    failed_in: Vec<String>,
    /// The target whose tests are running, in the words of cargo or of our runner.
    target: String,
    /// The targets that have ended, and their seconds.
    times: Vec<(f64, String)>,
}

impl Counts {
    /// Adds a line that a test program has printed. A line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`
    /// is counted, and the lines between `failures:` and it are kept.
    pub(crate) fn add(&mut self, line: &str) {
        let line = line.trim_end();
        if line == "failures:" && !self.in_failures {
            self.in_failures = true;
            self.failures.push(format!("{}:", self.target));
        }
        if self.in_failures && self.failures.len() < LINES_KEPT {
            self.failures.push(line.to_owned());
        }
        if let Some(title) = running(line) {
            title.clone_into(&mut self.target);
        }
        if let Some((count, _)) = line.split_once(" cases left out on variants ") {
            self.left_out += count.parse().unwrap_or(0);
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        self.in_failures = false;
        if result.starts_with("FAILED") {
            self.failed_in.push(self.target.clone());
        }
        let seconds = result.rsplit_once("finished in ");
        let seconds = seconds.and_then(|(_, rest)| rest.strip_suffix('s')?.parse().ok());
        if let Some(seconds) = seconds {
            self.times.push((seconds, self.target.clone()));
        }
        let count = |word: &str| {
            let before = result
                .split(word)
                .next()
                .filter(|before| before.len() < result.len())?;
            before.trim_end().rsplit(' ').next()?.parse::<u64>().ok()
        };
        self.passed += count("passed").unwrap_or_default();
        self.failed += count("failed").unwrap_or_default();
        self.ignored += count("ignored").unwrap_or_default();
    }

    /// Adds all output of one test program. If it failed without counting a failure, it was aborted, and its last lines
    /// are kept.
    pub(crate) fn add_all(&mut self, printed: &str, title: &str, passed: bool) {
        let (before, kept) = (self.failed, self.failures.len());
        for line in printed.lines() {
            self.add(line);
        }
        self.in_failures = false;
        if !passed && (self.failed == before || self.failures.len() == kept) {
            self.failures.push(format!("{title} broke off:"));
            self.failed_in.push(title.to_owned());
            let lines: Vec<_> = printed.lines().collect();
            let last = lines.iter().skip(lines.len().saturating_sub(LAST));
            self.failures.extend(last.map(|line| (*line).to_owned()));
        }
    }

    /// The targets that failed or broke off, in one line.
    pub(crate) fn failed_in(&self) -> String {
        self.failed_in.join(", ")
    }

    /// A table of the longest targets.
    pub(crate) fn longest(&self) -> String {
        let mut times = self.times.clone();
        times.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let all: f64 = times.iter().map(|(seconds, _)| seconds).sum();
        let title = format!(
            "{all:7.1} s  {} targets, of which the longest are\n",
            times.len()
        );
        let lines = times.iter().take(LISTED);
        let lines = lines.map(|(seconds, target)| format!("{seconds:7.1} s  {target}\n"));
        [title].into_iter().chain(lines).collect()
    }

    /// The output of the failed tests, line by line. Empty if none has failed.
    pub(crate) fn failures(&self) -> String {
        self.failures
            .iter()
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

/// The target whose tests the next lines are about, if this line says so.
fn running(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let named = line.strip_prefix("Running ");
    let named = named.and_then(|rest| rest.split_once("/deps/"));
    // The name of the executable ends with a hash.
    let named = named.and_then(|(_, file)| Some(file.rsplit_once('-')?.0));
    let named = named.or_else(|| line.strip_prefix("Doc-tests "));
    named.or_else(|| {
        line.strip_prefix("--- ")?
            .split_once(": ")
            .map(|(title, _)| title)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_over_test_programs() {
        let mut counts = Counts::default();
        counts.add("running 4 tests");
        counts.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        counts.add("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; finished");
        let Counts {
            passed,
            failed,
            ignored,
            ..
        } = counts;
        assert_eq!((passed, failed, ignored), (8, 2, 1));
    }

    #[test]
    fn the_longest_targets_come_first() {
        let mut counts = Counts::default();
        for line in [
            "     Running unittests src/lib.rs (/t/debug/deps/shedlock_sql-0f)",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; finished in 0.20s",
            "   Doc-tests shedlock_core",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; finished in 7.00s",
            "--- shedlock-nats conformance: exit status: 0, 3.1 s",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; finished in 3.00s",
        ] {
            counts.add(line);
        }
        let told = "   10.2 s  3 targets, of which the longest are\n    7.0 s  shedlock_core\n    \
                    3.0 s  shedlock-nats conformance\n    0.2 s  shedlock_sql\n";
        assert_eq!(counts.longest(), told);
    }

    #[test]
    fn cases_that_are_left_out_add_up() {
        let mut counts = Counts::default();
        for line in [
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "",
            "1089 cases left out on variants (9): SHEDLOCK_TEST_FULL=1 runs them",
            "441 cases left out on variants (3): SHEDLOCK_TEST_FULL=1 runs them",
        ] {
            counts.add(line);
        }
        assert_eq!((counts.passed, counts.left_out), (3, 1530));
    }

    #[test]
    fn a_program_that_breaks_off_is_among_the_failures() {
        let mut counts = Counts::default();
        counts.add_all("test one ... ok\nthread panicked\n", "core lost.rs", false);
        counts.add_all("test two ... ok\n", "core late.rs", true);
        let told = counts.failures();
        assert!(told.contains("core lost.rs broke off"), "{told}");
        assert!(told.contains("thread panicked"), "{told}");
        assert!(!told.contains("two"), "{told}");
    }

    #[test]
    fn the_output_of_failed_tests_is_kept() {
        let mut counts = Counts::default();
        for line in [
            "     Running tests/zookeeper/main.rs (/t/debug/deps/zookeeper-0f)",
            "test one ... ok",
            "test two ... FAILED",
            "failures:",
            "---- two stdout ----",
            "left: 1",
            "failures:",
            "    two",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; finished",
            "test three ... ok",
        ] {
            counts.add(&format!("{line}\n"));
        }
        let told = counts.failures();
        assert!(told.starts_with("zookeeper:\n"), "{told}");
        assert!(told.contains("left: 1"), "{told}");
        assert_eq!(counts.failed_in(), "zookeeper");
        assert!(!told.contains("one") && !told.contains("three"), "{told}");
    }
}

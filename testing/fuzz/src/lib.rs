//! Runs functions that read untrusted input over corpora and over random mutations of them.
//!
//! A *target* is a function `fn(&[u8])` that panics if a promise is broken. It is in the module
//! `fuzz` of the crate that reads the bytes. [`tests!`] creates a test of each target, for
//! `cargo test` and for `cargo xtask fuzz`. With `--guided`, `cargo xtask fuzz` passes the same
//! functions to libFuzzer. The stored cases are files in `tests/corpus/<target>/` of that crate.
//!
//! | variable | meaning |
//! |---|---|
//! | `SHEDLOCK_FUZZ_SECONDS` | how long each target runs; by default, a fixed number of iterations |
//! | `SHEDLOCK_FUZZ_SEED` | repeats the random choices of an earlier run; by default, always the same seed |

mod case;
mod corpus;
mod mutator;
mod patience;

use std::path::Path;

use case::Case;
use corpus::Corpus;
use mutator::Mutator;
use patience::Patience;
use shedlock_proof::SeededRng;

/// How often a target runs if `SHEDLOCK_FUZZ_SECONDS` is not set.
const RUNS: u64 = 3_000;

/// Creates a test of each target, which is a function in the enclosing module.
///
/// ```
/// pub mod fuzz {
///     pub fn number(data: &[u8]) {
///         if let Ok(number) = String::from_utf8_lossy(data).parse::<u8>() {
///             assert_eq!(number.to_string().parse(), Ok(number));
///         }
///     }
///
///     #[cfg(test)]
///     shedlock_fuzz::tests!(number);
/// }
/// ```
#[macro_export]
macro_rules! tests {
    ($($target:ident),+ $(,)?) => {
        mod tests {
            $(
                #[test]
                fn $target() {
                    $crate::check(env!("CARGO_MANIFEST_DIR"), stringify!($target), super::$target);
                }
            )+
        }
    };
}

/// Runs a target with each file of its corpus, and then with random mutations of them.
///
/// The smallest input found that breaks a promise is written to the corpus.
///
/// # Panics
/// If the target panics, with its message and the input; and if there is no corpus.
pub fn check(package: &str, name: &str, target: fn(&[u8])) {
    let corpus = Corpus::read(&Path::new(package).join("tests/corpus").join(name));
    let patience = Patience::new(name);
    for (file, bytes) in &corpus.cases {
        patience.begins(bytes);
        if let Err(said) = Case::of(target, bytes) {
            panic!("{}: {said}\nwith {}", file.display(), bytes.escape_ascii());
        }
    }
    // Always the same by default: a test run fails because of a change, never because of the date.
    let mut rng = SeededRng::of_variable("SHEDLOCK_FUZZ_SEED", || 1);
    let seed = rng.seed();
    let mut mutator = Mutator::new(&corpus);
    let mut runs = 0;
    while patience.goes_on(runs, RUNS) {
        let bytes = mutator.next(&mut rng);
        patience.begins(&bytes);
        runs += 1;
        if Case::of(target, &bytes).is_err() {
            let (bytes, said) = Case::smallest(target, bytes, |bytes| patience.begins(bytes));
            let kept = corpus.keep(&bytes);
            panic!(
                "{name}: {said}\nwith {}\nkept as {kept} (run {runs} of seed {seed})",
                bytes.escape_ascii()
            );
        }
    }
    tell(&format!(
        "fuzz {name}: {runs} runs and {} of the corpus, seed {seed}",
        corpus.cases.len()
    ));
}

#[expect(
    clippy::print_stdout,
    reason = "the test harness shows it where it is asked for"
)]
fn tell(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn hates_an_ugly_word(data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        assert!(!text.contains("foo-bar"), "an ugly word");
    }

    #[test]
    fn a_failing_input_is_found_minimized_and_kept() {
        let package = std::env::temp_dir().join(format!("shedlock-fuzz-{}", std::process::id()));
        let folder = package.join("tests/corpus/words");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a"), "one foo-two").unwrap();
        fs::write(folder.join("b"), "three-bar four").unwrap();
        let path = package.to_str().unwrap().to_owned();
        let found = std::panic::catch_unwind(|| check(&path, "words", hates_an_ugly_word));
        let said = *found.unwrap_err().downcast::<String>().unwrap();
        assert!(said.contains("an ugly word\nwith foo-bar\n"), "{said}");
        // From now on the case is replayed.
        let again = std::panic::catch_unwind(|| check(&path, "words", hates_an_ugly_word));
        let said = *again.unwrap_err().downcast::<String>().unwrap();
        assert!(said.contains("found-"), "{said}");
        fs::remove_dir_all(package).unwrap();
    }

    #[test]
    fn a_target_without_a_corpus_is_an_error() {
        let said = std::panic::catch_unwind(|| check("/nowhere", "x", drop_it)).unwrap_err();
        let said = *said.downcast::<String>().unwrap();
        assert!(said.contains("/nowhere/tests/corpus/x"), "{said}");
    }

    fn drop_it(_: &[u8]) {}
}

//! The shape of the product's code: no long files or functions without a reason, and no name in the slowest crate that
//! nothing uses.

use std::collections::BTreeSet;
use std::fs;

use crate::host;
use crate::messages::{Source, sources};
use crate::steps::workspace_root;

/// The most lines of a file, without its tests.
const LONGEST_FILE: usize = 500;

/// The most lines of a function.
const LONGEST_FUNCTION: usize = 60;

/// How the first line of a long file or function begins, before the reason.
const REASON: &str = "// Long: ";

/// Names of core that are only for programs, which are not in this repository, and for its own tests.
const FOR_PROGRAMS: [&str; 20] = [
    "Cancel",
    "MAX_LEN",
    "MayHaveTakenEffect",
    "NeverHeld",
    "NoRuntime",
    "NothingWritten",
    "TestLock",
    "current_provider",
    "expected_owner",
    "has_come",
    "hold_blocking",
    "is_pause",
    "is_without_shedlock",
    "locked_blocking",
    "on_lost",
    "slots_asked_for",
    "slow_from",
    "slow_run",
    "try_execute_blocking",
    "unless_earlier",
];

/// A function or a file, and its lines.
type Long = (String, usize);

/// The code before the tests.
fn code(text: &str) -> Vec<&str> {
    let is_tests = |line: &&str| line.starts_with("mod ") && line.contains("tests {");
    text.lines().take_while(|line| !is_tests(line)).collect()
}

/// The name of a function that begins on this line, and its indentation.
fn function(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let indent = &line[..line.len() - code.len()];
    let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
    let code = code.strip_prefix("pub(super) ").unwrap_or(code);
    let mut words = code.split(' ').skip_while(|word| {
        let before = ["pub", "async", "const", "unsafe"];
        before.contains(word)
    });
    let name = (words.next() == Some("fn")).then(|| words.next())??;
    Some((indent, name.split(['(', '<']).next()?))
}

/// The functions that are too long, without a reason.
fn long_functions(source: &Source) -> Vec<Long> {
    let lines = code(&source.text);
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((indent, name)) = function(line) else {
            continue;
        };
        let is_end = |line: &&str| line.strip_prefix(indent).is_some_and(|it| it == "}");
        let is_declaration = |line: &&str| line.starts_with(indent) && line.ends_with(");");
        let rest = &lines[at..];
        let length = rest.iter().position(is_end).unwrap_or(0) + 1;
        let has_body = rest[..length].iter().any(|line| line.ends_with('{'));
        let is_declared = rest[..length].iter().take(2).any(is_declaration);
        let has_reason = rest[..length]
            .iter()
            .any(|it| it.trim_start().starts_with(REASON));
        if length > LONGEST_FUNCTION && has_body && !is_declared && !has_reason {
            long.push((format!("{} {name}", source.file), length));
        }
    }
    long
}

#[test]
fn nothing_is_long_without_a_reason() {
    let mut long = Vec::new();
    for source in sources().unwrap() {
        let lines = code(&source.text).len();
        if lines > LONGEST_FILE && !source.text.starts_with(REASON) {
            long.push((source.file.clone(), lines));
        }
        long.extend(long_functions(&source));
    }
    assert!(
        long.is_empty(),
        "split these, or say why not on the first line (\"{REASON}…\"): {long:#?}"
    );
}

#[test]
fn a_long_function_is_found() {
    let lines = "    let it = 1;\n".repeat(LONGEST_FUNCTION);
    let source = |first: &str| Source {
        package: String::new(),
        path: String::new(),
        file: "a.rs".to_owned(),
        text: format!(
            "impl A {{\n    pub(crate) async fn long<T>(&self) {{\n{first}{lines}    }}\n}}\n"
        ),
    };
    assert_eq!(long_functions(&source("")), [("a.rs long".to_owned(), 62)]);
    assert_eq!(long_functions(&source("        // Long: a table.\n")), []);
}

/// The public names in the list of a crate's API.
fn names(api: &str) -> BTreeSet<&str> {
    let paths = api.lines().filter_map(|line| {
        let declared = line.strip_prefix("pub ")?;
        declared
            .split(' ')
            .find(|word| word.starts_with("shedlock_core::"))
    });
    let names = paths.filter_map(|path| {
        let path = path.split(['(', '<']).next()?;
        path.trim_end_matches([':', '!']).rsplit("::").next()
    });
    names.collect()
}

/// Core is the crate that changes slowest: what nothing outside uses need not be public.
#[test]
fn each_name_of_core_has_a_user() {
    let root = workspace_root();
    let api = fs::read_to_string(root.join("crates/core/api.txt")).unwrap();
    let mut list = std::process::Command::new("git");
    list.current_dir(&root).args(["ls-files", "*.rs"]);
    let list = host::output(&mut list).unwrap();
    let of_others = list.lines().filter(|file| {
        // The facade only passes names on, and this file lists them.
        let is_list = ["crates/shedlock/src/lib.rs", file!()].contains(file);
        !file.starts_with("crates/core/") && !is_list
    });
    let texts: Vec<_> = of_others
        .filter_map(|file| fs::read_to_string(root.join(file)).ok())
        .collect();
    let is_word = |it: char| it == '_' || it.is_alphanumeric();
    let used: BTreeSet<&str> = texts
        .iter()
        .flat_map(|it| it.split(|c| !is_word(c)))
        .collect();
    let unused: Vec<_> = names(&api)
        .into_iter()
        .filter(|name| !used.contains(name))
        .collect();
    assert_eq!(
        unused, FOR_PROGRAMS,
        "make it private, or list it with the reason"
    );
}

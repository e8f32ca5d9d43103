//! The words that CONTRIBUTING rules out appear nowhere else.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use shedlock_documentation::root;

/// Files that may contain a word, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "CHANGELOG.md",
    "ErrorKind::Unknown",
    "tells users what it was renamed to",
)];

/// The glossary, and this test of it.
const OURS: [&str; 2] = ["CONTRIBUTING.md", "testing/documentation/tests/words.rs"];

/// The ends of the names of generated files.
const GENERATED: [&str; 4] = [".lock", ".svg", ".png", ".seed"];

/// The words in code font in the second column of the glossary.
fn ruled_out() -> Vec<String> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, section) = text.split_once("\n## Words\n").unwrap();
    let mut words = Vec::new();
    let mut column = 0;
    let mut is_in_body = false;
    for event in Parser::new_ext(section, Options::ENABLE_TABLES) {
        match event {
            Event::End(TagEnd::TableHead) => is_in_body = true,
            Event::Start(Tag::TableRow) => column = 0,
            Event::End(TagEnd::TableCell) => column += 1,
            Event::Code(word) if is_in_body && column == 1 => words.push(word.into_string()),
            _ => {}
        }
    }
    words
}

/// All files that git keeps, or would keep.
fn files() -> Vec<String> {
    let mut list = Command::new("git");
    list.current_dir(root());
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = String::from_utf8(list.output().unwrap().stdout).unwrap();
    listed.lines().map(str::to_owned).collect()
}

/// Whether a line contains these words. Underscores separate words, and so do line breaks elsewhere.
fn contains(line: &str, words: &str) -> bool {
    let is_name = words.starts_with(char::is_uppercase);
    let (line, words) = if is_name {
        (line.to_owned(), words.to_owned())
    } else {
        (line.replace('_', " ").to_lowercase(), words.to_lowercase())
    };
    let is_part = |letter: char| letter.is_alphanumeric();
    line.match_indices(&words).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + words.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn no_file_contains_a_word_that_is_ruled_out() {
    let words = ruled_out();
    assert!(words.len() > 20, "{words:?}");
    let mut found = Vec::new();
    for file in files() {
        let is_generated = GENERATED.iter().any(|end| file.ends_with(end));
        if OURS.contains(&&*file) || is_generated {
            continue;
        }
        // Not a text, or deleted and not committed yet.
        let Ok(text) = fs::read_to_string(root().join(&file)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| contains(line, word)) {
                if EXCEPTIONS
                    .iter()
                    .any(|(path, of, _)| *path == file && of == word)
                {
                    continue;
                }
                found.push(format!("{file}:{}: {word:?}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "see CONTRIBUTING, \"Words\":\n{}",
        found.join("\n")
    );
}

#[test]
fn a_word_is_found_in_text_and_in_names_but_not_inside_another_word() {
    assert!(contains("// Nobody waits", "nobody"));
    assert!(contains("fn nobody_waits() {", "nobody"));
    assert!(contains("one that is_told", "is told"));
    assert!(contains("let troop = Troop::start();", "Troop"));
    assert!(!contains("a troop of processes", "Troop"));
    assert!(!contains("we recommend it", "mend"));
    assert!(!contains("this told", "is told"));
}

/// What an error has as values, and only `Error` prints.
const PRINTED: [&str; 4] = [
    "nothing was written",
    "may have taken effect",
    "then retry",
    "; retry",
];

#[test]
fn effects_and_retries_are_no_part_of_a_text() {
    let is_of_product = |file: &&String| {
        let parts: Vec<&str> = file.split('/').collect();
        matches!(parts[..], ["crates" | "stores", name, "src", ..] if name != "conformance")
            && file.ends_with(".rs")
            && **file != "crates/core/src/contract/error/text.rs"
    };
    let mut found = Vec::new();
    for file in files().iter().filter(is_of_product) {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            if is_code && PRINTED.iter().any(|words| line.contains(words)) {
                found.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "see `Error`:\n{}", found.join("\n"));
}

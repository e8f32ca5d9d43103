//! `cargo xtask messages`: everything that the product tells its users, in `docs/messages.md`, so that a reviewer can read
//! the messages beside each other and a changed one shows in a diff.

mod forms;
mod index;
mod text;
mod walk;

use crate::sqlx08;
use crate::steps::{self, Outcome};
use anyhow::{Context as _, ensure};
use forms::Message;
use index::Index;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitCode};

const FILE: &str = "docs/messages.md";

const HEAD: &str = "\
# Messages

Made by `cargo xtask messages` from the sources, for whoever reviews the words. A message has the parts of an
[`Error`](decisions/0088-an-error-is-made-of-parts.md), each in its column:

- *what* failed. `{name}` is a value, and `…` is a part that the sources do not have as a text.
- *kind*: of an `Error`, the exit code of the command's own failures, the level and the check of a finding of `doctor`, or
  the level of a log line. `Told` is a constant of a store whose kind depends on the call.
- *effect*: what has become of the call.
- *advice*: what to do. `{Migrate}` is an operation, which the section of `shedlock-core` has in words.

A row that has only `…` as its *what* adds its advice to errors made elsewhere.
";

/// The folders that hold no part of the product, or a copy: the kit is for authors of providers, and the macros report to
/// rustc.
const NOT_READ: [&str; 3] = ["crates/conformance", "crates/macros", sqlx08::FOLDER];

/// Arguments of `cargo xtask messages`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with the file instead of writing it.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.check {
        return Ok(match check()? {
            Outcome::Passed => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        });
    }
    let listed = listed(sources()?)?;
    fs::write(steps::workspace_root().join(FILE), page(&listed))
        .with_context(|| format!("cannot write {FILE}"))?;
    print!("{}", counted(&listed));
    Ok(ExitCode::SUCCESS)
}

/// Fails if the file is not what the sources say.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let kept = fs::read_to_string(steps::workspace_root().join(FILE)).unwrap_or_default();
    let differences = steps::differences(&kept, &page(&listed(sources()?)?));
    if differences.is_empty() {
        return Ok(Outcome::Passed);
    }
    println!("{FILE}:\n{differences}");
    let why = format!("{FILE} is out of date: run `cargo xtask messages`, and read what changed");
    println!("{why}");
    Ok(Outcome::Failed(why))
}

/// A source file of the product.
pub(crate) struct Source {
    pub(crate) package: String,
    /// Inside the package's `src`.
    pub(crate) path: String,
    /// Inside the workspace.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// All files that git keeps, or would keep, in the sources of the product.
pub(crate) fn sources() -> anyhow::Result<Vec<Source>> {
    let root = steps::workspace_root();
    let mut list = Command::new("git");
    list.current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    list.args(["crates/*/src/*.rs", "stores/*/src/*.rs"]);
    let list = crate::host::output(&mut list)?;
    let mut sources = Vec::new();
    for file in list.lines() {
        let Some((package, path)) = file.split_once("/src/") else {
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        if NOT_READ.contains(&package) || ["tests.rs", "fuzz.rs"].contains(&name) {
            continue;
        }
        // A file that is deleted and not committed yet.
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        let [package, path, file] = [package, path, file].map(str::to_owned);
        sources.push(Source {
            package,
            path,
            file,
            text,
        });
    }
    ensure!(!sources.is_empty(), "git lists no sources");
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(sources)
}

/// The messages of each package, in the order of its files.
type Listed = BTreeMap<String, Vec<(String, Message)>>;

fn listed(sources: Vec<Source>) -> anyhow::Result<Listed> {
    let mut parsed = Vec::new();
    for source in sources {
        let file = syn::parse_file(&source.text);
        let file = file.with_context(|| format!("cannot parse {}", source.file))?;
        parsed.push((file, source));
    }
    let index = Index::of(&parsed);
    let mut listed = Listed::new();
    for (file, source) in parsed.iter().filter(|(_, it)| !index.is_test(&it.file)) {
        let rows = listed.entry(source.package.clone()).or_default();
        let messages = walk::messages(&index, source, file).into_iter();
        rows.extend(messages.map(|message| (source.path.clone(), message)));
    }
    listed.retain(|_, rows| !rows.is_empty());
    Ok(listed)
}

fn page(listed: &Listed) -> String {
    let mut page = HEAD.to_owned();
    for (package, rows) in listed {
        page += &format!(
            "\n## {package}\n\n| file | what | kind | effect | advice |\n|---|---|---|---|---|\n"
        );
        for (path, message) in rows {
            let Message {
                what,
                kind,
                effect,
                advice,
                ..
            } = message;
            let advice = advice.join("; ");
            let cells = [path, what, kind, effect, &advice].map(|cell| escaped(cell));
            page += &format!("| {} |\n", cells.join(" | ")).replace("|  ", "| ");
        }
    }
    page
}

/// A text as a cell of a table, in which it stands for itself.
fn escaped(text: &str) -> String {
    let mut cell = String::new();
    for word in text.split_whitespace() {
        if !cell.is_empty() {
            cell.push(' ');
        }
        for letter in word.chars() {
            if "|<*\\".contains(letter) {
                cell.push('\\');
            }
            cell.push(letter);
        }
    }
    cell
}

/// How many there are, for a person who has just written the page.
fn counted(listed: &Listed) -> String {
    let rows = || listed.values().flatten().map(|(_, message)| message);
    let mut without = BTreeMap::<&str, usize>::new();
    for message in rows().filter(|message| message.is_error() && message.advice.is_empty()) {
        *without.entry(&message.kind).or_default() += 1;
    }
    let unseen = rows().filter(|message| message.what == "…").count();
    let mut counted = format!(
        "{} messages, {unseen} without a text of their own\n",
        rows().count()
    );
    for (kind, count) in without {
        counted += &format!("{count} {kind} without advice\n");
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_that_of_the_sources() {
        assert_eq!(check().unwrap(), Outcome::Passed);
    }

    #[test]
    fn every_form_of_a_message_is_read() {
        let source = |path: &str, text: &str| Source {
            package: "stores/a".to_owned(),
            path: path.to_owned(),
            file: format!("stores/a/src/{path}"),
            text: text.to_owned(),
        };
        let page = page(
            &listed(vec![
                source("forms.rs", include_str!("messages/forms.txt")),
                source("forms/only.rs", "fn f() { invalid(\"a test\"); }"),
            ])
            .unwrap(),
        );
        let (_, rows) = page.split_once("|---|---|---|---|---|\n").unwrap();
        let rows = rows.replace("forms.rs | ", "");
        assert_eq!(rows, include_str!("messages/forms.md"));
    }

    #[test]
    fn a_text_stands_for_itself_in_a_table() {
        assert_eq!(escaped("a|b\n  <c>"), "a\\|b \\<c>");
    }
}

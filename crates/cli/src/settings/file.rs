//! Reads the file: TOML, with the line of each key.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Candidate, Entry, Scalar, Section};

/// The text of the file. `None` if it does not exist and does not have to.
pub(super) fn read(candidate: &Candidate) -> Result<Option<String>, String> {
    let Candidate {
        path,
        from,
        is_named,
    } = candidate;
    if path.as_os_str().is_empty() {
        return Err(format!(
            "{from} is set but empty: set it to a file, or to /dev/null for no settings"
        ));
    }
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if !is_named && is_absent(path, error.kind()) => Ok(None),
        Err(error) => {
            let path = path.display();
            let advice = match is_named {
                true => "",
                false => "; to do without it, set SHEDLOCK_CONFIG=/dev/null",
            };
            Err(format!("{from}: cannot read {path}: {error}{advice}"))
        }
    }
}

/// Whether there is no such file for this user: none, or in a folder that this user may not enter.
fn is_absent(path: &Path, error: ErrorKind) -> bool {
    let is_hidden = || fs::metadata(path).is_err_and(|it| it.kind() == ErrorKind::PermissionDenied);
    match error {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => is_hidden(),
        _ => false,
    }
}

/// All sections, keys and values. No error quotes the text, which may contain a password.
pub(super) fn entries(path: &Path, text: &str) -> Result<(Vec<Section>, Vec<Entry>), String> {
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let path = path.display();
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let at = text.lines().nth(line - 1).unwrap_or_default();
        format!("{path}:{line}: {}", explained(error.message(), at))
    })?;
    let mut entries = Vec::new();
    let mut read = |section: Option<&str>, table: &DeTable<'_>| {
        for (key, value) in table {
            let (line, key) = (line_of(key.span().start), key.get_ref().to_string());
            let value =
                scalar(value.get_ref()).map_err(|why| format!("{path}:{line}: {key}: {why}"))?;
            entries.push(Entry {
                section: section.map(str::to_owned),
                key,
                value,
                line,
            });
        }
        Ok::<(), String>(())
    };
    let (tables, top): (Vec<_>, Vec<_>) = table
        .into_inner()
        .into_iter()
        .partition(|(_, value)| value.get_ref().is_table());
    let mut sections = Vec::new();
    for (name, value) in &tables {
        let table = value.get_ref().as_table();
        let table = table.expect("only tables were selected");
        let section = |name: String, at: usize| Section {
            name,
            line: line_of(at),
        };
        let inner = table.iter().find(|(_, value)| value.get_ref().is_table());
        let (within, at) = match inner {
            Some((inner, _)) => (Some(inner.get_ref()), inner.span().start),
            None => (None, name.span().start),
        };
        let name = name.get_ref().to_string();
        match within {
            // It is refused, whatever is in it.
            Some(inner) => sections.push(section(format!("{name}.{inner}"), at)),
            None => {
                read(Some(&name), table)?;
                sections.push(section(name, at));
            }
        }
    }
    read(None, &top.into_iter().collect())?;
    // In the order of the file, so that the first mistake is reported.
    sections.sort_by_key(|section| section.line);
    entries.sort_by_key(|entry| entry.line);
    Ok((sections, entries))
}

/// What the parser reports about this line, for readers who do not know its grammar.
fn explained(message: &str, line: &str) -> String {
    const LIKE: &str = "write key = \"value\", like lock-at-most-for = \"10m\"";
    let line = line.split('#').next().unwrap_or_default().trim_end();
    if line.ends_with('=') {
        format!("the key has no value: {LIKE}")
    } else if message.starts_with("unclosed array") || message.starts_with("unclosed inline table")
    {
        format!("a key has one value, not a list or a table: {LIKE}")
    } else if message.starts_with("unquoted keys cannot be empty") {
        format!("there is no key before \"=\": {LIKE}")
    } else if message.starts_with("unexpected key or value") {
        format!("there is text after the value: {LIKE}")
    } else if message.starts_with("string values must be quoted") {
        format!("a value is not in quotes: {LIKE}")
    } else if message.contains("string, expected") {
        format!("the quotes are not closed on this line: {LIKE}")
    } else if message.starts_with("key with no value") {
        format!("the line has no \"=\": {LIKE}")
    } else if message.starts_with("unclosed table") {
        "the name of a section is not closed with \"]\": write it like [run]".to_owned()
    } else if message.starts_with("duplicate key") {
        "this key or section is set twice; remove one of the two".to_owned()
    } else {
        format!("not TOML: {}", message.replace('\n', ", "))
    }
}

fn scalar(value: &DeValue<'_>) -> Result<Scalar, &'static str> {
    match value {
        DeValue::String(text) => Ok(Scalar::Text(text.to_string())),
        DeValue::Integer(number) if number.radix() == 10 => {
            Ok(Scalar::Number(number.as_str().to_owned()))
        }
        DeValue::Boolean(flag) => Ok(Scalar::Flag(*flag)),
        DeValue::Array(_) => Err("write one value in quotes, not a list"),
        _ => Err("write the value in quotes, as on the command line"),
    }
}

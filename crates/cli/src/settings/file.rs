//! Reads the file: TOML, with the line of each key.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Candidate, Entry, Scalar};

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
        Err(error)
            if !is_named
                && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => {
            let path = path.display();
            Err(format!("{from}: cannot read {path}: {error}"))
        }
    }
}

/// All keys and values. No error quotes the text, which may contain a password.
pub(super) fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, String> {
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let path = path.display();
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let why = error.message().replace('\n', ", ");
        format!("{path}:{line}: {why}")
    })?;
    let mut entries = Vec::new();
    let mut read = |section: Option<&str>, table: &DeTable<'_>| {
        for (key, value) in table {
            let line = line_of(key.span().start);
            let value = scalar(value.get_ref())
                .map_err(|why| format!("{path}:{line}: {}: {why}", key.get_ref()))?;
            entries.push(Entry {
                section: section.map(str::to_owned),
                key: key.get_ref().to_string(),
                value,
                line,
            });
        }
        Ok::<(), String>(())
    };
    let (sections, top): (Vec<_>, Vec<_>) = table
        .into_inner()
        .into_iter()
        .partition(|(_, value)| value.get_ref().is_table());
    read(None, &top.into_iter().collect())?;
    for (name, value) in &sections {
        let table = value.get_ref().as_table();
        let table = table.expect("only tables were selected");
        read(Some(name.get_ref().as_ref()), table)?;
    }
    // In the order of the file, so that the first mistake is reported.
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn scalar(value: &DeValue<'_>) -> Result<Scalar, &'static str> {
    match value {
        DeValue::String(text) => Ok(Scalar::Text(text.to_string())),
        DeValue::Integer(number) if number.radix() == 10 => {
            Ok(Scalar::Text(number.as_str().to_owned()))
        }
        DeValue::Boolean(flag) => Ok(Scalar::Flag(*flag)),
        _ => Err("write the value in quotes, as on the command line"),
    }
}

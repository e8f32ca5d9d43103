//! Which keys a file may have.

use clap::{Arg, ArgAction, Command};

use super::{Entry, Scalar};

/// Options that make sense for one call only. In a file they would apply to every job of the host.
const OF_ONE_CALL: &[&str] = &[
    "name",
    "schedule",
    "every",
    "must-not-be-lost",
    "metrics-listen",
    "force",
    "owner",
    "to",
    "reason",
    "for",
    "until",
    "now",
    "catch-up",
    "all",
    "idle-for",
    "yes",
    "held",
    "state",
    "filter",
    "watch",
    "journal",
    "print",
    "dry-run",
    "since",
    "failed",
    "config",
    "help",
    "version",
];

/// Whether an option cannot be set in a file.
pub(crate) fn is_of_one_call(arg: &Arg) -> bool {
    let long = arg.get_long();
    long.is_none_or(|long| OF_ONE_CALL.contains(&long))
}

/// Refuses a key that no command has, and a value of the wrong type.
pub(super) fn check(parser: &Command, entry: &Entry) -> Result<(), String> {
    let (key, section) = (&*entry.key, entry.section.as_deref());
    let command = match section {
        None => parser,
        Some(section) => command(parser, section)?,
    };
    if OF_ONE_CALL.contains(&key) {
        return Err(format!(
            "{key:?} belongs to one call: pass it on the command line"
        ));
    }
    let known = options(command);
    let Some(arg) = known.iter().find(|arg| arg.get_long() == Some(key)) else {
        return Err(unknown(parser, key, section, &known));
    };
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    match (&entry.value, is_flag) {
        (Scalar::Text(_), true) => Err(format!("{key}: write true or false, without quotes")),
        (Scalar::Flag(_), false) => Err(format!("{key}: write the value in quotes")),
        _ => Ok(()),
    }
}

fn command<'a>(parser: &'a Command, name: &str) -> Result<&'a Command, String> {
    parser.find_subcommand(name).ok_or_else(|| {
        let names: Vec<&str> = parser.get_subcommands().map(Command::get_name).collect();
        let advice = match nearest(name, &names) {
            Some(nearest) => format!("the nearest known section is [{nearest}]"),
            None => format!("known are {}", names.join(", ")),
        };
        format!("unknown section [{name}]; {advice}")
    })
}

fn unknown(parser: &Command, key: &str, section: Option<&str>, known: &[&Arg]) -> String {
    let is_global = |arg: &Arg| arg.get_long() == Some(key);
    if section.is_some() && parser.get_arguments().any(is_global) {
        return format!("{key:?} applies to every command: write it at the top of the file");
    }
    let keys: Vec<&str> = known.iter().filter_map(|arg| arg.get_long()).collect();
    let of = section.map_or_else(String::new, |section| format!(" for {section}"));
    let advice = match nearest(key, &keys) {
        Some(nearest) => format!("the nearest known key is {nearest:?}"),
        None => "`shedlock config` lists the known keys".to_owned(),
    };
    format!("unknown key {key:?}{of}; {advice}")
}

fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = 1 + word.len() / 4;
    let distances = known.iter().map(|it| (strsim::osa_distance(word, it), *it));
    let (distance, best) = distances.min()?;
    (distance <= most).then_some(best)
}

/// The options of a command and of those below it that a file may set.
fn options(command: &Command) -> Vec<&Arg> {
    let own = command.get_arguments().filter(|arg| !is_of_one_call(arg));
    own.chain(command.get_subcommands().flat_map(options))
        .collect()
}

//! Which keys a file may have.

use clap::{Arg, ArgAction, Command};

use super::{Entry, Scalar};
use crate::args::commands_with;
use shedlock_support::text::listed;

/// Options that make sense for one call only. In a file they would apply to every job of the host.
const OF_ONE_CALL: &[&str] = &[
    "name",
    "detached",
    "schedule",
    "every",
    "must-not-be-lost",
    "metrics-listen",
    "sentry-monitor",
    "force",
    "forget",
    "hash-password",
    "also-store",
    "also-store-file",
    "allow-host",
    "owner",
    "to",
    "reason",
    "for",
    "until",
    "create",
    "now",
    "catch-up",
    "all",
    "idle-for",
    "yes",
    "held",
    "new-table",
    "watched-by-java",
    "not-watched-by-java",
    "state",
    "filter",
    "watch",
    "journal",
    "print",
    "dry-run",
    "grant-to",
    "restore-from-journal",
    "new-identity",
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
    let section_command = section.and_then(|section| parser.find_subcommand(section));
    let command = section_command.unwrap_or(parser);
    if OF_ONE_CALL.contains(&key) {
        return Err(of_one_call(parser, key, section));
    }
    let known = options(command);
    let Some(arg) = known.iter().find(|arg| arg.get_long() == Some(key)) else {
        return Err(unknown(parser, key, section, &known));
    };
    if let ("ping-url", Scalar::Text(url)) = (key, &entry.value)
        && !(url.trim().is_empty() || url.contains("{slug}"))
    {
        return Err(format!(
            "{key:?} applies to every job: write {{slug}} where the URL has the check's slug, or \
             pass a job's own URL on the command line or in SHEDLOCK_PING_URL"
        ));
    }
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let is_duration = arg
        .get_value_names()
        .is_some_and(|names| names == ["DURATION"]);
    let is_count = matches!(arg.get_action(), ArgAction::Count);
    match (&entry.value, is_flag) {
        (Scalar::Number(_), _) if ["store", "journal-store"].contains(&key) => Err(format!(
            "{key}: write the URL of the store in quotes, like \"postgres://app@db/app\""
        )),
        (Scalar::Number(_), _) if ["store-file", "journal-store-file"].contains(&key) => {
            Err(format!("{key}: write the path of the file in quotes"))
        }
        (Scalar::Text(number) | Scalar::Number(number), _)
            if is_count && number.parse::<u8>().is_err() =>
        {
            Err(format!("{key}: write a number, like 1"))
        }
        (Scalar::Number(_), false) if is_duration => Err(format!(
            "{key}: a duration needs a unit and quotes, like \"10m\""
        )),
        (Scalar::Text(_) | Scalar::Number(_), true) => {
            Err(format!("{key}: write true or false, without quotes"))
        }
        (Scalar::Flag(_), false) if is_count => Err(format!("{key}: write a number, like 1")),
        (Scalar::Flag(_), false) => Err(format!("{key}: write the value in quotes")),
        _ => Ok(()),
    }
}

/// Why a key that makes sense for one call only is refused.
fn of_one_call(parser: &Command, key: &str, section: Option<&str>) -> String {
    let others = commands_with(parser, key);
    let is_of = |name: &String| section.is_none_or(|it| name.split(' ').next() == Some(it));
    if others.is_empty() || others.iter().any(is_of) {
        return format!(
            "{key:?} cannot be set in a file, because it belongs to a single job or invocation: pass it on \
             the command line"
        );
    }
    format!(
        "{key:?} is not an option of {}, and cannot be set in a file: pass it on the command line of \
         {}",
        section.unwrap_or_default(),
        listed(&others, "or")
    )
}

/// Refuses a section that is no command.
pub(super) fn check_section(parser: &Command, name: &str) -> Result<(), String> {
    if parser.find_subcommand(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = parser.get_subcommands().map(Command::get_name).collect();
    let outer = name.split_once('.').map(|(outer, _)| outer);
    let outer = outer.and_then(|outer| parser.find_subcommand(outer));
    let advice = match (outer, nearest(name, &names)) {
        (Some(outer), _) if outer.has_subcommands() => {
            format!(
                "write the options of its commands in [{}]",
                outer.get_name()
            )
        }
        (Some(outer), _) => format!("write its options in [{}]", outer.get_name()),
        (None, Some(nearest)) => format!("the nearest known section is [{nearest}]"),
        (None, None) => format!("a section has the name of a command: {}", names.join(", ")),
    };
    Err(format!("unknown section [{name}]; {advice}"))
}

fn unknown(parser: &Command, key: &str, section: Option<&str>, known: &[&Arg]) -> String {
    let is_global = |arg: &Arg| arg.get_long() == Some(key);
    if section.is_some() && parser.get_arguments().any(is_global) {
        return format!("{key:?} applies to every command: write it at the top of the file");
    }
    let keys: Vec<&str> = known.iter().filter_map(|arg| arg.get_long()).collect();
    let of = section.map_or_else(String::new, |section| format!(" for {section}"));
    let is_known = || {
        options(parser)
            .iter()
            .any(|arg| arg.get_long() == Some(key))
    };
    let advice = match (nearest(key, &keys), section) {
        (_, Some(section)) if is_known() => {
            // A command of a command is set in the section of the outer one.
            let mut others: Vec<_> = commands_with(parser, key)
                .iter()
                .filter_map(|name| Some(format!("[{}]", name.split(' ').next()?)))
                .collect();
            others.dedup();
            return format!(
                "{key:?} is not an option of {section}; write it in {}",
                listed(&others, "or")
            );
        }
        (Some(nearest), _) => format!("the nearest known key is {nearest:?}"),
        (None, Some(section)) => format!("`shedlock {section} --help` lists its options"),
        (None, None) => "a key is the long name of an option without its dashes, like \
                         lock-at-most-for"
            .to_owned(),
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

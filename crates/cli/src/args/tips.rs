//! What the parser's errors do not say by themselves: where a value came from, and what to write.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use shedlock_support::text::listed;

use super::Cli;
use super::parse::{Wrong, typed};
use crate::exit::Failure;
use crate::settings::Settings;

/// The error with its origin and its tips. The help of options does not explain what is wrong in a file.
pub(super) fn explained(
    mut error: clap::Error,
    arguments: &[OsString],
    settings: Option<&Settings>,
) -> Wrong {
    match origin_of(&error, arguments, settings) {
        Some(Origin::Setting { key, place }) => {
            return Wrong::Settings(Failure::of_setting(&key, &place, error));
        }
        Some(Origin::Variable(name)) => {
            error.insert(ContextKind::InvalidArg, ContextValue::String(name));
        }
        None => {}
    }
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let tips = match error.kind() {
        ErrorKind::MissingRequiredArgument => missing(&error, &words),
        ErrorKind::UnknownArgument => unknown(&error, &words, words.len() + 1 < arguments.len()),
        ErrorKind::InvalidSubcommand => commands(&error, &words),
        _ => None,
    };
    match tips {
        None => {}
        Some(tips) if tips.is_empty() => {
            error.remove(ContextKind::Suggested);
        }
        Some(tips) => {
            let tips = tips.into_iter().map(Into::into).collect();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    Wrong::Usage(error)
}

/// Which option needs what is missing.
fn missing(error: &clap::Error, words: &[&str]) -> Option<Vec<String>> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_missing = |option: &str| missing.iter().any(|it| it.contains(option));
    if is_missing("--force") && command_of(words).get_name() == "unlock" {
        let tip = "--force confirms that the lock is freed although its holder may still be \
                   running; see `shedlock show NAME` first";
        return Some(vec![tip.to_owned()]);
    }
    let needs = [
        (
            "--zone",
            "--schedule",
            "--schedule (the slots of --every are always in UTC)",
        ),
        ("--slot-tolerance", "--schedule", "--schedule or --every"),
        ("--must-not-be-lost", "--schedule", "--schedule or --every"),
        ("--max-attempts", "--must-not-be-lost", "--must-not-be-lost"),
        (
            "--retry-backoff",
            "--must-not-be-lost",
            "--must-not-be-lost",
        ),
    ];
    let is_typed = |option| {
        words
            .iter()
            .any(|word| word.split('=').next() == Some(option))
    };
    let tips: Vec<String> = needs
        .into_iter()
        .filter(|(option, needed, _)| is_missing(needed) && is_typed(option))
        .map(|(option, _, all)| format!("{option} needs {all}"))
        .collect();
    (!tips.is_empty()).then_some(tips)
}

/// How to write what was taken for an option.
fn unknown(error: &clap::Error, words: &[&str], has_dashes: bool) -> Option<Vec<String>> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let command = command_of(words);
    let is_run = command.get_name() == "run";
    if !word.starts_with('-') {
        let tip = format!("write the command after `--`, like: shedlock run --name NAME -- {word}");
        return (is_run && !has_dashes).then(|| vec![tip]);
    }
    // A value that begins with a dash, like that of `--name -x`.
    let at = words.iter().position(|typed| typed.starts_with(&**word));
    let (before, value) = at.and_then(|at| Some((words.get(at.checked_sub(1)?)?, words[at])))?;
    let mut options = command.get_arguments();
    let option = options.find(|arg| {
        let (long, short) = (arg.get_long(), arg.get_short());
        let is_it = before.strip_prefix("--").is_some_and(|it| Some(it) == long)
            || short.is_some_and(|short| **before == format!("-{short}"));
        is_it && arg.get_action().takes_values()
    });
    if let Some(long) = option.and_then(clap::Arg::get_long) {
        return Some(vec![format!(
            "if {value:?} is the value of --{long}, write --{long}={value}"
        )]);
    }
    let has_name = command.get_positionals().any(|arg| arg.get_id() == "name");
    if (word == "--name" || word == "-n") && has_name {
        return Some(vec!["write the name without --name".to_owned()]);
    }
    let has_tip = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => {
            !tips.iter().any(|tip| tip.to_string().contains("use '-- "))
        }
        _ => false,
    };
    if has_tip {
        return None;
    }
    if let Some(long) = word.strip_prefix("--") {
        let ending = format!("-{long}");
        let options = command.get_arguments().filter_map(clap::Arg::get_long);
        if let [longer] = options
            .filter(|it| it.ends_with(&ending))
            .collect::<Vec<_>>()[..]
        {
            return Some(vec![format!("a similar argument exists: '--{longer}'")]);
        }
        return Some(elsewhere(long, command.get_name()));
    }
    // To pass the option on to the command would run it as the command.
    is_run.then(Vec::new)
}

/// Where this option would be known. A name that begins with two dashes is too rare for the parser's
/// tip, which takes every option for one.
fn elsewhere(long: &str, command: &str) -> Vec<String> {
    if (command, long) == ("prune", "all") {
        return vec!["without a name, prune is about all locks of the store".to_owned()];
    }
    let others = commands_with(&Cli::command(), long);
    if others.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "--{long} is an option of {}",
        listed(&others, "and")
    )]
}

/// The commands that there are, unless the parser has found a similar one.
fn commands(error: &clap::Error, words: &[&str]) -> Option<Vec<String>> {
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let command = command_of(words);
    let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    Some(vec![match &names[..] {
        [only] => format!("the only command is `{} {only}`", command.get_name()),
        _ => format!("the commands are {}", names.join(", ")),
    }])
}

/// The command that was typed.
fn command_of(words: &[&str]) -> Command {
    let mut command = Cli::command();
    for word in words {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner.clone();
        }
    }
    command
}

/// The key and the place in the file, if the option of this command is set there.
pub(super) fn place_in(
    settings: &Settings,
    option: &str,
    arguments: &[OsString],
) -> Option<(String, String)> {
    let key = option.strip_prefix("--")?;
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let parser = Cli::command();
    // Not the value of an option before the command, like that of --config.
    let command = words
        .into_iter()
        .find(|word| parser.find_subcommand(word).is_some())?;
    let place = settings.place_of(command, key)?;
    Some((key.to_owned(), place))
}

/// Where a value comes from that was not typed.
enum Origin {
    Variable(String),
    Setting { key: String, place: String },
}

/// An error in a value from the environment or from a file names the variable or the place in the
/// file, not an option that the user did not type.
fn origin_of(
    error: &clap::Error,
    arguments: &[OsString],
    settings: Option<&Settings>,
) -> Option<Origin> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = argument.split(' ').next().unwrap_or_default();
    if typed(arguments, option, None).is_some() {
        return None;
    }
    let variable = variable_of(&Cli::command(), option);
    if let Some(name) = variable.filter(|name| std::env::var_os(name).is_some()) {
        return Some(Origin::Variable(name));
    }
    let (key, place) = place_in(settings?, option, arguments)?;
    Some(Origin::Setting { key, place })
}

/// The variable of an option, of this command or of those below it.
fn variable_of(command: &Command, option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?;
    let found = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name) && arg.get_env().is_some());
    match found {
        Some(arg) => Some(arg.get_env()?.to_string_lossy().into_owned()),
        None => command
            .get_subcommands()
            .find_map(|command| variable_of(command, option)),
    }
}

/// The commands that have this option of their own.
pub(crate) fn commands_with(parser: &Command, long: &str) -> Vec<String> {
    let has = |command: &Command| {
        let mut options = command.get_arguments();
        options.any(|arg| arg.get_long() == Some(long))
    };
    let mut found = Vec::new();
    for command in parser.get_subcommands() {
        let name = command.get_name();
        if has(command) {
            found.push(name.to_owned());
        }
        let inner = command.get_subcommands().filter(|it| has(it));
        found.extend(inner.map(|it| format!("{name} {}", it.get_name())));
    }
    found
}

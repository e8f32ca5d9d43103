//! Parsing: options first, then variables, then the configuration file.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueEnum};

use super::{Cli, Command};
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{self, LogFormat};

/// Options that a variable can set, and the variable.
pub(crate) const AT_MOST: (&str, &str) = ("--lock-at-most-for", "SHEDLOCK_LOCK_AT_MOST_FOR");
pub(crate) const AT_LEAST: (&str, &str) = ("--lock-at-least-for", "SHEDLOCK_LOCK_AT_LEAST_FOR");

/// What is wrong with the command line, or with the file that completes it.
#[derive(Debug)]
pub(crate) enum Wrong {
    Usage(clap::Error),
    Settings(Failure),
}

/// Parses the command line, whose first item is the name of this program. What is not typed and not
/// in a variable comes from the configuration file.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, Wrong> {
    let mut cli = parse_with(arguments, None)?;
    if cli.command.store_mut().is_none() {
        // What is generated is the same on every host.
        return Ok(cli);
    }
    let settings = Settings::find(cli.voice.config.as_deref(), |name| std::env::var_os(name));
    match settings.map_err(Failure::usage)? {
        Some(settings) => parse_with(arguments, Some(settings)),
        None => Ok(cli),
    }
}

pub(super) fn parse_with(arguments: &[OsString], settings: Option<Settings>) -> Result<Cli, Wrong> {
    let matches = matches_of(arguments, settings.as_ref())?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let is_typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    if is_typed("quiet") {
        cli.voice.verbose = 0;
    } else if is_typed("verbose") {
        cli.voice.quiet = false;
    }
    if let Some(settings) = &settings {
        let name = matches.subcommand_name().unwrap_or_default();
        let store = settings.store(name).map_err(Failure::usage)?;
        if let Some(args) = cli.command.store_mut() {
            args.setting = store;
        }
    }
    if let Command::Config(args) = &mut cli.command {
        args.settings = settings;
    }
    Ok(cli)
}

/// The values of all options, each with its source. Those of the settings are defaults.
pub(crate) fn matches_of(
    arguments: &[OsString],
    settings: Option<&Settings>,
) -> Result<ArgMatches, Wrong> {
    let parser = match settings {
        Some(settings) => settings
            .as_defaults(Cli::command())
            .map_err(Failure::usage)?,
        None => Cli::command(),
    };
    let parsed = parser.try_get_matches_from(arguments);
    let explained = parsed.map_err(|error| {
        let error = with_origin(error, arguments, settings);
        with_dashes(with_schedule(error, arguments), arguments)
    });
    Ok(explained?)
}

impl From<clap::Error> for Wrong {
    fn from(error: clap::Error) -> Self {
        Self::Usage(error)
    }
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Settings(failure)
    }
}

/// If a schedule is missing, the tip names the option that needs it.
fn with_schedule(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let is_schedule = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|it| it.contains("--schedule")),
        _ => false,
    };
    if error.kind() != ErrorKind::MissingRequiredArgument || !is_schedule {
        return error;
    }
    let needing = ["--zone", "--slot-tolerance", "--must-not-be-lost"];
    let typed = needing.into_iter().filter(|option| {
        let mut words = arguments.iter().take_while(|word| *word != "--");
        words.any(|word| word.to_str().and_then(|word| word.split('=').next()) == Some(option))
    });
    let tip = |option| match option {
        "--zone" => "--zone needs --schedule (the slots of --every are always in UTC)".to_owned(),
        _ => format!("{option} needs --schedule or --every"),
    };
    let tips = typed.map(|option| tip(option).into()).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// A command of `run` without the `--` before it gets a tip.
fn with_dashes(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let mut words = arguments.iter().skip(1);
    let is_run = words.find(|word| !word.as_encoded_bytes().starts_with(b"-"))
        == Some(&OsString::from("run"));
    let has_dashes = arguments.iter().any(|argument| argument == "--");
    if error.kind() != ErrorKind::UnknownArgument || has_dashes {
        return error;
    }
    let is_name = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(word)) if word == "--name" || word == "-n"
    );
    if !is_run && !is_name {
        return error;
    }
    let tip = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if !word.starts_with('-') => vec![
            format!("write the command after `--`, like: shedlock run --name NAME -- {word}")
                .into(),
        ],
        _ if is_name => vec!["write the name without --name".to_owned().into()],
        // To pass the option on to the command would run it as the command.
        _ => Vec::new(),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    error
}

/// The name by which the user set this value: the variable, if there is one and the option was not
/// typed.
pub(crate) fn origin(
    (option, variable): (&'static str, &'static str),
    arguments: &[OsString],
) -> &'static str {
    let is_set = std::env::var_os(variable).is_some();
    if is_set && typed(arguments, option, None).is_none() {
        variable
    } else {
        option
    }
}

/// An error in a value from the environment or from a file names the variable or the place in the
/// file, not an option that the user did not type.
fn with_origin(
    mut error: clap::Error,
    arguments: &[OsString],
    settings: Option<&Settings>,
) -> clap::Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let option = argument.split(' ').next().unwrap_or_default();
    if typed(arguments, option, None).is_some() {
        return error;
    }
    let variable = variable_of(&Cli::command(), option);
    let variable = variable.filter(|name| std::env::var_os(name).is_some());
    let in_file = || {
        let key = option.strip_prefix("--")?;
        let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
        let command = words.into_iter().find(|word| !word.starts_with('-'))?;
        let place = settings?.place_of(command, key)?;
        Some(format!("{key} in {place}"))
    };
    if let Some(origin) = variable.or_else(in_file) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(origin));
    }
    error
}

/// The variable of an option, of this command or of those below it.
fn variable_of(command: &clap::Command, option: &str) -> Option<String> {
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

/// The value of an option as it was typed, also on a command line that is wrong.
fn typed<'a>(arguments: &'a [OsString], option: &str, short: Option<&str>) -> Option<&'a str> {
    let mut words = arguments
        .iter()
        .skip(1)
        .take_while(|argument| argument.as_os_str() != "--")
        .map(|argument| argument.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        if word == option || Some(word) == short {
            return Some(words.next().unwrap_or_default());
        }
        let value = word
            .strip_prefix(option)
            .and_then(|rest| rest.strip_prefix('='));
        let value = value.or_else(|| word.strip_prefix(short?));
        if value.is_some() {
            return value;
        }
    }
    None
}

/// Whether the results were asked for as JSON, also on a command line that is wrong.
pub(crate) fn has_json_results(arguments: &[OsString]) -> bool {
    typed(arguments, "--output", Some("-o")) == Some("json")
}

const LOG_FORMAT: (&str, &str) = ("--log-format", "SHEDLOCK_LOG_FORMAT");

/// The format of the log that was asked for, also on a command line that is wrong.
pub(crate) fn log_format(arguments: &[OsString]) -> LogFormat {
    let (option, variable) = LOG_FORMAT;
    let asked = match typed(arguments, option, None) {
        Some(format) => Some(format.to_owned()),
        None => std::env::var(variable).ok(),
    };
    let asked = asked.unwrap_or_default();
    LogFormat::from_str(&asked, false).unwrap_or_default()
}

/// The arguments that give a process the log format of this one.
pub(crate) fn of_log_format() -> [String; 2] {
    let format = terminal::log_format().to_possible_value();
    let format = format.map_or_else(String::new, |format| format.get_name().to_owned());
    [LOG_FORMAT.0.to_owned(), format]
}

//! Parsing: options first, then variables, then the configuration file.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueEnum};

use super::{Cli, Command, tips};
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::{self, LogFormat};

/// Options that a variable can set, and the variable.
pub(crate) const AT_MOST: (&str, &str) = ("--lock-at-most-for", "SHEDLOCK_LOCK_AT_MOST_FOR");
pub(crate) const AT_LEAST: (&str, &str) = ("--lock-at-least-for", "SHEDLOCK_LOCK_AT_LEAST_FOR");

pub(crate) const PING_URL: (&str, &str) = ("--ping-url", "SHEDLOCK_PING_URL");
/// No variable sets it.
pub(crate) const PING_OUTPUT: (&str, &str) = ("--ping-output", "");
pub(crate) const SENTRY_DSN: (&str, &str) = ("--sentry-dsn", "SHEDLOCK_SENTRY_DSN");

/// The configuration file of this process, for messages that name where a value came from.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

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
        Some(settings) => {
            let settings = SETTINGS.get_or_init(|| settings).clone();
            parse_with(arguments, Some(settings))
        }
        None => Ok(cli),
    }
}

/// The configuration file of this process, if it has one.
pub(crate) fn settings_file() -> Option<&'static Path> {
    Some(SETTINGS.get()?.path())
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
        if let Some(args) = cli.command.store_mut() {
            args.setting = settings.store(name).map_err(Failure::usage)?;
            args.journal.setting = settings.journal_store(name).map_err(Failure::usage)?;
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
    let parsed = parser.try_get_matches_from(without_help_of_help(arguments));
    parsed.map_err(|error| tips::explained(error, arguments, settings))
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

/// `shedlock help --help` is `shedlock help`, whose parser has no options.
fn without_help_of_help(arguments: &[OsString]) -> Vec<OsString> {
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let mut words = arguments.iter().skip(1).skip_while(is_option);
    let is_help = match words.next().and_then(|word| word.to_str()) {
        Some("help") => true,
        Some("slot") => words.find(|word| !is_option(word)) == Some(&OsString::from("help")),
        _ => false,
    };
    let is_kept = |word: &&OsString| !is_help || (*word != "--help" && *word != "-h");
    arguments.iter().filter(is_kept).cloned().collect()
}

/// The name by which the user set this value: the option if it was typed, otherwise the variable, or
/// the place in the configuration file.
pub(crate) fn origin(
    (option, variable): (&'static str, &'static str),
    arguments: &[OsString],
) -> String {
    if typed(arguments, option, None).is_some() {
        return option.to_owned();
    }
    if std::env::var_os(variable).is_some() {
        return variable.to_owned();
    }
    let in_file = || {
        let (key, place) = tips::place_in(SETTINGS.get()?, option, arguments)?;
        Some(format!("{key} in {place}"))
    };
    in_file().unwrap_or_else(|| option.to_owned())
}

/// The value of an option as it was typed, also on a command line that is wrong.
pub(super) fn typed<'a>(
    arguments: &'a [OsString],
    option: &str,
    short: Option<&str>,
) -> Option<&'a str> {
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

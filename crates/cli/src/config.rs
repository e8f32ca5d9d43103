//! `shedlock config`: the value of every setting, and where it came from.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory};

use crate::args::{self, Cli, ConfigArgs, StoreArgs, Wrong};
use crate::exit::Failure;
use crate::output::{self, Setting};
use crate::settings::{Settings, is_of_one_call};
use crate::store;
use crate::terminal::Terminal;

/// Commands with settings, each with the least that its command line needs.
const COMMANDS: &[&[&str]] = &[
    &["run", "--name", "x", "--", "x"],
    &["hold", "x"],
    &["extend", "x", "--for", "1m"],
    &["list"],
    &["show", "x"],
    &["jobs"],
    &["history", "x"],
    &["metrics"],
    #[cfg(feature = "ui")]
    &["ui"],
    &["pause", "x"],
    &["resume", "x"],
    &["unlock", "x", "--force"],
    &["slot", "reset", "x"],
    &["prune", "--idle-for", "90d"],
    &["doctor"],
    &["migrate"],
];

/// The options that choose a store.
const OF_STORES: [&str; 5] = [
    "store",
    "store_file",
    "local",
    "journal_store",
    "journal_store_file",
];

/// Prints all settings. A value that its command would refuse is an error.
pub(crate) async fn config(args: &ConfigArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let settings = args.settings.as_ref();
    let mut rows = vec![of_store("store", &args.store).await?];
    for name in COMMANDS.iter().map(|line| line[0]) {
        let of = |command| settings.map_or(Ok(None), |settings| settings.store(command));
        let setting = of(name).map_err(Failure::usage)?;
        // Only a section makes it another one than that of this command.
        let is_other =
            setting.as_ref().map(|it| &it.place) != args.store.setting.as_ref().map(|it| &it.place);
        if is_other {
            let store = StoreArgs {
                setting,
                ..args.store.clone()
            };
            rows.push(of_store(&format!("{name}.store"), &store).await?);
        }
    }
    let (journal, from) = store::chosen_journal(&args.store)?.unzip();
    rows.push(Setting {
        name: "journal-store".to_owned(),
        value: journal,
        from: from.unwrap_or_else(|| "default".to_owned()),
    });
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let parser = Cli::command();
    let matches = matches_of(&arguments, settings)?;
    let globals = parser.get_arguments().filter(|arg| !is_of_one_call(arg));
    rows.extend(globals.map(|arg| setting(arg, &matches, "", settings)));
    rows.extend(of_commands(&parser, settings)?);
    let file = settings.map(|settings| (settings.path(), settings.from()));
    terminal.print(&output::settings(file, &rows, args.output.format))?;
    Ok(ExitCode::SUCCESS)
}

/// The row of a store, whose URL is checked. Connects to nothing.
async fn of_store(name: &str, store: &StoreArgs) -> Result<Setting, Failure> {
    let (value, from) = store::chosen(store)?;
    store::schema(store).await?;
    Ok(Setting {
        name: name.to_owned(),
        value: Some(value),
        from,
    })
}

/// One row for an option of several commands, unless the commands differ in its value.
fn of_commands(parser: &Command, settings: Option<&Settings>) -> Result<Vec<Setting>, Failure> {
    let mut found: Vec<(&str, Setting)> = Vec::new();
    for line in COMMANDS {
        let words: Vec<OsString> = ["shedlock"]
            .iter()
            .chain(*line)
            .map(OsString::from)
            .collect();
        let matches = matches_of(&words, settings)?;
        let name = line[0];
        let (mut command, mut matches) = (parser, &matches);
        while let Some((name, inner)) = matches.subcommand() {
            command = command.find_subcommand(name).unwrap_or(command);
            matches = inner;
        }
        let options = command.get_arguments().filter(|arg| !is_of_one_call(arg));
        // The stores have rows of their own.
        let options = options.filter(|arg| !OF_STORES.contains(&arg.get_id().as_str()));
        found.extend(options.map(|arg| (name, setting(arg, matches, name, settings))));
    }
    let mut rows: Vec<Setting> = Vec::new();
    for (command, setting) in &found {
        let mut same = found.iter().filter(|(_, other)| other.name == setting.name);
        let name = match same.all(|(_, other)| other == setting) {
            true => setting.name.clone(),
            false => format!("{command}.{}", setting.name),
        };
        if !rows.iter().any(|row| row.name == name) {
            let (value, from) = (setting.value.clone(), setting.from.clone());
            rows.push(Setting { name, value, from });
        }
    }
    Ok(rows)
}

fn matches_of(arguments: &[OsString], settings: Option<&Settings>) -> Result<ArgMatches, Failure> {
    args::matches_of(arguments, settings).map_err(|wrong| match wrong {
        Wrong::Settings(failure) => failure,
        Wrong::Usage(error) => Failure::of_usage(&error),
    })
}

fn setting(arg: &Arg, matches: &ArgMatches, command: &str, settings: Option<&Settings>) -> Setting {
    let id = arg.get_id().as_str();
    let name = arg.get_long().unwrap_or(id).to_owned();
    let in_file = || settings?.place_of(command, &name);
    let from = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => format!("--{name}"),
        Some(ValueSource::EnvVariable) => {
            let variable = arg.get_env().unwrap_or_default();
            variable.to_string_lossy().into_owned()
        }
        _ => in_file().unwrap_or_else(|| "default".to_owned()),
    };
    let value = matches
        .get_raw(id)
        .and_then(|mut values| values.next_back());
    let value = value.map(|value| without_secret(&name, value.to_string_lossy().into_owned()));
    Setting {
        value: value.or_else(|| documented(arg)),
        name,
        from,
    }
}

/// The secret of a ping URL is its path, and that of a DSN its key.
fn without_secret(name: &str, value: String) -> String {
    if !matches!(name, "ping-url" | "sentry-dsn") {
        return value;
    }
    let Some((scheme, rest)) = value.split_once("://") else {
        return if value.is_empty() {
            value
        } else {
            MASK.to_owned()
        };
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{MASK}")
}

const MASK: &str = "***";

/// The default of an option that is unset otherwise, as its help describes it.
fn documented(arg: &Arg) -> Option<String> {
    let help = arg.get_help()?.to_string();
    let (_, default) = help.rsplit_once("[default: ")?;
    let (default, _) = default.split_once(']')?;
    Some(default.split_whitespace().collect::<Vec<_>>().join(" "))
}

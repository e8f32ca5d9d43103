use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgAction, CommandFactory};

use super::parse::parse_with;
use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    parse_with(&arguments, None).map_err(|wrong| match wrong {
        Wrong::Usage(error) => error,
        Wrong::Settings(failure) => panic!("{}", failure.message()),
    })
}

#[test]
fn the_description_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn everything_after_the_dashes_is_the_command() {
    let cli = parse("shedlock run --name a --lock-at-most-for 10m -- cmd --name b -- -q").unwrap();
    let Command::Run(run) = cli.command else {
        panic!("not run")
    };
    assert_eq!(run.command, ["cmd", "--name", "b", "--", "-q"]);
    assert_eq!(run.lock_at_most_for, Some(Duration::from_secs(600)));
    assert!(!cli.voice.quiet);
}

#[test]
fn mistakes_are_refused_with_the_right_form() {
    let error = parse("shedlock run --name a --lock-at-most-for 10 -- x").unwrap_err();
    let said = "invalid value '10' for '--lock-at-most-for <DURATION>': write it with its unit";
    assert!(error.to_string().contains(said), "{error}");
    assert!(error.to_string().contains("1h30m"), "{error}");
    assert_eq!(error.exit_code(), 2);
    let error = parse("shedlock run --name a --lock-at-most-for 10m backup.sh").unwrap_err();
    assert!(error.to_string().contains("-- <COMMAND>..."), "{error}");
    let tip = "write the command after `--`, like: shedlock run --name NAME -- backup.sh";
    assert!(error.to_string().contains(tip), "{error}");
    for other in [
        "run --name a --lock-for 10m -- x",
        "run --name a b -- x",
        "list a",
    ] {
        let error = parse(&format!("shedlock {other}")).unwrap_err();
        assert!(!error.to_string().contains("write the command"), "{error}");
    }
    assert!(parse("shedlock run --lock-at-most-for 10m -- x").is_err());
    for wrong in [
        "--zone UTC",
        "--slot-tolerance 1s",
        "--every 10m --zone UTC",
        "--every 10m --schedule @daily",
        "--max-run-time 0s",
        "--lock-wait -1s",
        "--must-not-be-lost",
        "--every 10m --max-attempts 3",
        "--every 10m --must-not-be-lost --max-attempts 0",
    ] {
        let line = format!("shedlock run --name a --lock-at-most-for 10m {wrong} -- x");
        assert_eq!(parse(&line).unwrap_err().exit_code(), 2, "{wrong}");
    }
    let error = parse("shedlock run --name a --lock-at-most-for -5m -- x").unwrap_err();
    assert!(error.to_string().contains("negative"), "{error}");
    assert!(parse("shedlock list --local --store memory:").is_err());
    assert!(parse("shedlock -q -v list").is_err());
    assert!(parse("shedlock slot reset a --to yesterday").is_err());
    assert!(parse("shedlock slot reset a --to 2026-11-21T03:00:00+09:00").is_ok());
    assert!(parse("shedlock unlock a").is_err());
    assert!(parse("shedlock unlock a --force").is_ok());
}
/// A value for this option, if it needs one.
fn value_of(command: &clap::Command, option: &clap::Arg) -> Option<String> {
    const VALUES: [&str; 14] = [
        "1",
        "80",
        "10s",
        "30d",
        "a",
        "UTC",
        "127.0.0.1:1",
        "2026-11-21T03:00:00Z",
        "https://example.com",
        "https://a@example.com/1",
        "/path",
        "a=postgres://h/d",
        "a=/path",
        "warn",
    ];
    let least = option.get_num_args().map_or(1, |range| range.min_values());
    if least == 0 || !option.get_action().takes_values() {
        return None;
    }
    let possible = option.get_possible_values();
    let possible = possible.iter().map(|it| it.get_name().to_owned());
    let mut values = possible.chain(VALUES.map(str::to_owned));
    let is_accepted = |value: &String| {
        let long = format!("--{}={value}", option.get_long().unwrap());
        let parsed = command.clone().try_get_matches_from(["x", &long]);
        parsed.map_or_else(|error| !is_misread(&error), |_| true)
    };
    let value = values.find(is_accepted);
    Some(value.unwrap_or_else(|| panic!("no value for {option}")))
}

/// Whether a word was not taken for what it is. What is missing, and what excludes each other, is found only
/// afterwards.
fn is_misread(error: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    !matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::ArgumentConflict
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

fn refuse_swallowing_options(command: &clap::Command) {
    let options: Vec<_> = command
        .get_arguments()
        .filter(|it| {
            it.get_long().is_some()
                && !matches!(
                    it.get_action(),
                    ArgAction::Help
                        | ArgAction::HelpLong
                        | ArgAction::HelpShort
                        | ArgAction::Version
                )
        })
        .map(|it| {
            (
                it,
                [
                    Some(format!("--{}", it.get_long().unwrap())),
                    value_of(command, it),
                ],
            )
        })
        .collect();
    for (first, before) in &options {
        for (second, after) in options
            .iter()
            .filter(|(it, _)| it.get_id() != first.get_id())
        {
            let words = before.iter().chain(after).flatten();
            let words: Vec<_> = std::iter::once("x")
                .chain(words.map(String::as_str))
                .collect();
            if let Err(error) = command.clone().try_get_matches_from(&words) {
                assert!(
                    !is_misread(&error),
                    "{} {first} {second}: {error}",
                    command.get_name()
                );
            }
        }
    }
    command
        .get_subcommands()
        .for_each(refuse_swallowing_options);
}

#[test]
fn no_option_takes_the_option_that_follows_for_its_value() {
    let mut command = Cli::command();
    command.build();
    refuse_swallowing_options(&command);
}

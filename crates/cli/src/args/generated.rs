//! The command lines of `config`, `completions` and `man`, which are about this program.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::{OutputArgs, StoreArgs, exit_codes};
use crate::settings::Settings;

/// Show the value of every setting, and where it came from
///
/// That is an option, an environment variable, a line of the configuration file, or the default. Passwords are
/// hidden. The file and each value in effect are checked; nothing connects to a store.
/// Options of `run` and of other commands are settings too, except those that apply to a single invocation, like --name.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The file that was found.
    #[arg(skip)]
    pub(crate) settings: Option<Settings>,
}

/// Print the completion script for a shell
///
/// For bash: `shedlock completions bash > /etc/bash_completion.d/shedlock`. For zsh:
/// `shedlock completions zsh > ~/.zfunc/_shedlock`, with ~/.zfunc in $fpath. For fish:
/// `shedlock completions fish > ~/.config/fish/completions/shedlock.fish`.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page, or write one page for each command
///
/// `shedlock man | man -l -` shows the page. Packages install the pages:
/// `shedlock man --dir /usr/local/share/man/man1`.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_none())]
pub(crate) struct ManArgs {
    /// Write shedlock.1, shedlock-run.1 and so on to this directory, which is created if it does not
    /// exist
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

//! `shedlock completions` and `man`: what packages install next to the command.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::{Failure, INTERNAL};
use crate::private;
use crate::terminal::Terminal;

/// Prints a shell's completions.
pub(crate) fn completions(args: &CompletionsArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shedlock", &mut script);
    // For zsh, a hint at the argument does it.
    let command: &[u8] = match args.shell {
        Shell::Bash => include_bytes!("completions.bash"),
        Shell::Fish => include_bytes!("completions.fish"),
        _ => b"",
    };
    script.extend_from_slice(command);
    terminal.print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of the whole command, or writes one for each command.
pub(crate) fn man(args: &ManArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let command = described();
    match &args.dir {
        Some(folder) => write_pages(&command, folder).map_err(|error| {
            let folder = folder.display();
            Failure::new(
                INTERNAL,
                format!("cannot write the manual pages to {folder}: {error}"),
            )
        })?,
        None => {
            let page = page(&command).map_err(|error| {
                Failure::new(INTERNAL, format!("cannot write the manual page: {error}"))
            })?;
            terminal.print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The command with its name before those of the commands below it, for the titles of the pages.
fn described() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    private::replace(&folder.join(format!("{name}.1")), &page(command)?)?;
    for command in command.get_subcommands() {
        write_pages(command, folder)?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

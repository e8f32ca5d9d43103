//! The command `shedlock`: runs a command once across many hosts, and shows who holds which lock.

#[cfg(not(unix))]
compile_error!(
    "the `shedlock` command needs Unix: it limits commands to their lease with process groups and \
     signals; use the library on other systems"
);

mod args;
mod audit;
mod clock;
mod config;
mod connections;
mod doctor;
mod exit;
mod extend;
#[cfg(test)]
mod fuzz;
mod generate;
mod inspect;
mod journal;
mod list;
mod metrics;
mod migrate;
mod output;
mod pause;
mod private;
mod prune;
mod restore;
mod run;
mod settings;
mod signals;
mod slot;
mod spool;
mod store;
mod terminal;
#[cfg(feature = "ui")]
mod ui;
mod unlock;
mod unreleased;
mod user;
mod watchdog;
mod words;

use std::process::ExitCode;

use args::{Command, SlotCommand, Wrong};
use exit::{Failure, INTERNAL};
use terminal::Terminal;

fn main() -> ExitCode {
    terminal::report_panics();
    // The report has been printed.
    std::panic::catch_unwind(start).unwrap_or_else(|_| ExitCode::from(INTERNAL))
}

fn start() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    hide_memory();
    // Before anything else: a watchdog must be ready as soon as possible.
    if watchdog::is_wanted(arguments.get(1).map(|argument| &**argument)) {
        terminal::set_style(args::log_format(&arguments), 0);
        return watchdog::serve(Terminal::new(false));
    }
    if run::keys_are_wanted(arguments.get(1).map(|argument| &**argument)) {
        return run::report_keys();
    }
    if let Err(error) = signals::end_at_once_as_process_1() {
        tracing::debug!(%error, "could not handle signals");
    }
    choose_crypto();
    let mut cli = match args::parse(&arguments) {
        Ok(cli) => cli,
        Err(wrong) => {
            terminal::set_style(args::log_format(&arguments), 0);
            let has_json_results = args::has_json_results(&arguments);
            let terminal = Terminal::new(false);
            return match wrong {
                Wrong::Usage(error) => terminal.usage(&error, has_json_results),
                Wrong::Settings(failure) => terminal.failure(&failure, has_json_results),
            };
        }
    };
    terminal::set_style(cli.voice.log_format, cli.voice.verbose);
    let terminal = Terminal::new(cli.voice.quiet);
    let has_findings = matches!(cli.command, Command::Doctor(_));
    let repeats_warnings = has_findings || matches!(cli.command, Command::Migrate(_));
    terminal.listen_to_logs(has_findings, repeats_warnings);
    store::report_refusals(terminal);
    if let Some(args) = cli.command.store_mut() {
        store::warn_of_exposed_stores(args, terminal);
    }
    words::set(&mut cli.command);
    execute(&cli.command, terminal)
        .unwrap_or_else(|failure| terminal.failure(&failure, cli.command.has_json_results()))
}

/// Hides this process's variables and memory, which may contain the password of a store, from other processes of the same
/// user, such as the command that it runs, and from core dumps. A program that this process starts is not affected.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Otherwise they can be read, as those of any process.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Chooses between the two crypto libraries of a build with `zookeepers://`. The clients of Redis and ZooKeeper accept
/// no provider and use the one of the process, or panic if it has two libraries and none is installed. No library of
/// ours installs one, but this is a program, and a build with one library needs no choice.
pub(crate) fn choose_crypto() {
    // Nothing has chosen one before.
    #[cfg(feature = "tls-aws-lc")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn execute(command: &Command, terminal: Terminal) -> Result<ExitCode, Failure> {
    // One thread: this program mostly waits, and must start quickly.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(INTERNAL, format!("cannot start the async runtime: {error}"))
        })?;
    let done = runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(args, terminal).await,
            Command::Hold(args) => run::hold(args, terminal).await,
            Command::Extend(args) => extend::extend(args, terminal).await,
            Command::List(args) => list::list(args, terminal).await,
            Command::Show(args) => inspect::show(args, terminal).await,
            Command::Jobs(args) => journal::jobs(args, terminal).await,
            Command::History(args) => journal::history(args, terminal).await,
            Command::Metrics(args) => metrics::metrics(args, terminal).await,
            #[cfg(feature = "ui")]
            Command::Ui(args) => ui::ui(args, terminal).await,
            Command::Pause(args) => pause::pause(args, terminal).await,
            Command::Resume(args) => pause::resume(args, terminal).await,
            Command::Unlock(args) => unlock::unlock(args, terminal).await,
            Command::Slot(args) => match &args.command {
                SlotCommand::Reset(args) => slot::reset(args, terminal).await,
            },
            Command::Prune(args) => prune::prune(args, terminal).await,
            Command::Doctor(args) => doctor::doctor(args, terminal).await,
            Command::Migrate(args) => migrate::migrate(args, terminal).await,
            Command::Config(args) => config::config(args, terminal).await,
            Command::Completions(args) => generate::completions(args, terminal),
            Command::Man(args) => generate::man(args, terminal),
        }
    });
    // A hanging call to the store must not delay the exit.
    runtime.shutdown_background();
    done
}

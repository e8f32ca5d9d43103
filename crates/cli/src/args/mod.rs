//! The command line.

mod claim;
mod common;
mod doctor;
mod exit_codes;
mod extend;
mod generated;
mod hold;
mod journal;
mod list;
mod locks;
mod metrics;
mod migrate;
mod parse;
mod pause;
mod pings;
mod prune;
mod run;
mod stores;
mod tips;
#[cfg(feature = "ui")]
mod ui;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use claim::Claim;
pub(crate) use common::{Format, OutputArgs, StoreArgs, Voice};
pub(crate) use doctor::DoctorArgs;
pub(crate) use extend::ExtendArgs;
pub(crate) use generated::{CompletionsArgs, ConfigArgs, ManArgs};
pub(crate) use hold::HoldArgs;
pub(crate) use journal::{HistoryArgs, JobsArgs, JournalErrors, JournalStoreArgs};
pub(crate) use list::{ListArgs, SortKey, StateFilter};
pub(crate) use locks::{ResetArgs, ShowArgs, SlotArgs, SlotCommand, UnlockArgs};
pub(crate) use metrics::MetricsArgs;
pub(crate) use migrate::MigrateArgs;
pub(crate) use parse::{
    AT_LEAST, AT_MOST, PING_OUTPUT, PING_URL, SENTRY_DSN, Wrong, has_json_results, log_format,
    matches_of, of_log_format, origin, parse, settings_file,
};
pub(crate) use pause::{NamesArgs, PauseArgs, ResumeArgs};
pub(crate) use pings::PingArgs;
pub(crate) use prune::PruneArgs;
pub(crate) use run::RunArgs;
pub(crate) use tips::commands_with;
#[cfg(feature = "ui")]
pub(crate) use ui::UiArgs;
pub(crate) use values::pattern;

/// Run a command once, however many hosts start it, under a shared lock.
#[derive(Debug, Parser)]
#[command(
    name = "shedlock",
    version,
    max_term_width = 100,
    after_help = stores::after_help(),
    after_long_help = format!("{}\n\n{}", stores::after_help(), exit_codes::of_all())
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) voice: Voice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Hold(HoldArgs),
    Extend(ExtendArgs),
    List(ListArgs),
    Show(ShowArgs),
    Jobs(JobsArgs),
    History(HistoryArgs),
    Metrics(MetricsArgs),
    #[cfg(feature = "ui")]
    Ui(Box<UiArgs>),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Unlock(UnlockArgs),
    Slot(SlotArgs),
    Prune(PruneArgs),
    Doctor(DoctorArgs),
    Migrate(MigrateArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    pub(crate) fn store_mut(&mut self) -> Option<&mut StoreArgs> {
        Some(match self {
            Self::Run(args) => &mut args.store,
            Self::Hold(args) => &mut args.store,
            Self::Extend(args) => &mut args.store,
            Self::List(args) => &mut args.store,
            Self::Show(args) => &mut args.store,
            Self::Jobs(args) => &mut args.store,
            Self::History(args) => &mut args.store,
            Self::Metrics(args) => &mut args.store,
            #[cfg(feature = "ui")]
            Self::Ui(args) => &mut args.store,
            Self::Pause(args) => &mut args.store,
            Self::Resume(args) => &mut args.store,
            Self::Unlock(args) => &mut args.store,
            Self::Slot(args) => match &mut args.command {
                SlotCommand::Reset(args) => &mut args.store,
            },
            Self::Prune(args) => &mut args.store,
            Self::Doctor(args) => &mut args.store,
            Self::Migrate(args) => &mut args.store,
            Self::Config(args) => &mut args.store,
            Self::Completions(_) | Self::Man(_) => return None,
        })
    }

    /// Whether the results were asked for as JSON.
    pub(crate) fn has_json_results(&self) -> bool {
        let output = match self {
            Self::Run(_) | Self::Metrics(_) | Self::Completions(_) | Self::Man(_) => return false,
            #[cfg(feature = "ui")]
            Self::Ui(_) => return false,
            Self::Hold(args) => args.output,
            Self::Extend(args) => args.output,
            Self::List(args) => args.output,
            Self::Show(args) => args.output,
            Self::Jobs(args) => args.output,
            Self::History(args) => args.output,
            Self::Pause(args) => args.output,
            Self::Resume(args) => args.output,
            Self::Unlock(args) => args.output,
            Self::Slot(args) => match &args.command {
                SlotCommand::Reset(args) => args.output,
            },
            Self::Prune(args) => args.output,
            Self::Doctor(args) => args.output,
            Self::Migrate(args) => args.output,
            Self::Config(args) => args.output,
        };
        output.format == Format::Json
    }
}

#[cfg(test)]
mod tests;

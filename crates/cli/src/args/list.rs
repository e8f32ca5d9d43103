//! The command line of `list`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use glob::Pattern;

use super::{OutputArgs, StoreArgs, exit_codes, values};

/// Show the locks of the store
///
/// Prints one line per lock, sorted by name. STATE is `held` while the command runs (or its holder
/// or the host has died and the lease has not ended yet), `paused` while `shedlock pause` keeps the
/// lock, `taken` while ShedLock for Java has it (its task runs, or has ended and lockAtLeastFor keeps the
/// lock), `at-least` while --lock-at-least-for or the pause after a failed slot keeps it after its run,
/// and `free` otherwise; a free lock shows its last owner. AGE is the time since the lock was last
/// acquired, LEFT the time until it becomes free, both by the store's clock; `open-ended`
/// is a pause without an end, which lasts until `shedlock resume`. LAST SLOT is in UTC. On Redis, Valkey,
/// etcd and NATS, ShedLock for Java leaves no record of an idle job, so such jobs are not in the list.
///
/// On a terminal, long values are cut, and TOKEN, LAST SLOT, AGE and OWNER are left out, in this
/// order, if they do not fit.
/// In a pipe everything is printed (values up to 255 characters). `shedlock show NAME` prints
/// one lock in full, and --output json all of them.
#[derive(Debug, Args)]
#[command(after_long_help = exit_codes::of_store(None))]
pub(crate) struct ListArgs {
    /// Show only locks that cannot be taken now: those in the states held, taken, paused and at-least
    #[arg(long, conflicts_with = "state")]
    pub(crate) held: bool,
    /// Show only locks in this state; can be repeated
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) state: Vec<StateFilter>,
    /// Show only locks whose name matches this pattern, like 'expire-*'; can be repeated
    ///
    /// A `*` stands for any text, `?` for one character, `[ab]` for one of these. With several
    /// patterns, a name must match one of them.
    #[arg(long, value_name = "PATTERN", value_parser = values::pattern)]
    pub(crate) filter: Vec<Pattern>,
    /// Sort by this column, the smallest value first; locks without a value are last
    #[arg(long, value_enum, default_value_t = SortKey::Name, value_name = "COLUMN")]
    pub(crate) sort: SortKey,
    /// Sort with the largest value first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print the list again at this interval until Ctrl-C [default: 2s if no interval is given]
    ///
    /// On a terminal the list is redrawn. In a pipe it is appended, after a line with the time (with
    /// --output json, as one more object). If the store fails, a line on stderr says so, and the next
    /// interval tries again.
    #[arg(
        long,
        value_name = "INTERVAL",
        value_parser = values::duration_above_zero,
        num_args = 0..=1,
        default_missing_value = "2s"
    )]
    pub(crate) watch: Option<Duration>,
    /// Fit the list into this many columns (at least 40), instead of the width of the terminal
    #[arg(long, value_name = "COLUMNS", value_parser = values::width, allow_hyphen_values = true)]
    pub(crate) width: Option<usize>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The column that determines the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    Name,
    /// Held, paused, at-least, free
    State,
    /// The time since the last acquisition
    Age,
    /// The time until the lock becomes free
    Left,
    Token,
    Slot,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateFilter {
    Held,
    Taken,
    Paused,
    AtLeast,
    Free,
}

//! `cargo xtask servers up`: servers for use by hand, and for tests that break one.
//!
//! Standard output starts with one `export NAME='value'` line per variable and then the line
//! `# ready`, so that a shell can read all of it. After that, each line of standard input is a
//! command, `VERB NAME`, which is answered with one line: `ok …` or `error …`. NAME is that of the server,
//! such as `postgres` or `mariadb-tz`; VERB is
//!
//! - `stop`: shut it down in order; its data stays
//! - `kill`: end it like a crash
//! - `start`: start it again, on the same port with the same data
//! - `freeze`, `thaw`: make it hang, and continue
//!
//! When standard input closes, everything is stopped and removed.

use super::{Instance, Profile, RunDir, Servers, Store};
use anyhow::{Context as _, bail};
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

/// Arguments of `cargo xtask servers up`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Start the servers of this store; can be repeated. All stores that have servers if none is
    /// named.
    #[arg(long = "store", value_name = "STORE", value_enum)]
    stores: Vec<Store>,
    /// Add this argument to the server's command line, such as `-cwal_level=minimal`; can be
    /// repeated. Name exactly one store with it, because the arguments differ between servers.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    extra_arg: Vec<String>,
    /// Do not start the companions of a store: PgBouncer, the second MariaDB, Valkey, newer
    /// versions of NATS.
    #[arg(long)]
    bare: bool,
    /// Do not install missing servers and tools.
    #[arg(long)]
    no_install: bool,
}

/// Starts the servers, prints their URLs and executes commands until standard input closes.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let named = !args.stores.is_empty();
    let stores = if named {
        &args.stores[..]
    } else {
        Store::all()
    };
    let profile = Profile {
        extra_args: args.extra_arg.clone(),
        companions: !args.bare,
        no_install: args.no_install,
        extracts_may_miss: !named,
        ..Profile::default()
    };
    let mut servers = Servers::start(stores, &profile)?;
    for seen in servers.seen() {
        match seen.version {
            Ok(version) => eprintln!("xtask: {} {version}", seen.kind.name()),
            Err(why) => eprintln!("xtask: {}: NOT UP: {why}", seen.kind.name()),
        }
    }
    let exports: String = servers
        .exports()
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect();
    say(&format!("{exports}# ready"))?;
    for line in io::stdin().lock().lines() {
        let line = line.context("standard input could not be read")?;
        if line.trim().is_empty() {
            continue;
        }
        match line
            .parse::<Order>()
            .and_then(|order| order.carry_out(&mut servers))
        {
            Ok(()) => say(&format!("ok {}", line.trim()))?,
            Err(error) => say(&format!("error {error:#}").replace('\n', " "))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .context("standard output is gone")
}

/// The value, quoted for a shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// One line of standard input.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    verb: Verb,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Stop,
    Kill,
    Start,
    Freeze,
    Thaw,
}

impl Order {
    fn carry_out(&self, servers: &mut Servers) -> anyhow::Result<()> {
        let (instance, run) = servers
            .instance_mut(&self.name)
            .with_context(|| format!("`{}` is not one of the servers of this run", self.name))?;
        self.verb.apply(instance, run)
    }
}

impl Verb {
    fn apply(self, instance: &mut Instance, run: &RunDir) -> anyhow::Result<()> {
        match self {
            Self::Stop => instance.stop(run),
            Self::Kill => instance.kill(run),
            Self::Start => instance.resume(run),
            Self::Freeze => {
                instance.freeze();
                Ok(())
            }
            Self::Thaw => {
                instance.thaw();
                Ok(())
            }
        }
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [verb, name] = words[..] else {
            bail!(
                "`{line}` is not a command: write `stop`, `kill`, `start`, `freeze` or `thaw`, \
                 then a name"
            )
        };
        let verb = match verb {
            "stop" => Verb::Stop,
            "kill" => Verb::Kill,
            "start" => Verb::Start,
            "freeze" => Verb::Freeze,
            "thaw" => Verb::Thaw,
            _ => bail!("`{verb}` is not one of `stop`, `kill`, `start`, `freeze`, `thaw`"),
        };
        Ok(Self {
            verb,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_a_verb_and_a_name() {
        let order: Order = " kill  mariadb-tz ".parse().unwrap();
        assert_eq!(
            order,
            Order {
                verb: Verb::Kill,
                name: "mariadb-tz".to_owned()
            }
        );
        for wrong in ["kill", "kill a b", "burn postgres"] {
            assert!(wrong.parse::<Order>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_survive_the_shell() {
        let value = "it's $HOME `x`";
        let said = crate::host::output(
            std::process::Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(value))),
        );
        assert_eq!(said.unwrap(), value);
    }
}

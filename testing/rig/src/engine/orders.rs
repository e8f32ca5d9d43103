//! A line of text that breaks or repairs a server: `VERB NAME`, which is answered with one line: `ok …` or `error …`.
//! NAME is that of the server, such as `postgres` or `mariadb-tz`; VERB is
//!
//! - `stop`: shut it down in order; its data stays
//! - `kill`: end it like a crash
//! - `start`: start it again, on the same port with the same data
//! - `freeze`, `thaw`: make it hang, and continue

use super::Servers;
use anyhow::{Context as _, bail};

impl Servers {
    /// Carries out such a line, and returns the answer.
    pub fn obey(&mut self, line: &str) -> String {
        match self.carry_out(line) {
            Ok(()) => format!("ok {}", line.trim()),
            Err(error) => format!("error {error:#}").replace('\n', " "),
        }
    }

    fn carry_out(&mut self, line: &str) -> anyhow::Result<()> {
        let order = Order::read(line)?;
        let run = &self.run;
        let mut instances = self.instances.iter_mut().map(|(_, it)| it);
        let instance = instances
            .find(|it| it.name() == order.name)
            .with_context(|| format!("`{}` is not one of the servers of this run", order.name))?;
        match order.verb {
            Verb::Stop => instance.stop(run)?,
            Verb::Kill => instance.kill(run)?,
            Verb::Start => instance.resume(run)?,
            Verb::Freeze => instance.freeze(),
            Verb::Thaw => instance.thaw(),
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Order<'a> {
    verb: Verb,
    name: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Stop,
    Kill,
    Start,
    Freeze,
    Thaw,
}

impl<'a> Order<'a> {
    fn read(line: &'a str) -> anyhow::Result<Self> {
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
        Ok(Self { verb, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_a_verb_and_a_name() {
        let order = Order::read(" kill  mariadb-tz ").unwrap();
        let verb = Verb::Kill;
        let name = "mariadb-tz";
        assert_eq!(order, Order { verb, name });
        for wrong in ["kill", "kill a b", "burn postgres"] {
            assert!(Order::read(wrong).is_err(), "{wrong}");
        }
    }
}

//! Our numbers compared with our goals relative to ShedLock and the bare statements.

use std::fmt::Write as _;

use super::contender::Contender;
use super::outcome::{Cell, Mode, Outcome};

/// A goal on databases.
struct Want {
    says: &'static str,
    /// Our value divided by theirs.
    ratio: fn(ours: &Cell, theirs: &Cell) -> f64,
    than: Contender,
    limit: fn(store: &str) -> Limit,
}

enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

const WANTS: [Want; 7] = [
    Want {
        says: "pairs/s relative to JdbcTemplate",
        ratio: pairs,
        than: Contender::Template,
        limit: |store| Limit::AtLeast(if store == "postgres" { 1.6 } else { 2.2 }),
    },
    Want {
        says: "pairs/s relative to plain JDBC",
        ratio: pairs,
        than: Contender::Plain,
        limit: |_| Limit::AtLeast(1.0),
    },
    Want {
        says: "pairs/s relative to the bare statements",
        ratio: pairs,
        than: Contender::Bare,
        limit: |_| Limit::AtLeast(0.85),
    },
    Want {
        says: "p99 relative to JdbcTemplate",
        ratio: p99,
        than: Contender::Template,
        limit: |_| Limit::AtMost(1.0),
    },
    Want {
        says: "p99 relative to plain JDBC",
        ratio: p99,
        than: Contender::Plain,
        limit: |_| Limit::AtMost(1.0),
    },
    Want {
        says: "client CPU relative to JdbcTemplate",
        ratio: client_cpu,
        than: Contender::Template,
        limit: |_| Limit::AtMost(1.0 / 3.0),
    },
    Want {
        says: "client CPU relative to plain JDBC",
        ratio: client_cpu,
        than: Contender::Plain,
        limit: |_| Limit::AtMost(1.0 / 3.0),
    },
];

fn pairs(_: &Cell, theirs: &Cell) -> f64 {
    theirs.ours_by_this
}

fn p99(ours: &Cell, theirs: &Cell) -> f64 {
    ours.p99_micros / theirs.p99_micros
}

fn client_cpu(ours: &Cell, theirs: &Cell) -> f64 {
    ours.cpu_micros_per_pair / theirs.cpu_micros_per_pair
}

impl Limit {
    fn text(&self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most:.2}"),
        }
    }

    fn is_kept(&self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= *least,
            Self::AtMost(most) => ratio <= *most,
        }
    }
}

/// One row per goal and database, one column per kind of measurement. Missed goals are bold.
pub(super) fn table(outcome: &Outcome) -> String {
    let modes = [Mode::free(1), Mode::free(16)];
    let mut text = String::from(
        "| ours | store | goal | fsync, 1 worker | fsync, 16 | no fsync, 1 | no fsync, 16 |\n\
         |---|---|--:|--:|--:|--:|--:|\n",
    );
    let mut stores: Vec<&str> = outcome
        .sites()
        .into_iter()
        .map(|(store, _)| store)
        .collect();
    stores.dedup();
    for want in &WANTS {
        for store in stores.iter().filter(|store| **store != "redis") {
            let limit = (want.limit)(store);
            let _ = write!(text, "| {} | {store} | {} |", want.says, limit.text());
            for fsync in [true, false] {
                for mode in modes {
                    let site = (*store, fsync);
                    let ours = outcome.cell(site, Contender::Ours, mode);
                    let theirs = outcome.cell(site, want.than, mode);
                    let ratio = ours
                        .zip(theirs)
                        .map(|(ours, theirs)| (want.ratio)(ours, theirs));
                    text += &match ratio {
                        None => " |".to_owned(),
                        Some(ratio) if limit.is_kept(ratio) => format!(" {ratio:.2} |"),
                        Some(ratio) => format!(" **{ratio:.2}** |"),
                    };
                }
            }
            text.push('\n');
        }
    }
    text
}

use std::ops::Index;

use super::*;

impl Statements {
    /// All statements.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Statement> {
        self.0.iter().map(|(_, statement)| statement)
    }
}

impl Index<Step> for Statements {
    type Output = Statement;

    fn index(&self, step: Step) -> &Statement {
        self.get(step).expect("the table has the columns for it")
    }
}

mod words {
    use shedlock_provider::TimeMode;

    use super::*;
    use crate::dialect::{mysql::MYSQL, postgres::POSTGRES, sqlite::SQLITE};
    use crate::options::Settings;

    fn options(dialect: &Dialect, time: TimeMode) -> Options {
        let settings = Settings {
            time,
            ..Settings::default()
        };
        dialect.options(settings).expect("valid settings")
    }

    /// A word without a text would panic on the first call of a provider, on the one table that needs it.
    #[test]
    fn every_table_has_a_text_for_each_word() {
        let times = [TimeMode::Store, TimeMode::client()];
        let dialects = times.into_iter().flat_map(|time| {
            [&POSTGRES, &MYSQL, &SQLITE].map(|dialect| (dialect, options(dialect, time)))
        });
        for (dialect, options) in dialects {
            for bits in 0..1 << 6 {
                let has = |bit: u32| bits >> bit & 1 == 1;
                let mut shape = dialect.assumed.clone();
                (shape.name.exact, shape.locked_by.exact) = (has(0), has(1));
                shape.lock_until.kind = [TimeKind::Wall, TimeKind::Instant][usize::from(has(2))];
                shape.locked_at.kind = shape.lock_until.kind;
                shape.lock_until.digits = [0, 6][usize::from(has(3))];
                shape.locked_at.digits = [0, 6][usize::from(has(4))];
                shape.is_complete = has(5);
                for statement in dialect.statements(&options, &shape).all() {
                    assert!(!statement.text().contains(['{', '}']), "{statement:?}");
                }
            }
        }
    }
}

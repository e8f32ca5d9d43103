//! Derives the shape of a table from its columns.

use shedlock_core::{Error, Operation};
use shedlock_provider::{Result, configuration};

use super::Dialect;
use crate::identifier::Identifier;
use crate::options::{COLUMNS, Options};
use crate::shape::{Column, Shape, TextColumn, TimeColumn};

impl Dialect {
    /// The shape of the table with these columns.
    ///
    /// # Errors
    /// `Configuration` if the table cannot be used as it is.
    pub(crate) fn shape(&self, options: &Options, columns: &[Column]) -> Result<Shape> {
        let (shape, missing) = self.shape_to_migrate(options, columns)?;
        if !is_partial(&missing) {
            return Ok(shape);
        }
        Err(configuration(format!(
            "table {} has some of shedlock's columns but lacks {}",
            options.table,
            missing.join(", ")
        ))
        .advise(("add them with", Operation::Migrate)))
    }

    /// The same for a migration, which may find some of our own columns. Also returns those that are missing.
    pub(crate) fn shape_to_migrate(
        &self,
        options: &Options,
        columns: &[Column],
    ) -> Result<(Shape, Vec<&'static str>)> {
        let found = Columns {
            dialect: self,
            options,
            columns,
        };
        found.check()?;
        let [name, until, at, by] = &options.columns;
        let first = columns.first();
        let server = first.map(|column| column.server.clone());
        let missing = found.missing()?;
        let shape = Shape {
            name: found.text(name, true)?,
            locked_by: found.text(by, false)?,
            lock_until: found.time(until)?,
            locked_at: found.time(at)?,
            columns: Some([
                found.spelled(name)?,
                found.spelled(until)?,
                found.spelled(at)?,
                found.spelled(by)?,
            ]),
            schema: first.and_then(|column| options.schema_found(column)),
            is_complete: missing.is_empty(),
            server: server.unwrap_or_default(),
        };
        Ok((shape, missing))
    }
}

/// Whether a table that lacks these columns has some of ours, because a migration was interrupted.
pub(crate) fn is_partial(missing: &[&str]) -> bool {
    (1..COLUMNS.len()).contains(&missing.len())
}

/// The columns of an existing table, looked up by name, with errors that describe what is wrong.
struct Columns<'a> {
    dialect: &'a Dialect,
    options: &'a Options,
    columns: &'a [Column],
}

impl<'a> Columns<'a> {
    /// The checks of every dialect: the four columns exist, the name is unique, and no other column requires a value.
    fn check(&self) -> Result<()> {
        let (names, table) = (&self.options.columns, &self.options.table);
        for name in names {
            self.get(name)?;
        }
        let name = self.get(&names[0])?;
        if !name.unique {
            return Err(configuration(format!("column {:?} of table {table} is neither primary key nor unique, so two processes could \
              both insert the lock", name.name)).advise(format!("add a primary key on it (if {table} is a view, use its table)")));
        }
        let is_theirs = |column: &Column| {
            let mut theirs = names.iter().filter_map(|name| self.find(name));
            theirs.any(|theirs| theirs.name == column.name)
        };
        let is_ours = |column| COLUMNS.iter().any(|name| self.dialect.finds(column, name));
        let is_known = |column| is_theirs(column) || is_ours(column);
        let mut required = self.columns.iter().filter(|column| column.required);
        match required.find(|column| !is_known(column)) {
            None => Ok(()),
            Some(column) => Err(configuration(format!(
                "table {table} has a required column {:?} that shedlock does not set",
                column.name
            ))
            .advise("give it a default or allow null")),
        }
    }

    fn get(&self, name: &Identifier) -> Result<&'a Column> {
        if let Some(column) = self.find(name) {
            return Ok(column);
        }
        let option = self.option_of(name);
        let mut similar = self.similar(name).map(|column| &*column.name);
        let table = &self.options.table;
        Err(match (similar.next(), similar.next()) {
            (Some(one), Some(other)) => configuration(format!(
                "table {table} has the columns {one:?} and {other:?}, which differ only in case"
            ))
            .advise(format!(
                "set the one that holds the lock's data in the store's URL: {option}=%22{one}%22 or \
                 {option}=%22{other}%22"
            )),
            _ => configuration(format!(
                "table {table} is not a lock table: it has no column {:?}",
                name.as_str()
            ))
            .advise(format!(
                "if the columns have other names, set them (like ?{option}=NAME)"
            ))
            .advise((
                "otherwise choose another table (?table=NAME) and create it with",
                Operation::Migrate,
            )),
        })
    }

    /// The option that sets this name.
    fn option_of(&self, name: &Identifier) -> &'static str {
        let [_, until, at, by] = &self.options.columns;
        match name {
            name if name == until => "lock_until_column",
            name if name == at => "locked_at_column",
            name if name == by => "locked_by_column",
            _ => "name_column",
        }
    }

    /// The column of this name, otherwise the only one whose name differs from it in case alone.
    fn find(&self, name: &Identifier) -> Option<&'a Column> {
        let mut exact = self.columns.iter();
        let exact = exact.find(|column| column.name == name.as_str());
        let mut similar = self.similar(name);
        exact.or_else(|| similar.next().filter(|_| similar.next().is_none()))
    }

    /// The columns whose names differ from this one in nothing but case.
    fn similar(&self, name: &Identifier) -> impl Iterator<Item = &'a Column> {
        let columns = self.columns.iter();
        columns.filter(|column| column.name.eq_ignore_ascii_case(name.as_str()))
    }

    fn spelled(&self, name: &Identifier) -> Result<Identifier> {
        let column = self.get(name)?;
        Ok(name.spelled(&column.name).unwrap_or_else(|| name.clone()))
    }

    fn unfit(&self, column: &Column, wanted: &str) -> Error {
        configuration(format!(
            "column {:?} of table {} has the type {}",
            column.name, self.options.table, column.type_name
        ))
        .advise(format!("change it to {wanted}"))
    }

    fn text(&self, name: &Identifier, is_name: bool) -> Result<TextColumn> {
        let column = self.get(name)?;
        let length = column.length.map(usize::try_from);
        let exact = (self.dialect.text)(column, is_name);
        Ok(TextColumn {
            length: length.and_then(Result::ok).unwrap_or(usize::MAX),
            exact: exact.map_err(|wanted| self.unfit(column, wanted))?,
        })
    }

    fn time(&self, name: &Identifier) -> Result<TimeColumn> {
        let column = self.get(name)?;
        let kind = (self.dialect.time)(&column.type_name);
        let digits = column.digits.and_then(|digits| u8::try_from(digits).ok());
        Ok(TimeColumn {
            kind: kind.map_err(|wanted| self.unfit(column, wanted))?,
            digits: digits.unwrap_or(self.dialect.assumed.lock_until.digits),
        })
    }

    /// Those of our own columns that are missing; all are 64-bit integers.
    fn missing(&self) -> Result<Vec<&'static str>> {
        let mut missing = Vec::new();
        for name in COLUMNS {
            let mut columns = self.columns.iter();
            match columns.find(|column| self.dialect.finds(column, name)) {
                None => missing.push(name),
                Some(column) if (self.dialect.is_integer)(&column.type_name) => {}
                Some(column) => return Err(self.unfit(column, "bigint")),
            }
        }
        Ok(missing)
    }
}

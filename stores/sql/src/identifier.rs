//! Names of tables and columns: checked here, quoted by the dialects, never spliced unquoted.

use std::fmt;

use shedlock_provider::{Result, invalid};

/// The name of a table, schema or column as the database stores it. It contains only letters,
/// digits, `_`, `$` and `-`, so that it can be quoted without escaping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identifier(Box<str>);

/// How a database changes the case of an unquoted name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// PostgreSQL: `shedLock` is the table `shedlock`.
    Lower,
    /// MySQL, MariaDB and SQLite: names stay as written.
    Keep,
}

impl Identifier {
    /// Parses a name as the database would in a statement without quotes, which is how ShedLock
    /// writes it: folded if the database folds names. A name in double quotes is used exactly as
    /// written.
    ///
    /// # Errors
    /// `InvalidInput` whose message contains `what`.
    pub(crate) fn parse(what: &str, text: &str, fold: Fold, longest: usize) -> Result<Self> {
        let quoted = text.strip_prefix('"');
        let name = match quoted.and_then(|rest| rest.strip_suffix('"')) {
            Some(inner) => inner.to_owned(),
            None if fold == Fold::Lower => text.to_ascii_lowercase(),
            None => text.to_owned(),
        };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'-');
        let starts_right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let why = if name.is_empty() {
            "it is empty".to_owned()
        } else if name.len() > longest {
            format!("this database limits names to {longest} bytes")
        } else if !starts_right || !name.bytes().all(is_plain) {
            "use ASCII letters, digits, '_', '$' and '-', and start with a letter or '_'".to_owned()
        } else {
            return Ok(Self(name.into()));
        };
        Err(invalid(format!("{what} cannot be called {text:?}: {why}")))
    }

    /// A name from the catalogue, unless it needs escaping.
    pub(crate) fn found(name: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.' | ' ');
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        is_name.then(|| Self(name.into()))
    }

    /// This name as the catalogue spells it, if it differs in nothing but its case.
    pub(crate) fn spelled(&self, found: &str) -> Option<Self> {
        let is_same = self.0.eq_ignore_ascii_case(found);
        is_same.then(|| Self(found.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name between two of these quotes, which it cannot contain.
    pub(crate) fn quoted(&self, quote: char) -> String {
        format!("{quote}{}{quote}", self.0)
    }
}

/// A table, with its schema (MySQL: its database) if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) schema: Option<Identifier>,
    pub(crate) name: Identifier,
}

impl Table {
    /// Parses `table` or `schema.table`, the two forms that ShedLock accepts.
    ///
    /// # Errors
    /// `InvalidInput`, also if a schema is given twice.
    pub(crate) fn parse(
        schema: Option<&str>,
        table: &str,
        fold: Fold,
        longest: usize,
    ) -> Result<Self> {
        let (schema, table) = match (schema, table.split_once('.')) {
            (schema, None) => (schema, table),
            (None, Some((schema, table))) => (Some(schema), table),
            (Some(schema), Some(_)) => {
                return Err(
                    invalid(format!("table {table:?} already includes a schema"))
                        .advise(format!("remove it there, or remove schema={schema:?}")),
                );
            }
        };
        let identifier = |what, text| Identifier::parse(what, text, fold, longest);
        let schema = schema.map(|schema| identifier("the schema", schema));
        Ok(Self {
            schema: schema.transpose()?,
            name: identifier("the table", table)?,
        })
    }

    /// The table that the catalogue lists with these names, unless one of them needs escaping.
    pub(crate) fn listed(schema: Option<&str>, name: &str) -> Option<Self> {
        let exact = |text: &str| {
            let quoted = format!("\"{text}\"");
            Identifier::parse("the table", &quoted, Fold::Keep, usize::MAX).ok()
        };
        let schema = match schema {
            Some(schema) => Some(exact(schema)?),
            None => None,
        };
        Some(Self {
            schema,
            name: exact(name)?,
        })
    }

    /// The options of a URL that name this table, where `usual` is the default one.
    pub(crate) fn url_options(&self, usual: &str, fold: Fold) -> String {
        let value = |name: &Identifier| match fold {
            Fold::Lower if name.0.contains(|c: char| c.is_ascii_uppercase()) => {
                format!("%22{}%22", name.0)
            }
            _ => name.0.to_string(),
        };
        let schema = self
            .schema
            .iter()
            .map(|name| format!("schema={}", value(name)));
        let name = Some(&self.name).filter(|name| name.as_str() != usual);
        let table = name.map(|name| format!("table={}", value(name)));
        schema.chain(table).collect::<Vec<_>>().join("&")
    }

    /// The same table in the schema in which it was found, unless the name includes one.
    pub(crate) fn found_in(&self, schema: Option<&Identifier>) -> Self {
        Self {
            schema: self.schema.as_ref().or(schema).cloned(),
            name: self.name.clone(),
        }
    }

    /// The table beside this one whose name has this suffix.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self {
            schema: self.schema.clone(),
            name: Identifier(format!("{}{suffix}", self.name.0).into()),
        }
    }

    /// The name for a statement, each part between two of these quotes.
    pub(crate) fn quoted(&self, quote: char) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(quote), self.name.quoted(quote)),
            None => self.name.quoted(quote),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "\"{}.{}\"", schema.0, self.name.0),
            None => write!(f, "{:?}", self.name.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    fn identifier(text: &str, fold: Fold) -> Result<Identifier> {
        Identifier::parse("the table", text, fold, 63)
    }

    #[test]
    fn plain_names_are_folded_as_the_database_does_and_quoted_ones_are_not() {
        let name = |text, fold| identifier(text, fold).unwrap().as_str().to_owned();
        assert_eq!(name("shedLock", Fold::Lower), "shedlock");
        assert_eq!(name("\"shedLock\"", Fold::Lower), "shedLock");
        assert_eq!(name("shedLock", Fold::Keep), "shedLock");
        assert_eq!(name("my-locks", Fold::Lower), "my-locks");
    }

    #[test]
    fn names_that_would_need_escaping_are_refused() {
        for bad in [
            "",
            "1a",
            "a b",
            "a;b",
            "a\"b",
            "a'b",
            "a`b",
            "ä",
            "\"\"",
            "-a",
            "a.b",
            "a:b",
            &"a".repeat(64),
        ] {
            let error = identifier(bad, Fold::Lower).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad:?}");
            assert!(error.to_string().starts_with("the table cannot be called"));
        }
    }

    #[test]
    fn a_table_may_name_its_schema_once() {
        let table = Table::parse(None, "jobs.Locks", Fold::Lower, 63).unwrap();
        assert_eq!(table.quoted('"'), "\"jobs\".\"locks\"");
        let table = Table::parse(Some("jobs"), "locks", Fold::Lower, 63).unwrap();
        assert_eq!(table.quoted('`'), "`jobs`.`locks`");
        assert!(Table::parse(Some("a"), "b.c", Fold::Lower, 63).is_err());
        assert!(Table::parse(None, "a.b.c", Fold::Lower, 63).is_err());
    }
}

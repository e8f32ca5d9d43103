//! What a migration needs or would change, as a script if the store has a language for it.

use serde::Serialize;
use shedlock::{MigrationStep, Schema};

use super::{json, visible};
use crate::args::Format;

#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    store: &'a str,
    create: Vec<Step<'a>>,
    upgrade: Vec<Step<'a>>,
    journal: Vec<Step<'a>>,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Planned<'a> {
    version: u32,
    store: &'a str,
    plan: Vec<Step<'a>>,
}

#[derive(Serialize)]
struct Step<'a> {
    change: &'a str,
    statement: Option<&'a str>,
}

/// What an empty store needs, and a container of ShedLock's.
pub(crate) fn schema(store: &str, schema: &Schema, format: Format) -> String {
    if format == Format::Json {
        return json::text(&Printed {
            version: json::VERSION,
            store,
            create: steps(&schema.create),
            upgrade: steps(&schema.upgrade),
            journal: steps(&schema.journal),
            note: schema.note.as_deref(),
        });
    }
    if schema.create.is_empty() {
        let note = schema.note.as_deref();
        let note = note.map_or_else(String::new, |note| format!(": {note}"));
        if schema.journal.is_empty() {
            return format!("{store}: nothing to create{note}\n");
        }
        let journal = script(store, &schema.journal);
        return format!("{store}: nothing to create for locks{note}\n{journal}");
    }
    let mut parts = vec![script(store, &schema.create)];
    if !schema.upgrade.is_empty() {
        let steps = schema.upgrade.iter();
        let statements = steps.filter_map(|step| step.statement.as_deref());
        let commented = |text: &str| format!("-- {};\n", text.replace('\n', "\n-- "));
        let upgrade: String = statements.map(commented).collect();
        parts.push(format!(
            "-- If ShedLock for Java created the table, run these statements instead:\n{upgrade}"
        ));
    }
    if !schema.journal.is_empty() {
        parts.push(script(store, &schema.journal));
    }
    if let Some(note) = &schema.note {
        let start = if is_sql(store) { "--" } else { "note:" };
        parts.push(format!("{start} {}\n", visible(note)));
    }
    parts.join("\n")
}

/// What a migration would change now.
pub(crate) fn plan(store: &str, plan: &[MigrationStep], format: Format) -> String {
    match format {
        Format::Json => json::text(&Planned {
            version: json::VERSION,
            store,
            plan: steps(plan),
        }),
        Format::Table if plan.is_empty() => format!("{store}: nothing to change\n"),
        Format::Table => script(store, plan),
    }
}

fn steps(steps: &[MigrationStep]) -> Vec<Step<'_>> {
    let steps = steps.iter().map(|step| Step {
        change: &step.change,
        statement: step.statement.as_deref(),
    });
    steps.collect()
}

/// Whether the store is prepared by a script in SQL.
pub(crate) fn is_sql(store: &str) -> bool {
    ["postgres", "mysql", "sqlite"].contains(&store)
}

/// Each change, and the statement that makes it. SQL can be given to the database as it is.
fn script(store: &str, steps: &[MigrationStep]) -> String {
    let is_sql = is_sql(store);
    let step = |step: &MigrationStep| {
        let change = visible(&step.change);
        match &step.statement {
            Some(statement) if is_sql => format!("-- {change}\n{statement};\n"),
            Some(statement) => format!("{store}: {change}:\n{statement}\n"),
            None if is_sql => format!("-- {change}\n"),
            None => format!("{store}: {change}\n"),
        }
    };
    let separator = if is_sql { "\n" } else { "" };
    steps.iter().map(step).collect::<Vec<_>>().join(separator)
}

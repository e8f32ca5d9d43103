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
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<Step<'a>>>,
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

/// What an empty store needs, and a container of ShedLock's; what this user needs to be granted.
pub(crate) fn schema(store: &str, schema: &Schema, role: Option<&str>, format: Format) -> String {
    let grants = role.map(|role| granted(store, schema, role));
    if format == Format::Json {
        return json::text(&Printed {
            version: json::VERSION,
            store,
            create: steps(&schema.create),
            upgrade: steps(&schema.upgrade),
            journal: steps(&schema.journal),
            grants: grants.as_deref().map(steps),
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
        let grants = grants.map_or_else(String::new, |grants| format!("\n{}", lines(&grants)));
        return match is_sql(store) {
            true => journal + &grants,
            false => format!("{store}: nothing to create for locks{note}\n{journal}"),
        };
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
    if let Some(grants) = grants {
        parts.push(lines(&grants));
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

/// The grants to this user.
fn granted(store: &str, schema: &Schema, role: &str) -> Vec<MigrationStep> {
    let user = match (store, role.rsplit_once('@')) {
        ("postgres", _) => format!("\"{role}\""),
        (_, Some((user, host))) => format!("'{user}'@'{host}'"),
        (_, None) => format!("'{role}'"),
    };
    // The two may need the same.
    let of_journal = schema.journal_grants.iter();
    let of_journal = of_journal.filter(|step| !schema.grants.contains(step));
    let grants = schema.grants.iter().chain(of_journal).map(|step| {
        let statement = step.statement.as_deref().unwrap_or_default();
        MigrationStep::new(format!("{} to {role:?}", step.change))
            .with_statement(format!("{statement} {user}"))
    });
    grants.collect()
}

/// Statements without what they change.
fn lines(steps: &[MigrationStep]) -> String {
    let statements = steps.iter().filter_map(|step| step.statement.as_deref());
    let statements = statements.map(|statement| format!("{statement};\n"));
    "-- what this user needs, and no more\n".to_owned() + &statements.collect::<String>()
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

//! `shedlock migrate`: preparing a store, or printing what that needs.

use std::process::ExitCode;
use std::sync::Arc;

use shedlock::{Journal, MigrationStep};

use crate::args::MigrateArgs;
use crate::exit::Failure;
use crate::output;
use crate::store::{self, Store};
use crate::terminal::Terminal;

/// Prepares the store and prints the changes, or only prints them.
pub(crate) async fn migrate(args: &MigrateArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    let text = if args.print {
        print(args).await?
    } else if args.dry_run {
        dry_run(args, terminal).await?
    } else {
        prepare(args, terminal).await?
    };
    terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn prepare(args: &MigrateArgs, terminal: Terminal) -> Result<String, Failure> {
    let store = Store::open(&args.store, terminal).await?;
    let mut migration = store.provider().migrate().await?;
    if args.journal {
        let journal = journal(&store)?;
        migration.changes.extend(journal.migrate().await?.changes);
    }
    let kind = store.provider().store();
    Ok(output::migration(kind, &migration, args.output.format))
}

/// What the store of the URL needs. Nothing is connected to.
async fn print(args: &MigrateArgs) -> Result<String, Failure> {
    let (kind, mut schema) = store::schema(&args.store).await?;
    if !args.journal {
        schema.journal.clear();
    } else if schema.journal.is_empty() {
        return Err(without_journal(kind, schema.note.as_deref()));
    }
    Ok(output::schema(kind, &schema, args.output.format))
}

/// What the store lacks now.
async fn dry_run(args: &MigrateArgs, terminal: Terminal) -> Result<String, Failure> {
    let format = args.output.format;
    if let Some(file) = store::missing_file(&args.store)? {
        let (kind, schema) = store::schema(&args.store).await?;
        let mut steps = vec![MigrationStep::new(format!("create file {file:?}"))];
        steps.extend(schema.create);
        if args.journal {
            steps.extend(schema.journal);
        }
        return Ok(output::plan(kind, &steps, format));
    }
    let store = Store::open_existing(&args.store, terminal).await?;
    let mut steps = store.provider().plan_migration().await?;
    if args.journal {
        steps.extend(journal(&store)?.plan_migration().await?);
    }
    Ok(output::plan(store.provider().store(), &steps, format))
}

fn journal(store: &Store) -> Result<Arc<dyn Journal>, Failure> {
    let journal = store.provider().journal();
    journal.ok_or_else(|| without_journal(store.provider().store(), None))
}

fn without_journal(kind: &str, note: Option<&str>) -> Failure {
    let why = note.map_or_else(String::new, |note| format!(" ({note})"));
    Failure::usage(format!(
        "a store of kind {kind} cannot keep a journal yet{why}: leave --journal out"
    ))
}

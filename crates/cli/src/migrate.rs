//! `shedlock migrate`: preparing a store, or printing what that needs.

use std::process::ExitCode;

use shedlock::{Advice, Error, Journal, Migration, MigrationStep, Schema};

use crate::args::{Format, MigrateArgs};
use crate::exit::Failure;
use crate::output;
use crate::restore::{identify, restore};
use crate::store::{self, Store};
use crate::terminal::Terminal;

/// Prepares the store and prints the changes, or only prints them.
pub(crate) async fn migrate(args: &MigrateArgs, terminal: Terminal) -> Result<ExitCode, Failure> {
    if args.restore_from_journal.is_some() {
        return restore(args, terminal).await;
    }
    let text = if args.print {
        print(args, terminal).await?
    } else if args.dry_run {
        dry_run(args, terminal).await?
    } else {
        prepare(args, terminal).await?
    };
    terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn prepare(args: &MigrateArgs, terminal: Terminal) -> Result<String, Failure> {
    let format = args.output.format;
    let store = match args.new_table {
        true => Store::open_to_prepare_new(&args.store, terminal).await?,
        false => Store::open_to_prepare(&args.store, terminal).await?,
    };
    let kind = store.provider().store();
    let migrated = store.provider().migrate().await;
    let place = store.journal_place();
    let Some(journal) = place.journal.clone().filter(|_| !args.no_journal) else {
        let mut migration = migrated?;
        if !args.no_journal {
            terminal.notice(&without_journal(&place.kind, None));
        }
        give_identity(&store, None, args, &mut migration, terminal).await?;
        return Ok(output::migration(kind, &migration, format));
    };
    let mut migration = match migrated {
        Ok(migration) => migration,
        Err(error) => return Err(with_journal(error, &store).await.into()),
    };
    let of_journal = journal.migrate().await?;
    give_identity(&store, Some(&*journal), args, &mut migration, terminal).await?;
    if store.has_own_journal() && format == Format::Table {
        let locks = output::migration(kind, &migration, format);
        let journal = output::migration(&place.kind, &of_journal, format);
        let is_empty = |migration: &Migration| migration.changes.is_empty();
        return Ok(of_both(
            (locks, is_empty(&migration)),
            (journal, is_empty(&of_journal)),
        ));
    }
    migration.changes.extend(of_journal.changes);
    Ok(output::migration(kind, &migration, format))
}

/// Gives the locks an identity unless they have one.
async fn give_identity(
    store: &Store,
    journal: Option<&dyn Journal>,
    args: &MigrateArgs,
    migration: &mut Migration,
    terminal: Terminal,
) -> Result<(), Failure> {
    if identify(store, journal, args, terminal).await? {
        migration
            .changes
            .push("gave the lock store an identity".to_owned());
    }
    Ok(())
}

/// Adds the journal's statements to those that an administrator is to run for the locks.
async fn with_journal(error: Error, store: &Store) -> Error {
    let wants_statements = matches!(error.advice().last(), Some(Advice::Statements(..)));
    let is_of_locks = wants_statements && !store.has_own_journal();
    let Some(journal) = store.journal().filter(|_| is_of_locks) else {
        return error;
    };
    let Ok(steps) = journal.plan_migration().await else {
        return error;
    };
    let statements = steps.iter().filter_map(|step| step.statement.as_deref());
    error.with_statements(statements.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// What the store of the URL needs, or only what its journal needs if that has a store of its own.
/// Nothing is connected to.
async fn print(args: &MigrateArgs, terminal: Terminal) -> Result<String, Failure> {
    let own = match args.no_journal {
        false => store::journal_schema(&args.store).await?,
        true => None,
    };
    let (kind, schema) = match own {
        Some((kind, schema)) => {
            let grants = Schema::default().grants(Vec::new(), schema.journal_grants);
            (kind, grants.journal(schema.journal))
        }
        None => store::schema(&args.store).await?,
    };
    let mut schema = schema;
    if args.no_journal {
        schema.journal.clear();
        schema.journal_grants.clear();
    } else if schema.journal.is_empty() {
        terminal.notice(&without_journal(kind, schema.note.as_deref()));
    }
    let role = args.grant_to.as_deref();
    if role.is_some() && schema.grants.is_empty() && schema.journal_grants.is_empty() {
        return Err(Failure::usage(format!(
            "--grant-to: {kind} has no statement that grants privileges on tables; use it with PostgreSQL, \
             MySQL or MariaDB"
        )));
    }
    Ok(output::schema(kind, &schema, role, args.output.format))
}

/// What the store lacks now, and that of the journal if it has one of its own.
async fn dry_run(args: &MigrateArgs, terminal: Terminal) -> Result<String, Failure> {
    let format = args.output.format;
    let own = match args.no_journal {
        false => store::own_journal(&args.store).await?,
        true => None,
    };
    let is_beside = !args.no_journal && own.is_none();
    let (kind, mut steps) = if let Some(file) = store::missing_file(&args.store)? {
        let (kind, schema) = store::schema(&args.store).await?;
        let mut steps = vec![MigrationStep::new(format!("create file {file:?}"))];
        steps.extend(schema.create);
        if is_beside {
            steps.extend(schema.journal);
        }
        (kind.to_owned(), steps)
    } else {
        let store = Store::open_existing(&args.store, terminal).await?;
        let mut steps = store.provider().plan_migration().await?;
        if let Some(journal) = store.journal().filter(|_| is_beside) {
            steps.extend(journal.plan_migration().await?);
        }
        (store.provider().store().to_owned(), steps)
    };
    if let Some((place, journal)) = own {
        let of_journal = journal.plan_migration().await?;
        if format == Format::Table {
            let locks = output::plan(&kind, &steps, format);
            let journal = output::plan(&place.kind, &of_journal, format);
            return Ok(of_both(
                (locks, steps.is_empty()),
                (journal, of_journal.is_empty()),
            ));
        }
        steps.extend(of_journal);
    }
    Ok(output::plan(&kind, &steps, format))
}

/// What was done in each of two stores. One where nothing was to do is left out if there was in the
/// other.
fn of_both(locks: (String, bool), journal: (String, bool)) -> String {
    match (locks, journal) {
        ((_, true), (journal, false)) => journal,
        ((locks, false), (_, true)) => locks,
        ((locks, _), (journal, _)) => locks + &journal,
    }
}

/// Why only the locks are prepared.
fn without_journal(kind: &str, note: Option<&str>) -> String {
    // The note of another store is about its locks.
    let why = note.filter(|_| output::is_sql(kind));
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!(
        "{kind} cannot keep a journal{why}; to record jobs and runs, set the URL of another store for it \
         with --journal-store"
    )
}

//! The files in `statements`: each whole statement of each dialect, for review. A test compares them with what the code
//! makes.

use std::fs;
use std::path::Path;

use shedlock_provider::TimeMode;

use crate::dialect::mysql::MYSQL;
use crate::dialect::postgres::POSTGRES;
use crate::dialect::sqlite::SQLITE;
use crate::dialect::{Claim, Dialect, End, Step};
use crate::identifier::{Fold, Identifier};
use crate::options::{COLUMNS, Options, Settings};
use crate::shape::{Shape, TimeKind};
use crate::statement::Statement;
use crate::{journal, schema};

/// Writes the files instead of comparing them, if it is `record`.
const VARIABLE: &str = "SHEDLOCK_STATEMENTS";

/// No line of a file is longer than this, unless a word is.
const WIDTH: usize = 118;

#[test]
fn the_statements_of_postgres_stand_in_their_file() {
    let mut listing = Listing::of("PostgreSQL", &POSTGRES);
    listing.variation(
        "columns of type timestamptz",
        |_| {},
        time(TimeKind::Instant, 6),
    );
    listing.variation(
        "columns of type timestamp(0)",
        |_| {},
        time(TimeKind::Wall, 0),
    );
    listing.variation(
        "a server that waits for its disk",
        |_| {},
        |shape| shape.server = "15.1, waits for its disk".to_owned(),
    );
    listing.variation(
        "durable_unlock",
        |options| options.durable_unlock = true,
        |_| {},
    );
    listing.of_all_dialects();
    listing.lent();
    listing.compare("postgres");
}

#[test]
fn the_statements_of_mysql_stand_in_their_file() {
    let mut listing = Listing::of("MySQL and MariaDB", &MYSQL);
    listing.variation(
        "columns of type DATETIME(6)",
        |_| {},
        time(TimeKind::Wall, 6),
    );
    listing.variation(
        "columns of type TIMESTAMP",
        |_| {},
        time(TimeKind::Instant, 0),
    );
    listing.variation(
        "an owner whose collation is not exact",
        |_| {},
        |shape| shape.locked_by.exact = false,
    );
    listing.variation(
        "shared_session_zone",
        |options| options.shared_session_zone = Some("+05:30".to_owned()),
        |_| {},
    );
    listing.variation(
        "a server that logs statements",
        |_| {},
        |shape| shape.server = "10.11, binlog_format is STATEMENT".to_owned(),
    );
    listing.of_all_dialects();
    listing.compare("mysql");
}

#[test]
fn the_statements_of_sqlite_stand_in_their_file() {
    let mut listing = Listing::of("SQLite", &SQLITE);
    listing.of_all_dialects();
    listing.compare("sqlite");
}

/// Columns of this type.
fn time(kind: TimeKind, digits: u8) -> impl Fn(&mut Shape) {
    move |shape: &mut Shape| {
        for column in [&mut shape.lock_until, &mut shape.locked_at] {
            (column.kind, column.digits) = (kind, digits);
        }
    }
}

/// A file that is being written.
struct Listing {
    dialect: &'static Dialect,
    options: Options,
    shape: Shape,
    text: String,
}

/// What stands for all steps in a variation.
const STEPS: [Step; 6] = [
    Step::Attempt(Claim::Nothing),
    Step::ReadToDecide,
    Step::Extend,
    Step::Unlock(End::Failed),
    Step::Settle,
    Step::List { held_only: true },
];

impl Listing {
    /// All statements for the default options.
    fn of(title: &str, dialect: &'static Dialect) -> Self {
        let options = dialect.options(Settings::default());
        let mut listing = Self {
            dialect,
            options: options.expect("valid settings"),
            shape: dialect.assumed.clone(),
            text: format!(
                "-- The statements for {title}. `:word` stands for a value.\n\
                 -- A test compares this file with what the code makes, and writes it with\n\
                 -- {VARIABLE}=record cargo test -p shedlock-sql --all-features --lib stand_in_their_file\n"
            ),
        };
        listing.locks();
        listing.table();
        listing.server();
        listing.journal();
        listing
    }

    fn title(&mut self, title: &str) {
        self.text += &format!("\n\n-- ## {title}\n");
    }

    /// Adds statements with their names. Those that are alike stand together.
    fn add(&mut self, statements: impl IntoIterator<Item = (String, String)>) {
        let mut groups: Vec<(String, String)> = Vec::new();
        for (name, text) in statements {
            match groups.iter_mut().find(|(_, known)| *known == text) {
                Some((names, _)) => *names += &format!("; {name}"),
                None => groups.push((name, text)),
            }
        }
        for (names, text) in groups {
            self.text += &format!("\n-- {names}\n{};\n", laid_out(&text));
        }
    }

    fn locks(&mut self) {
        let mut bare = self.shape.clone();
        bare.is_complete = false;
        let [complete, bare] =
            [&self.shape, &bare].map(|shape| self.dialect.statements(&self.options, shape));
        let text = |it: Option<&Statement>| it.map(|it| it.template.clone());
        let mut all = Vec::new();
        for step in Step::ALL {
            match (text(complete.get(step)), text(bare.get(step))) {
                (Some(complete), bare) if bare.as_ref() == Some(&complete) => {
                    all.push((format!("{step:?}"), complete));
                }
                (complete, bare) => {
                    all.extend(complete.map(|text| (format!("{step:?}, complete"), text)));
                    all.extend(bare.map(|text| (format!("{step:?}, bare"), text)));
                }
            }
        }
        self.title("Locks, in a complete table and in a bare one");
        self.add(all);
    }

    /// Some of the statements for a lock, where the settings or the table are not the usual ones.
    fn variation(
        &mut self,
        title: &str,
        set: impl FnOnce(&mut Settings),
        change: impl FnOnce(&mut Shape),
    ) {
        let mut settings = Settings::default();
        set(&mut settings);
        let options = self.dialect.options(settings).expect("valid settings");
        let mut shape = self.shape.clone();
        change(&mut shape);
        self.differing(title, &options, &shape, &STEPS);
    }

    fn differing(&mut self, title: &str, options: &Options, shape: &Shape, steps: &[Step]) {
        let usual = self.dialect.statements(&self.options, &self.shape);
        let statements = self.dialect.statements(options, shape);
        let of_step = |step: &Step| Some((*step, statements.get(*step)?, usual.get(*step)?));
        let all = steps.iter().filter_map(of_step);
        let differ = all.filter(|(_, statement, usual)| statement.template != usual.template);
        let named =
            differ.map(|(step, statement, _)| (format!("{step:?}"), statement.template.clone()));
        let named: Vec<_> = named.collect();
        self.title(&format!("Some statements that differ: {title}"));
        self.add(named);
    }

    fn of_all_dialects(&mut self) {
        self.variation(
            "a name whose collation is not exact",
            |_| {},
            |shape| shape.name.exact = false,
        );
        self.variation("time=client", |it| it.time = TimeMode::client(), |_| {});
        let settings = Settings {
            table: Some("\"jobs\".\"Locks\"".to_owned()),
            name_column: "\"Name\"".to_owned(),
            lock_until_column: "\"Until\"".to_owned(),
            locked_at_column: "\"Since\"".to_owned(),
            locked_by_column: "\"Holder\"".to_owned(),
            ..Settings::default()
        };
        let options = self.dialect.options(settings).expect("valid settings");
        let steps = [Step::Attempt(Claim::Nothing), Step::Insert(Claim::Nothing)];
        self.differing("other names", &options, &self.shape.clone(), &steps);
    }

    /// In a session that is not ours.
    fn lent(&mut self) {
        let mut options = self.options.clone();
        options.are_lent = true;
        options.checks_itself = true;
        self.differing("a user's pool", &options, &self.shape.clone(), &STEPS);
    }

    fn table(&mut self) {
        let (dialect, options, shape) = (self.dialect, &self.options, &self.shape);
        let mut bare = shape.clone();
        bare.is_complete = false;
        let mut all = vec![
            named("the columns", &dialect.probing(options)),
            (
                "a missing table".to_owned(),
                dialect.table_creation(options),
            ),
        ];
        for addition in dialect.additions(options, &COLUMNS) {
            all.push(named(&addition.step().change, &addition.statement));
        }
        if let Some((is_missing, create)) = dialect.index(options, shape) {
            all.push(named(
                "whether the index of names can be added",
                &is_missing,
            ));
            all.push(("the index of names".to_owned(), create));
        }
        for (shape, name) in [(shape, "complete"), (&bare, "bare")] {
            for statement in dialect.rehearsals(options, shape) {
                all.push(named(
                    &format!("a rehearsal that writes nothing, {name}"),
                    &statement,
                ));
            }
        }
        let schema = Identifier::parse("the schema", "jobs", Fold::Keep, 63).expect("a name");
        all.extend([
            named(
                "whether a schema exists",
                &dialect.finding_schema(options, &schema),
            ),
            named("other lock tables", &dialect.finding_others(options)),
            named(
                "when a table was used last",
                &dialect.last_use(options, shape),
            ),
            named(
                "names in both",
                &dialect.names_in_both([(options, shape); 2]),
            ),
            named(
                "what Java took lately",
                &dialect.taken_by_java(options, shape),
            ),
        ]);
        let spelling = dialect.finding_spelling(options);
        all.extend(spelling.map(|it| named("a name that differs in case", &it)));
        self.title("The table");
        self.add(all);
    }

    fn server(&mut self) {
        let (dialect, options) = (self.dialect, &self.options);
        let mut all = Vec::new();
        let mut text = |name: &str, text: Option<&str>| {
            let text = text.map(|text| text.trim_matches([';', ' ']));
            all.extend(
                text.filter(|it| !it.is_empty())
                    .map(|text| (name.to_owned(), text.to_owned())),
            );
        };
        let proof = &dialect.proofs(options).usual;
        text("a new session", dialect.session_init);
        text(
            "before each statement on a connection that is not ours",
            Some(proof.before),
        );
        text(
            "after each statement on a connection that is not ours",
            Some(&proof.after),
        );
        text("to make space on a full disk", dialect.makes_space);
        for check in (dialect.checks)(options) {
            let name = format!("doctor: {}", check.name);
            text(&name, Some(&dialect.checking(options, &check).template));
        }
        if let Some(follows) = &dialect.follows {
            let running = dialect.condition(options, follows.running);
            text("doctor: whether it is a replica", Some(&running.template));
            for sources in follows.sources {
                text("doctor: its sources", Some(sources));
            }
        }
        let statement = |it: Option<Statement>| it.map(|it| it.template);
        text(
            "cancels a session of ours",
            statement(dialect.cancelling("1 2")).as_deref(),
        );
        text(
            "a standby's time",
            statement(dialect.written_until()).as_deref(),
        );
        self.title("The server");
        self.add(all);
    }

    fn journal(&mut self) {
        let (dialect, options) = (self.dialect, &self.options);
        let definitions = journal::definitions(dialect, options).expect("short names");
        let definitions = definitions.iter().map(|definition: &schema::Definition| {
            named(&definition.step().change, &definition.statement)
        });
        let definitions: Vec<_> = definitions.collect();
        let listed = journal::listed(dialect, options);
        let listed: Vec<_> = listed.iter().map(|(name, it)| named(name, it)).collect();
        self.title("The journal's tables");
        self.add(definitions);
        self.title("The journal");
        self.add(listed);
    }

    fn compare(self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("statements");
        let path = folder.join(format!("{name}.sql"));
        if std::env::var_os(VARIABLE).is_some_and(|it| it == "record") {
            fs::write(&path, &self.text).expect("the file can be written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let mut lines = found.lines().zip(self.text.lines()).enumerate();
        if let Some((at, (file, code))) = lines.find(|(_, (file, code))| file != code) {
            panic!(
                "line {} of {path:?} is\n{file}\nand the code makes\n{code}\nread what changed, and write it with \
                 {VARIABLE}=record",
                at + 1
            );
        }
        assert_eq!(
            found.len(),
            self.text.len(),
            "{path:?}; write it with {VARIABLE}=record"
        );
    }
}

fn named(name: &str, statement: &Statement) -> (String, String) {
    (name.to_owned(), statement.template.clone())
}

/// A statement in lines: each clause, each condition and each assignment starts a new one, and so do their parts where a
/// line would be too long.
fn laid_out(text: &str) -> String {
    if text.contains('\n') || text.len() < WIDTH {
        return text.to_owned();
    }
    let mut lines = Vec::new();
    for clause in parts(text, Some(0), starts_clause) {
        let assigns = clause.starts_with("SET ");
        let starts = |before: &str, word: &str| {
            ["AND", "OR"].contains(&word) || assigns && before.ends_with(',')
        };
        for (nth, part) in parts(&clause, Some(0), starts).into_iter().enumerate() {
            broken(&part, if nth == 0 { 0 } else { 2 }, &mut lines);
        }
    }
    lines.join("\n")
}

fn starts_clause(before: &str, word: &str) -> bool {
    const CLAUSES: [&str; 9] = [
        "SELECT",
        "FROM",
        "LEFT",
        "WHERE",
        "GROUP",
        "ORDER",
        "RETURNING",
        "SET",
        "VALUES",
    ];
    let is_clause = CLAUSES.contains(&word) && before != "UPDATE";
    is_clause || word == "UPDATE" && before == "*/" || before.ends_with(';')
}

/// Adds a text as one line if it is short enough, and otherwise in as few as its outermost parts need.
fn broken(text: &str, indent: usize, lines: &mut Vec<String>) {
    const WORDS: [&str; 9] = [
        "AND", "OR", "WHEN", "THEN", "ELSE", "ON", "WHERE", "LEFT", "GROUP",
    ];
    let starts = |before: &str, word: &str| {
        let is_query = word == "FROM" && !before.ends_with("(epoch");
        before.ends_with(',') || is_query || WORDS.contains(&word)
    };
    let parts = match indent + text.len() <= WIDTH {
        true => Vec::new(),
        false => parts(text, None, starts),
    };
    if parts.len() < 2 {
        lines.push(format!("{:indent$}{text}", ""));
        return;
    }
    let (mut line, mut at) = (String::new(), indent);
    for part in parts {
        if line.is_empty() {
            line = part;
        } else if at + line.len() + part.len() < WIDTH {
            line = format!("{line} {part}");
        } else {
            broken(&line, at, lines);
            (line, at) = (part, indent + 2);
        }
    }
    broken(&line, at, lines);
}

/// Splits a text before each word that starts a part, after the word before: at this depth, or at the least one where it can be
/// split.
fn parts(text: &str, depth: Option<i64>, starts: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let count =
        |text: &str, marks: &[char]| i64::try_from(text.matches(marks).count()).unwrap_or(0);
    let (mut at, mut is_quoted, mut before) = (0, false, "");
    let mut words = Vec::new();
    for word in text.split(' ') {
        let is_start = !before.is_empty() && !is_quoted && starts(before, word);
        words.push((word, is_start.then_some(at)));
        is_quoted ^= count(word, &['\'', '"', '`']) % 2 == 1;
        let is = |condition: bool| i64::from(condition);
        at += count(word, &['(']) + is(word.ends_with("CASE")) + is(word.starts_with("/*"));
        at -= count(word, &[')']) + is(word.starts_with("END")) + is(word.ends_with("*/"));
        before = word;
    }
    let depth = depth.or(words.iter().filter_map(|(_, start)| *start).min());
    let mut parts = vec![String::new()];
    for (word, start) in words {
        match parts.last_mut() {
            Some(part) if part.is_empty() => part.push_str(word),
            Some(part) if start.is_none() || start != depth => *part += &format!(" {word}"),
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

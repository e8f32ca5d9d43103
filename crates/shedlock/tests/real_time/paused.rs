//! A holder that is stopped (SIGSTOP) until its lease has expired and another process has the lock.
//!
//! When it wakes, neither its task nor any task that it had spawned with the lock is polled again. The
//! fencing guard refuses a write that could not be stopped. The other process's lease is not touched.

use std::future::poll_fn;
use std::io::{BufRead as _, BufReader, Write as _};
use std::pin::pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use shedlock::{Executor, LockConfig, LockName, LockRecord, Outcome, connect, current_lock};
use sqlx::{AnyPool, AssertSqlSafe, Row as _};

use crate::places::{Place, own};
use crate::{block_on, pause};

const LOCK: &str = "report";
/// The first holder's lease. The second holder's lease is long.
const LEASE: &str = "8s";

/// A process that takes the lock and writes under it. It is this test program, started again.
pub(crate) struct Holder {
    locks: String,
    database: String,
    fence: String,
    lock_at_most_for: String,
}

const VARIABLES: [&str; 4] = [
    "PAUSED_LOCKS",
    "PAUSED_DATABASE",
    "PAUSED_FENCE",
    "PAUSED_AT_MOST",
];

impl Holder {
    /// Reads a holder from the environment, if this process was started as one.
    pub(crate) fn from_env() -> Option<Self> {
        let [locks, database, fence, lock_at_most_for] = VARIABLES.map(std::env::var);
        Some(Self {
            locks: locks.ok()?,
            database: database.ok()?,
            fence: fence.ok()?,
            lock_at_most_for: lock_at_most_for.ok()?,
        })
    }

    /// Waits for the lock, writes under it until its input ends or its lease is lost, and then
    /// tries to write once more.
    pub(crate) async fn run(self) {
        let fence = Arc::new(Fence::connect(&self.database, self.fence).await);
        let executor = Executor::new(connect(&self.locks).await.unwrap());
        let config = LockConfig::new(LOCK)
            .lock_at_most_for(self.lock_at_most_for)
            .lock_wait("60s");
        let (told, mut end) = tokio::sync::mpsc::channel(1);
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            let _ = told.blocking_send(());
        });
        let token = Arc::new(AtomicU64::new(0));
        let (polls, last_token) = (Arc::new(AtomicU64::new(0)), token.clone());
        let (counter, writer) = (polls.clone(), fence.clone());
        let task = async move {
            let lock = current_lock().unwrap();
            token.store(lock.fencing_token().unwrap(), Ordering::SeqCst);
            // This task is not stopped; only the guard can refuse its writes.
            tokio::spawn(write_on(
                "detached",
                writer.clone(),
                token.clone(),
                polls.clone(),
            ));
            let carried = write_on("carried", writer.clone(), token.clone(), polls.clone());
            drop(lock.spawn(carried).unwrap());
            let writes = write_on("task", writer, token, polls);
            tokio::select! {
                () = writes => {}
                _ = end.recv() => {}
            }
        };
        let outcome = executor
            .execute(&config, counted(task, counter.clone()))
            .await;
        match outcome.unwrap() {
            Outcome::Executed { .. } => say("executed"),
            Outcome::Lost { reason, .. } => say(&format!("lost: {reason}")),
            other => say(&format!("{other:?}")),
        }
        let late = fence.write(&last_token, &counter).await;
        say(&format!("late {late}"));
        // Leave time for the task that is not stopped.
        pause(Duration::from_secs(4)).await;
    }
}

/// Counts the polls of a task, and prints each before it begins.
async fn counted<F: Future>(task: F, polls: Arc<AtomicU64>) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| {
        let number = polls.fetch_add(1, Ordering::SeqCst) + 1;
        say(&format!("poll {number}"));
        task.as_mut().poll(context)
    })
    .await
}

async fn write_on(who: &str, fence: Arc<Fence>, token: Arc<AtomicU64>, polls: Arc<AtomicU64>) {
    loop {
        let rows = fence.write(&token, &polls).await;
        say(&format!("{who} wrote {rows}"));
        pause(Duration::from_secs(2)).await;
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

/// The row that holders write to, with the token of its last writer, as on the manual's page on
/// fencing.
struct Fence {
    pool: AnyPool,
    table: String,
    is_postgres: bool,
}

impl Fence {
    async fn connect(url: &str, table: String) -> Self {
        sqlx::any::install_default_drivers();
        Self {
            pool: AnyPool::connect(url).await.unwrap(),
            table,
            is_postgres: url.starts_with("postgres"),
        }
    }

    async fn create(&self) {
        let table = &self.table;
        for statement in [
            format!(
                "CREATE TABLE {table} (id INT PRIMARY KEY, token BIGINT NOT NULL, polls BIGINT NOT NULL)"
            ),
            format!("INSERT INTO {table} VALUES (1, 0, 0)"),
        ] {
            let query = sqlx::query(AssertSqlSafe(statement));
            query.execute(&self.pool).await.unwrap();
        }
    }

    /// Writes unless a holder with a later token has written. Returns the number of rows.
    async fn write(&self, token: &AtomicU64, polls: &AtomicU64) -> u64 {
        let table = &self.table;
        let statement = if self.is_postgres {
            format!("UPDATE {table} SET polls = $1, token = $2 WHERE id = 1 AND token <= $3")
        } else {
            format!("UPDATE {table} SET polls = ?, token = ? WHERE id = 1 AND token <= ?")
        };
        let number = |value: &AtomicU64| i64::try_from(value.load(Ordering::SeqCst)).unwrap();
        let query = sqlx::query(AssertSqlSafe(statement))
            .bind(number(polls))
            .bind(number(token))
            .bind(number(token));
        query.execute(&self.pool).await.unwrap().rows_affected()
    }

    /// Returns the current token.
    async fn token(&self) -> i64 {
        let query = format!("SELECT token FROM {}", self.table);
        let row = sqlx::query(AssertSqlSafe(query)).fetch_one(&self.pool);
        row.await.unwrap().get(0)
    }
}

/// A running holder, and the lines that it has printed.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    said: Arc<Mutex<Vec<String>>>,
    more: mpsc::Receiver<()>,
}

impl Running {
    fn start(values: [&str; 4]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .envs(VARIABLES.into_iter().zip(values))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let said = Arc::new(Mutex::new(Vec::new()));
        let (tell, more) = mpsc::channel();
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                heard.lock().unwrap().push(line);
                let _ = tell.send(());
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            said,
            more,
        }
    }

    /// Waits until the holder has printed this line.
    fn says(&self, line: &str) {
        while !self.said.lock().unwrap().iter().any(|said| said == line) {
            let ended = self.more.recv();
            assert!(
                ended.is_ok(),
                "no {line:?}: {:?}",
                self.said.lock().unwrap()
            );
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the process, and waits until it is stopped.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        let (_, status) = stopped.unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// Waits for the end of the process. Returns the lines after the first `since`.
    fn ends(mut self, since: usize) -> Vec<String> {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
        while self.more.recv().is_ok() {}
        self.said.lock().unwrap().split_off(since)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn test(place: &Place, case: &str) {
    let (locks, database) = (place.locks(case), place.url().unwrap());
    let (fence, provider) = block_on(async {
        let fence = Fence::connect(&database, own(&format!("{case}_fence"))).await;
        fence.create().await;
        let provider = connect(&locks).await.unwrap();
        provider.migrate().await.unwrap();
        (fence, provider)
    });
    drop(provider);
    let record = || -> LockRecord {
        block_on(async {
            let provider = connect(&locks).await.unwrap();
            let name = LockName::new(LOCK).unwrap();
            provider.inspect(&name).await.unwrap().unwrap()
        })
    };

    let first = Running::start([&locks, &database, &fence.table, LEASE]);
    for who in ["task", "carried", "detached"] {
        first.says(&format!("{who} wrote 1"));
    }
    let second = Running::start([&locks, &database, &fence.table, "10m"]);
    // The first holder sleeps for two seconds between two writes. Wait until it does.
    block_on(pause(Duration::from_millis(300)));
    first.stop();
    second.says("task wrote 1");
    let (before, lines) = (record(), first.said.lock().unwrap().len());
    first.signal(Signal::CONT);
    let woken = first.ends(lines);

    let has = |line: &str| woken.iter().any(|said| said.starts_with(line));
    assert!(has("lost: "), "{woken:?}");
    assert!(!has("poll"), "the task was polled again: {woken:?}");
    assert!(!has("task"), "the task wrote again: {woken:?}");
    assert!(!has("carried"), "what it had spawned ran on: {woken:?}");
    assert!(has("detached wrote 0") && has("late 0"), "{woken:?}");
    assert!(
        !has("detached wrote 1"),
        "a late write was let in: {woken:?}"
    );

    let after = record();
    assert_eq!(
        (&after.owner, after.locked_until, after.fencing_token),
        (&before.owner, before.locked_until, before.fencing_token),
        "the other's lease was touched"
    );
    let said = second.ends(0);
    assert!(said.iter().any(|line| line == "executed"), "{said:?}");
    assert!(said.iter().any(|line| line == "late 1"), "{said:?}");
    let token = block_on(async {
        let fence = Fence::connect(&database, fence.table).await;
        fence.token().await
    });
    assert_eq!(u64::try_from(token).ok(), before.fencing_token);
}

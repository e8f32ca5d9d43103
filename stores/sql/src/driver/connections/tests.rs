//! Idle connections over PostgreSQL, through the fault proxy, with a clock that can be advanced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use shedlock_conformance::proxy::{Proxy, Strike, contains};
use shedlock_conformance::support::address;
use shedlock_core::{BoxFuture, Clock, Moment, SystemClock};
use tokio_postgres::Config;

use super::*;
use crate::failure::Class;
use crate::options::Settings;
use crate::session::{Connect, TokioPostgres};
use crate::statement::{Cell, Field};
use crate::url::{Address, Remote as _};

/// The machine's clock, advanced by this many seconds.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicU64>);

impl Ahead {
    fn by(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

impl Clock for Ahead {
    fn now(&self) -> Moment {
        SystemClock.now() + self.by()
    }

    fn system_time(&self) -> SystemTime {
        SystemClock.system_time()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let by = moment.since_origin().saturating_sub(self.by());
        SystemClock.sleep_until(Moment::from_origin(by))
    }
}

struct Line {
    proxy: Proxy,
    connections: Connections<TokioPostgres>,
    clock: Ahead,
}

impl Line {
    /// Returns `None` if the run is limited to other stores.
    async fn new() -> Option<Self> {
        let url = std::env::var("SHEDLOCK_TEST_POSTGRES_URL").ok()?;
        let proxy = Proxy::start(address(&url, 5432)?).await.ok()?;
        let mut connect = connect(&url);
        let (host, port) = (proxy.addr().ip().to_string(), proxy.addr().port());
        let mut config = Config::new();
        let (given, was) = (&mut config, &connect.config);
        given.host(host).port(port);
        was.get_user().map(|user| given.user(user));
        was.get_password().map(|password| given.password(password));
        was.get_dbname().map(|database| given.dbname(database));
        connect.config = config;
        let clock = Ahead::default();
        let connections = Connections::own(connect, 4, TEN, &told(&clock));
        Some(Self {
            proxy,
            connections,
            clock,
        })
    }

    async fn acquire(&self) -> InUse<TokioPostgres> {
        let deadline = deadline(&self.clock);
        let acquired = self.connections.acquire(Wanted::Any, &deadline).await;
        acquired.expect("the server answers new connections")
    }

    /// Leaves one connection that has been idle for this long.
    async fn idle_for(&self, seconds: u64) {
        let held = self.acquire().await;
        assert!(held.is_new());
        held.finished();
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

fn told(clock: &Ahead) -> Options {
    let settings = Settings {
        clock: Arc::new(clock.clone()),
        ..Settings::default()
    };
    TokioPostgres::DIALECT
        .options(settings)
        .expect("valid settings")
}

fn deadline(clock: &(impl Clock + Clone)) -> Deadline {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    Deadline::new(&clock, TEN)
}

const TEN: Duration = Duration::from_secs(10);

/// What `ping` sends.
const PING: &[u8] = b"Q\0\0\0\x05\0";

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_that_was_cut_silently_costs_a_moment_and_not_the_call() {
    let Some(line) = Line::new().await else {
        return;
    };
    line.idle_for(60).await;
    let cut = line
        .proxy
        .on_request(contains(PING), 1, Strike::SwallowRequest);
    assert!(line.acquire().await.is_new());
    assert!(cut.has_struck());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_that_lives_is_used_again() {
    let Some(line) = Line::new().await else {
        return;
    };
    line.idle_for(60).await;
    assert!(!line.acquire().await.is_new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_idle_for_minutes_is_not_used_again() {
    let Some(line) = Line::new().await else {
        return;
    };
    line.idle_for(600).await;
    assert!(line.acquire().await.is_new());
}

/// Runs a statement that may be prepared, on the next connection, and returns how many its session then keeps.
async fn kept(connections: &Connections<TokioPostgres>) -> i64 {
    let clock = SystemClock;
    let deadline = deadline(&clock);
    let acquired = connections.acquire(Wanted::Any, &deadline).await;
    let mut held = acquired.expect("the server answers");
    let mut session = held.session();
    let run = session.run(&prepared(), &Values::default()).await;
    run.expect("the statement is valid");
    let mut count = Statement::plain("SELECT count(*) FROM pg_prepared_statements");
    count.fields = &[Field::Number];
    let reply = session.run(&count, &Values::default()).await;
    let row = reply.expect("the view exists").rows.pop();
    held.finished();
    match row.expect("a count").cells[..] {
        [Cell::Number(Some(count))] => count,
        ref other => panic!("a count is a number: {other:?}"),
    }
}

fn prepared() -> Statement {
    let mut statement = Statement::plain("SELECT 1");
    statement.prepared = true;
    statement
}

/// How the server of this URL is reached.
fn connect(url: &str) -> Connect {
    let mut address = Address::parse(url).expect("the server's URL can be read");
    TokioPostgres::read(&mut address).expect("the server's URL can be read")
}

/// Our own connections, one at most.
fn own(variable: &str, prepared: Option<bool>) -> Option<Connections<TokioPostgres>> {
    let url = std::env::var(variable).ok()?;
    let settings = Settings {
        prepared,
        ..Settings::default()
    };
    let told = TokioPostgres::DIALECT.options(settings);
    let told = told.expect("valid settings");
    Some(Connections::own(connect(&url), 1, TEN, &told))
}

#[tokio::test]
async fn statements_are_kept_in_sessions_that_are_ours() {
    const DIRECT: &str = "SHEDLOCK_TEST_POSTGRES_URL";
    const BOUNCER: &str = "SHEDLOCK_TEST_PGBOUNCER_URL";
    for (variable, prepared, expected) in [
        (DIRECT, None, 1),
        (DIRECT, Some(true), 1),
        (DIRECT, Some(false), 0),
        (BOUNCER, None, 0),
    ] {
        // The run is limited to other stores, or xtask has reported that there is no PgBouncer.
        if let Some(connections) = own(variable, prepared) {
            // The second connection needs no mark.
            for connections in [&connections, &connections.second()] {
                let kept = kept(connections).await;
                assert_eq!(kept, expected, "{variable} {prepared:?}");
            }
        }
    }
}

/// A pooler that passes the mark on is not recognized by it.
#[tokio::test]
async fn a_session_that_loses_a_statement_is_the_last_one_that_keeps_any() {
    let Some(connections) = own("SHEDLOCK_TEST_POSTGRES_URL", None) else {
        return;
    };
    assert_eq!(kept(&connections).await, 1);
    let clock = SystemClock;
    let deadline = deadline(&clock);
    let acquired = connections.acquire(Wanted::Any, &deadline).await;
    let mut held = acquired.expect("the server answers");
    let values = Values::default();
    let forget = Statement::plain("DEALLOCATE ALL");
    let forgotten = held.session().run(&forget, &values).await;
    forgotten.expect("the statement is valid");
    let failure = held.session().run(&prepared(), &values).await.unwrap_err();
    assert_eq!(failure.class, Class::Prepared);
    assert!(held.lost_a_statement());
    drop(held);
    assert_eq!(kept(&connections).await, 0);
}

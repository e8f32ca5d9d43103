#![doc = include_str!("../README.md")]

mod attr;
mod expand;
mod function;
#[cfg(all(test, feature = "scheduled"))]
mod fuzz;
mod name;
mod return_type;
#[cfg(feature = "scheduled")]
mod scheduled;
mod taken;

/// Runs the function under a lock: on one of many replicas, and not at all if another process holds
/// the lock.
///
/// ```
/// use shedlock::scheduler_lock;
///
/// #[scheduler_lock(name = "payroll", lock_at_most_for = "10m", lock_at_least_for = "30s")]
/// async fn payroll() {
///     // Runs on one replica; the others skip.
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// // Once, at the start of the program:
/// shedlock::set_global_provider(shedlock::connect("memory:").await?)?;
/// // Wherever a scheduler calls it:
/// payroll().await;
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
///
/// It works on free functions and methods, async and blocking. Everything else about the function
/// stays unchanged: its attributes, documentation, visibility, generics and arguments.
///
/// # Arguments
///
/// | key | value |
/// |---|---|
/// | `name` | the name of the lock; see below |
/// | `lock_at_most_for` | the lease ends this long after acquisition if it is not unlocked. Choose a value longer than the function ever runs. Without it, the default of the executor or provider applies |
/// | `lock_at_least_for` | the lock stays taken at least this long, however quickly the function ends. Choose a value longer than the skew between the clocks and timers of the replicas. Without it, the default applies, or zero |
/// | `keep_alive` | the lease is extended while the function runs, each time a third of it has passed; `lock_at_most_for` then only determines how long the lock outlives a process that dies. Alone, or with a `bool` |
/// | `max_run_time` | the function is stopped after this run time. It limits a function that hangs under `keep_alive` |
/// | `lock_wait` | how long to wait for a lock that another owner holds, instead of skipping at once |
/// | `expect_every` | for a function that another scheduler calls: how often it must succeed. The journal of the executor, if it has one, then keeps a deadline for it, from its first call on |
/// | `provider` | where the lock is: an `Arc` of a provider, or an `Executor` with its own defaults and listener, or a reference to one of them. Without it, the one of [`with_provider`] or `with_executor`, otherwise the one of [`set_global_provider`] or `set_global_executor` |
/// | `crate` | the path of the crate `shedlock`, if it has another name: `crate = locks` or `crate = "locks"` |
///
/// Durations are text like `"10m"`, `"1h 30m"`, `"500ms"` and `"PT10M"`, parsed at compile time, or
/// any expression of type `Duration`, text, or `LockDuration`.
///
/// [`with_provider`]: https://docs.rs/shedlock/latest/shedlock/fn.with_provider.html
/// [`set_global_provider`]: https://docs.rs/shedlock/latest/shedlock/fn.set_global_provider.html
///
/// # Names
///
/// Between braces, the name can contain arguments of the function, fields of `self`, constants,
/// method calls and indices, with the format specifications of `format!`. The compiler checks them
/// like any other code. To use a brace in the name, double it. For anything else, use an
/// expression: `name = format!(…)`.
///
/// ```
/// use shedlock::{Executor, scheduler_lock};
///
/// struct Tenant {
///     id: u32,
/// }
///
/// #[scheduler_lock(name = "sync-{tenant.id}-{region}", lock_at_most_for = "5m")]
/// async fn sync(tenant: &Tenant, region: &str) {}
///
/// struct Mails {
///     executor: Executor,
///     shard: u8,
/// }
///
/// impl Mails {
///     #[scheduler_lock(
///         name = "mails-{self.shard:02}",
///         lock_at_most_for = "1m",
///         provider = &self.executor
///     )]
///     async fn send(&mut self) {}
/// }
/// ```
///
/// # What the function returns
///
/// | return type | the body returns | skipped | stopped because its lease was lost | the store failed |
/// |---|---|---|---|---|
/// | `()` | `()` | `()` | `()`, logged | `()`, logged |
/// | `Option<T>` | `Option<T>` | `None` | `None`, logged | `None`, logged |
/// | `Result<(), E>` | `Result<(), E>` | `Ok(())` | `Err`, of kind `Lost` | `Err` |
/// | `Result<Option<T>, E>` | `Result<Option<T>, E>` | `Ok(None)` | `Err`, of kind `Lost` | `Err` |
/// | `Outcome<T>` | `T` | `Skipped` | `Lost` | `Lost`, logged |
/// | `Result<Outcome<T>, E>` | `Result<T, E>` | `Ok(Skipped)` | `Ok(Lost)` | `Err` |
///
/// `E` is any type that implements `From<shedlock::Error>`, including `anyhow::Error` and boxed
/// errors. Type aliases are resolved. "Logged" is a `tracing` event at error level. The executor's
/// listener is notified of it, as of every other event. If it matters that a run was skipped,
/// return an `Outcome`: the other types do not distinguish a skipped run from one that had nothing
/// to do.
///
/// A value that the body has returned is never discarded. The lease may be lost before the end,
/// since a blocking function cannot be stopped, and a policy may let an async function continue.
/// The caller then still gets the value, and the loss is logged; with `Outcome`, the result is
/// `Lost` with the value.
///
/// ```
/// use shedlock::{Outcome, scheduler_lock};
///
/// #[scheduler_lock(name = "import", lock_at_most_for = "1h")]
/// async fn import(text: &str) -> Result<Outcome<u32>, Box<dyn std::error::Error>> {
///     Ok(text.parse()?)
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # shedlock::set_global_provider(shedlock::connect("memory:").await?)?;
/// match import("42").await? {
///     Outcome::Executed { value, .. } => assert_eq!(value, 42),
///     Outcome::Skipped(skip) => println!("skipped: {skip}"),
///     Outcome::Lost { reason, .. } => println!("stopped: {reason}"),
///     _ => {}
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Blocking functions
///
/// They run on the calling thread. Inside an async runtime, taking a lock would block the runtime,
/// so the body does not run. Instead there is an error of kind `WrongContext`, which is returned or
/// logged like a store failure. In `spawn_blocking`, call them inside `shedlock::blocking::allow`.
///
/// # With other attributes
///
/// Methods of `async_trait` impls are locked like any other. So are functions that return
/// `impl Future` or `Pin<Box<dyn Future>>` and end with the async block: there the lock is taken
/// when the future is polled, and the code before the block runs without it. A `return` in that code
/// is refused, because its future would run without the lock; one that a macro from outside of the
/// function expands to is not recognized. In these functions, a name uses the arguments as they were
/// passed, not the variables that a pattern binds. If two attributes rewrite the body, the lower one
/// wraps the result of the upper one: with `#[scheduler_lock]` above `#[tracing::instrument]`, the
/// span covers the attempt too; below it, only the run.
///
/// Put `#[tokio::main]` and `#[tokio::test]` below. Above, they turn the function into a blocking
/// one, which cannot be stopped when its lease is lost. `#[tokio::main]` above is refused. A test
/// is then locked as a blocking function.
///
/// # Arguments of the function
///
/// The body owns all arguments, even those that it does not use, and drops them before the lock is
/// given back. There are two exceptions: an argument that a value of the attribute may have moved
/// (`provider = executor`), and the rest of a value whose pattern leaves something out (`_`, `..`),
/// if the name uses a variable of that pattern.
#[proc_macro_attribute]
pub fn scheduler_lock(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}

/// Makes the function a job of a scheduler: it defines *when* the function runs, and
/// [`scheduler_lock`](macro@scheduler_lock) makes it run *once*.
///
/// ```
/// use shedlock::scheduler::{JobRun, Scheduler};
/// use shedlock::{Executor, scheduled, scheduler_lock};
/// # type Mailer = std::sync::Arc<()>;
///
/// #[scheduled(cron = "0 */10 * * * *", zone = "Asia/Seoul")]
/// #[scheduler_lock(name = "mails", lock_at_most_for = "9m")]
/// async fn send_mails(mailer: Mailer, run: JobRun) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     println!("the mails of {:?}, {:?} late", run.slot(), run.lateness());
///     # drop(mailer);
///     Ok(())
/// }
///
/// #[scheduled(every = "1h", jitter = "5m", late = "30m")]
/// #[scheduler_lock(name = "clean", lock_at_most_for = "50m")]
/// fn clean() {
///     // Blocking code runs on a thread for blocking work.
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let mailer = Mailer::default();
/// let executor = Executor::new(shedlock::connect("memory:").await?);
/// let handle = Scheduler::new(executor)
///     .job(send_mails::job(mailer))
///     .job(clean::job())
///     .start()?;
/// # handle.shutdown(std::time::Duration::ZERO).await?;
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
///
/// The function `f` remains what it is under `#[scheduler_lock]`. You can still call it by hand: it
/// then runs under its lock, without a slot. In addition there is `f::job(…)`, which creates the
/// job for a scheduler; importing `f` imports both. If no scheduler is given the job, the compiler
/// reports the function as unused.
///
/// Each run of the job takes the lock and the slot of its tick in one step, through the scheduler's
/// executor. The body then runs directly, not under a second lock inside the first.
///
/// # Arguments
///
/// | key | value |
/// |---|---|
/// | `cron` | five fields, or six with seconds first; see `Schedule::cron_in` for the syntax |
/// | `zone` | for `cron`: a name of the IANA database; `"UTC"` by default |
/// | `every` | instead of `cron`: a duration, on a grid that all replicas share |
/// | `anchor` | for `every`: an instant on the grid, like `"2027-01-16T09:00:00+09:00"`; 1970 by default |
/// | `fixed_delay` | instead of `cron`: the delay after the end of the last run on this node; no slots |
/// | `jitter` | a duration: runs start a random time after their slot, up to this long; must be shorter than the time between two slots |
/// | `initial_delay` | a duration: the job does not run until this long after the start |
/// | `run_at_start` | the job also runs when the scheduler starts. Alone, or with a `bool` |
/// | `late` | ticks that start late: `"once"` (they run until the next is due; the default), `"skip"`, a duration, or a `LatePolicy` |
/// | `overlap` | a tick while a run is in progress here: `"queue"` (the default), `"skip"`, or an `Overlap` |
/// | `must_not_be_lost` | each slot runs until it is done; see below. Alone, or with a `bool` |
/// | `max_attempts` | for `must_not_be_lost`: how often a slot is tried before it is given up; 5 by default |
/// | `backoff` | for `must_not_be_lost`: the pause after the first failed attempt, doubled after each further one: text, or a `Duration`; `"10s"` by default |
/// | `max_backoff` | for `must_not_be_lost`: the longest such pause; by default `"10m"`, or `backoff` if that is longer |
/// | `job` | another name for the job, if a type or a module already has the function's name: with `job = clean_job`, the job is `clean_job::job(…)` |
/// | `crate` | the path of the crate `shedlock`, if it has another name: `crate = locks` or `crate = "locks"` |
///
/// Literals are checked at compile time. A cron expression that cannot be parsed or never fires, an
/// unknown zone, and a jitter that reaches the next slot are errors at the value. Zones are looked
/// up in the database that comes with this crate. If only the system has a zone, use an expression
/// (`zone = ZONE`). The scheduler checks expressions when it starts, and refuses invalid ones then.
///
/// # Slots that must not be lost
///
/// By default a slot is used up when it is taken: at most one run, whatever its outcome. With
/// `must_not_be_lost` it stays open until one of its runs has returned `()` or `Ok`. After an
/// `Err`, a panic, a lost lease or a crash it is tried again, here or on another replica, before
/// any later slot. Slots that were missed while all replicas were down run too, in order. A run can
/// therefore happen twice, so the function must be idempotent.
///
/// ```
/// use shedlock::scheduler::JobRun;
/// use shedlock::{scheduled, scheduler_lock};
///
/// #[scheduled(cron = "0 2 * * *", must_not_be_lost, max_attempts = 8, backoff = "1m")]
/// #[scheduler_lock(name = "invoices", lock_at_most_for = "5m", keep_alive)]
/// async fn invoices(run: JobRun) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     println!("the invoices of {:?}, attempt {:?}", run.slot(), run.slot_attempt());
///     std::fs::read("template")?;
///     Ok(())
/// }
/// # drop(invoices::job());
/// ```
///
/// # Supported functions
///
/// A free function, `async` or blocking, that returns `()` or `Result<(), E>`. `E` implements
/// `From<shedlock::Error>`, as under `#[scheduler_lock]`, and is `Send`: your own error types,
/// `anyhow::Error`, `Box<dyn Error + Send + Sync>`. An error is logged and reported to the
/// scheduler's observer. The slot stays used up, unless it must not be lost.
///
/// An argument whose type is written `JobRun` receives the run's slot, lateness and fencing token
/// (`JobRun::at` creates one for a call by hand). All other arguments are passed to `job(…)` and
/// cloned for each run: pools, clients, `Arc`s. The lock's name may use them, so that one function
/// makes a job for each tenant. Methods and generic functions are not supported; use `Job::new`,
/// which takes any closure.
#[cfg(feature = "scheduled")]
#[proc_macro_attribute]
pub fn scheduled(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    scheduled::expand(arguments.into(), item.into()).into()
}

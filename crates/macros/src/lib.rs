//! The attributes `#[scheduler_lock]` and `#[scheduled]` of the crate `shedlock`, which re-exports
//! them with its features `macros` and `scheduler`. Take them from there: what they expand to names
//! that crate.

mod attr;
mod duration;
mod expand;
mod function;
#[cfg(all(test, feature = "scheduled"))]
mod fuzz;
mod name;
mod return_type;
#[cfg(feature = "scheduled")]
mod scheduled;
mod taken;

/// Runs the function under a lock: on one of many replicas, and not at all where somebody else
/// holds it.
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
/// Free functions and methods, async and blocking. Everything else about the function stays: its
/// attributes, documentation, visibility, generics and arguments.
///
/// # Arguments
///
/// | key | value |
/// |---|---|
/// | `name` | which lock; see below |
/// | `lock_at_most_for` | the lease ends this long after it was taken, if nobody unlocks it: longer than the function ever runs. Without it, the executor's or provider's default |
/// | `lock_at_least_for` | the lock stays taken at least this long, however quickly the function ends: longer than the replicas' clocks and timers lie apart. Without it, the default, or zero |
/// | `keep_alive` | the lease is extended while the function runs, each time a third of it is gone; `lock_at_most_for` is then only how long the lock outlives a process that dies. Alone, or with a `bool` |
/// | `max_run_time` | the function is stopped when it has run this long: the bound for one that hangs under `keep_alive` |
/// | `lock_wait` | a lock that somebody else holds is waited for this long, rather than skipped at once |
/// | `provider` | where the lock is: an `Arc` of a provider, or an `Executor` with defaults and a listener of its own, or a reference to one of them. Without it, the one of [`with_provider`] or `with_executor`, else the one of [`set_global_provider`] or `set_global_executor` |
/// | `crate` | the path of the crate `shedlock`, where it has another name |
///
/// Durations are text like `"10m"`, `"1h 30m"`, `"500ms"` and `"PT10M"`, read when the program is
/// compiled, or any expression that gives a `Duration`, text, or a `LockDuration`.
///
/// [`with_provider`]: https://docs.rs/shedlock/latest/shedlock/fn.with_provider.html
/// [`set_global_provider`]: https://docs.rs/shedlock/latest/shedlock/fn.set_global_provider.html
///
/// # Names
///
/// Between braces the name takes arguments of the function, fields of `self`, constants, method
/// calls and indices, with the format specifications of `format!`. A brace of the name itself is
/// doubled. The compiler checks them like any other code. Anything else is an expression:
/// `name = format!(…)`.
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
/// | return type | the body gives | skipped | stopped, its lease was lost | the store failed |
/// |---|---|---|---|---|
/// | `()` | `()` | `()` | `()`, logged | `()`, logged |
/// | `Option<T>` | `Option<T>` | `None` | `None`, logged | `None`, logged |
/// | `Result<(), E>` | `Result<(), E>` | `Ok(())` | `Err`, of kind `Lost` | `Err` |
/// | `Result<Option<T>, E>` | `Result<Option<T>, E>` | `Ok(None)` | `Err`, of kind `Lost` | `Err` |
/// | `Outcome<T>` | `T` | `Skipped` | `Lost` | `Lost`, logged |
/// | `Result<Outcome<T>, E>` | `Result<T, E>` | `Ok(Skipped)` | `Ok(Lost)` | `Err` |
///
/// `E` is any type with `From<shedlock::Error>`, `anyhow::Error` and boxed errors among them; type
/// aliases are seen through. "Logged" is an event of `tracing` at error level, and the executor's
/// listener hears of it as of everything else. Where it matters that a run was skipped, return an
/// `Outcome`: the other types cannot tell a skipped run from one that had nothing to do.
///
/// A value that the body has returned is never thrown away. If the lease was lost before the end (a
/// blocking function cannot be stopped, and a policy may let an async one go on), the caller gets the
/// value all the same, and the loss is logged; as an `Outcome` it is `Lost` with the value.
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
/// They run on the calling thread. Inside an async runtime, where taking a lock would stop the
/// runtime, the body does not run: that is an error of kind `WrongContext`, returned or logged like a
/// failed store. In `spawn_blocking`, call them inside `shedlock::blocking::allow`.
///
/// # Beside other attributes
///
/// Methods of `async_trait` impls are locked like any other, as are functions that return
/// `impl Future` or `Pin<Box<dyn Future>>` and end with the async block: there the lock is taken when
/// the future is polled, and what stands before the block runs without it. In these, a name uses
/// arguments as they were passed, not what a pattern makes of them. Of two attributes that rewrite the
/// body the lower one goes around it: above `#[tracing::instrument]`, the span covers the attempt too;
/// below it, only the run.
///
/// Put `#[tokio::main]` and `#[tokio::test]` below: above, they make a blocking function, which nothing
/// stops when its lease is lost. `#[tokio::main]` above is refused; a test is then locked as a blocking
/// function.
///
/// # Arguments of the function
///
/// The body owns all of them, also those that it does not mention, and drops them before the lock is
/// given back. There are two exceptions: an argument that a value of the attribute may have moved
/// (`provider = executor`), and the rest of a value whose pattern leaves something out (`_`, `..`), where
/// the name uses a variable of that pattern.
#[proc_macro_attribute]
pub fn scheduler_lock(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}

/// Makes the function a job of a scheduler: *when* it runs, beside the *once* of
/// [`scheduler_lock`](macro@scheduler_lock).
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
///     // Blocking code runs on a thread for it.
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
/// The function `f` stays what it is under `#[scheduler_lock]`, and can be called by hand: under its
/// lock, without a slot. Beside it there is `f::job(…)`, which gives the job to a scheduler; import
/// `f`, and both are there. A job that no scheduler is given is a function that nobody uses, and the
/// compiler says so.
///
/// Each run of the job takes the lock and the slot of its tick in one step, where the scheduler's
/// executor locks; the body then runs once, not in a second lock inside the first.
///
/// # Arguments
///
/// | key | value |
/// |---|---|
/// | `cron` | five fields, or six with seconds first; `Schedule::cron_in` says what is read |
/// | `zone` | of `cron`: a name of the IANA database; `"UTC"` without it |
/// | `every` | instead of `cron`: a duration, on a grid that all replicas share |
/// | `anchor` | of `every`: an instant that the grid goes through, like `"2027-01-16T09:00:00+09:00"`; 1970 without it |
/// | `fixed_delay` | instead of `cron`: so long after the end of the last run on this node; no slots |
/// | `jitter` | a duration: runs start a random time after their slot, up to this; shorter than the time between two slots |
/// | `initial_delay` | a duration: the job is left alone for so long after the start |
/// | `run_at_start` | the job also runs when the scheduler starts. Alone, or with a `bool` |
/// | `late` | ticks that come late: `"once"` (they run until the next is due; the default), `"skip"`, a duration, or a `LatePolicy` |
/// | `overlap` | a tick while a run goes on here: `"queue"` (the default), `"skip"`, or an `Overlap` |
/// | `must_not_be_lost` | each slot runs until it is done; see below. Alone, or with a `bool` |
/// | `max_attempts` | of `must_not_be_lost`: how often a slot is tried before it is given up; 5 without it |
/// | `backoff` | of `must_not_be_lost`: the pause after the first attempt that failed, doubled after each further one: text, or a `Duration`; `"10s"` without it |
/// | `max_backoff` | of `must_not_be_lost`: the longest such pause; `"10m"`, or `backoff` where that is longer, without it |
/// | `job` | the name that stands for the job, where a type or a module has the function's: `job = clean_job`, and the job is `clean_job::job(…)` |
/// | `crate` | the path of the crate `shedlock`, where it has another name |
///
/// Literals are read when the program is compiled: an expression that cannot be read or never fires,
/// an unknown zone, a jitter that reaches the next slot are errors at the value. Zones are looked up in
/// the database that comes with this crate; one that only the system knows is given as an expression
/// (`zone = ZONE`). Expressions are looked at when the scheduler starts, and refused then.
///
/// # Slots that must not be lost
///
/// A slot is used up when it is taken: at most one run, whatever becomes of it. With
/// `must_not_be_lost` it is open until a run of it has returned `()` or `Ok`. After an `Err`, a panic, a
/// lost lease or a death it is tried again, here or on another replica, before any later slot; what was
/// missed while all were down runs too, in order. A run can so happen twice: the function bears that.
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
/// # What the function may look like
///
/// A free function, `async` or blocking, that returns `()` or `Result<(), E>`. `E` is made of a
/// `shedlock::Error`, as under `#[scheduler_lock]`, and can be sent between threads: your own error
/// types, `anyhow::Error`, `Box<dyn Error + Send + Sync>`. An error is logged and told to the
/// scheduler's observer; the slot stays used, unless it must not be lost.
///
/// An argument whose type is written `JobRun` is told the run's slot, lateness and fencing token
/// (`JobRun::at` makes one for a call by hand). All others are given to `job(…)` and cloned for each
/// run: pools, clients, `Arc`s. The lock's name may use them, so that one function makes a job for each
/// tenant. Methods and generic functions are no jobs; `Job::new` takes any closure.
#[cfg(feature = "scheduled")]
#[proc_macro_attribute]
pub fn scheduled(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    scheduled::expand(arguments.into(), item.into()).into()
}

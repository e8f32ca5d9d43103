//! The attribute `#[scheduler_lock]` of the crate `shedlock`, which re-exports it with its feature
//! `macros`. Take it from there: what it expands to names that crate.

mod attr;
mod duration;
mod expand;
mod function;
mod name;
mod return_type;

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
#[proc_macro_attribute]
pub fn scheduler_lock(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}

//! A harness whose providers are wrapped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::{BoxFuture, Clock, Error, LockName, PrefixProvider};

use crate::proxy::Matcher;
use crate::{
    BoxError, Call, Cost, Harness, JavaRecord, LeftOpen, Namespace, OptionalAction, Provider,
    RoundTrips, Scope, Tag, Work,
};

type Wrap = Arc<dyn Fn(Provider) -> Result<Provider, Error> + Send + Sync>;
type Rename = Arc<dyn Fn(&LockName) -> Result<LockName, Error> + Send + Sync>;

/// Puts a [`PrefixProvider`] around all providers of a harness, for the cases about what it may change: names, records,
/// operators, and what a provider declares.
pub fn prefixed(harness: &Arc<dyn Harness>) -> Wrapped {
    wrapped(Arc::clone(harness), "prefixed", |provider| {
        Ok(Arc::new(PrefixProvider::new(provider, "team:")?))
    })
    .with_names(|name| LockName::new(format!("team:{name}")))
    .about(&[Tag::Names, Tag::Record, Tag::Operators, Tag::Declared])
}

/// Wraps all providers of a harness, to check that the laws also hold through the wrapper.
///
/// ```
/// use shedlock_conformance::{Harness, wrapped};
/// use shedlock_core::{LockName, PrefixProvider};
/// use std::sync::Arc;
/// fn of_a_team(harness: Arc<dyn Harness>) -> Arc<dyn Harness> {
///     let team = wrapped(harness, "of-a-team", |provider| {
///         Ok(Arc::new(PrefixProvider::new(provider, "team:")?))
///     });
///     // If the wrapper maps names, the harness needs the name in the store.
///     Arc::new(team.with_names(|name| LockName::new(format!("team:{name}"))))
/// }
/// ```
pub fn wrapped(
    harness: Arc<dyn Harness>,
    wrapper: &str,
    wrap: impl Fn(Provider) -> Result<Provider, Error> + Send + Sync + 'static,
) -> Wrapped {
    Wrapped {
        name: format!("{}-{wrapper}", harness.name()),
        scope: harness.scope(),
        harness,
        wrap: Arc::new(wrap),
        rename: Arc::new(|name| Ok(name.clone())),
    }
}

/// The harness that [`wrapped`] returns.
#[derive(Clone)]
pub struct Wrapped {
    name: String,
    scope: Scope,
    harness: Arc<dyn Harness>,
    wrap: Wrap,
    rename: Rename,
}

impl Wrapped {
    /// Sets how the wrapper maps a name to the name in the store.
    #[must_use]
    pub fn with_names(
        mut self,
        rename: impl Fn(&LockName) -> Result<LockName, Error> + Send + Sync + 'static,
    ) -> Self {
        self.rename = Arc::new(rename);
        self
    }

    /// Restricts the cases to those about what the wrapper may change. By default all cases of the
    /// inner harness run.
    #[must_use]
    pub fn about(mut self, tags: &'static [Tag]) -> Self {
        self.scope = Scope::About(tags);
        self
    }

    fn namespace_over(&self, inner: Arc<dyn Namespace>) -> Arc<dyn Namespace> {
        Arc::new(Room {
            inner,
            wrap: Arc::clone(&self.wrap),
            rename: Arc::clone(&self.rename),
        })
    }
}

impl Harness for Wrapped {
    fn name(&self) -> &str {
        &self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async { Ok(self.namespace_over(self.harness.namespace().await?)) })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        wrapping(&self.wrap, self.harness.open_child(spec))
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        let inner = self.harness.namespace_on_own_store()?;
        Some(Box::pin(async { Ok(self.namespace_over(inner.await?)) }))
    }

    fn namespace_to_fill(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        let inner = self.harness.namespace_to_fill()?;
        Some(Box::pin(async { Ok(self.namespace_over(inner.await?)) }))
    }

    fn cost(&self) -> Cost {
        self.harness.cost()
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        self.harness.round_trips()
    }

    fn chatter(&self) -> Option<Matcher> {
        self.harness.chatter()
    }
}

struct Room {
    inner: Arc<dyn Namespace>,
    wrap: Wrap,
    rename: Rename,
}

fn wrapping<'a>(
    wrap: &'a Wrap,
    action: OptionalAction<'a, Provider>,
) -> OptionalAction<'a, Provider> {
    let inner = action?;
    Some(Box::pin(async move { Ok(wrap(inner.await?)?) }))
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok((self.wrap)(self.inner.provider().await?)?) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.inner.close()
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        let name = (self.rename)(name);
        // Called once only to see whether it is supported: the future cannot borrow the mapped name
        // yet.
        drop(self.inner.delete_record(name.as_ref().ok()?)?);
        Some(Box::pin(async move {
            match self.inner.delete_record(&name?) {
                Some(deleted) => deleted.await,
                None => Err("the harness could delete records a moment ago".into()),
            }
        }))
    }

    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        let name = (self.rename)(name);
        drop(self.inner.write_foreign(name.as_ref().ok()?, data)?);
        Some(Box::pin(async move {
            match self.inner.write_foreign(&name?, data) {
                Some(written) => written.await,
                None => {
                    Err("the harness could write something that is not a lock a moment ago".into())
                }
            }
        }))
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        self.inner.drop_container()
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        self.inner.restore_container()
    }

    fn weaken_container(&self) -> OptionalAction<'_, ()> {
        self.inner.weaken_container()
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        let name = (self.rename)(name);
        drop(self.inner.write_as_shedlock(name.as_ref().ok()?, record)?);
        Some(Box::pin(async move {
            match self.inner.write_as_shedlock(&name?, record) {
                Some(written) => written.await,
                None => Err("the harness could write as ShedLock a moment ago".into()),
            }
        }))
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        let name = (self.rename)(name);
        drop(self.inner.read_as_shedlock(name.as_ref().ok()?)?);
        Some(Box::pin(async move {
            match self.inner.read_as_shedlock(&name?) {
                Some(read) => read.await,
                None => Err("the harness could read as ShedLock a moment ago".into()),
            }
        }))
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        wrapping(&self.wrap, self.inner.provider_with_clock(clock))
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        self.inner.store_addr()
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        wrapping(&self.wrap, self.inner.provider_via(addr))
    }

    fn hides(&self, call: Call) -> Option<String> {
        self.inner.hides(call)
    }

    fn child_spec(&self) -> Option<String> {
        self.inner.child_spec()
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        self.inner.stop_store()
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        self.inner.start_store()
    }

    fn fill(&self) -> OptionalAction<'_, ()> {
        self.inner.fill()
    }

    fn make_space(&self) -> OptionalAction<'_, ()> {
        self.inner.make_space()
    }

    fn advance(&self, by: Duration) -> Option<()> {
        self.inner.advance(by)
    }

    fn inner(&self) -> Option<&dyn Namespace> {
        Some(&*self.inner)
    }

    fn inside_rolled_back_transaction(&self, work: Work) -> OptionalAction<'_, ()> {
        let wrap = Arc::clone(&self.wrap);
        self.inner
            .inside_rolled_back_transaction(Box::new(move |provider| {
                Box::pin(async move {
                    // If the wrapper fails, the work is not done; the case detects that its result
                    // is missing.
                    if let Ok(provider) = wrap(provider) {
                        work(provider).await;
                    }
                })
            }))
    }

    fn left_open(&self) -> OptionalAction<'_, LeftOpen> {
        let made = self.inner.left_open()?;
        Some(Box::pin(async {
            let mut made = made.await?;
            made.provider = (self.wrap)(made.provider)?;
            Ok(made)
        }))
    }
}

//! Delegates the methods that a wrapper does not change.

/// Generates the methods of [`LockProvider`](crate::LockProvider) that delegate to the provider in
/// the given field: all except those listed as the wrapper's own. A method that is added to the
/// trait is added here, so that no wrapper misses it. A wrapper with an `attempt` or `extend` of its
/// own has the default `attempt_set` or `extend_set`, which makes that call.
///
/// A wrapper with an `extend`, `unlock` or `withdraw` of its own has no
/// [`for_duties`](crate::LockProvider::for_duties), unless it implements that too. Without it, its
/// [`Capabilities::duties`](crate::Capabilities) must be false.
///
/// ```
/// use shedlock::{AttemptRequest, Attempt, BoxFuture, Error, LockProvider, delegate};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Logged {
///     inner: Arc<dyn LockProvider>,
/// }
///
/// impl LockProvider for Logged {
///     fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
///         println!("attempt at {}", request.name);
///         self.inner.attempt(request)
///     }
///
///     delegate!(inner except attempt);
/// }
/// ```
#[macro_export]
macro_rules! delegate {
    ($inner:ident except $($own:ident),+) => {
        $crate::delegate!(@ attempt [$($own)+] {
            fn attempt<'a>(&'a self, request: &'a $crate::AttemptRequest) -> $crate::BoxFuture<'a, Result<$crate::Attempt, $crate::Error>> {
                self.$inner.attempt(request)
            }
        });
        $crate::delegate!(@ attempt_set [$($own)+] {
            fn attempt_set<'a>(&'a self, requests: &'a [$crate::AttemptRequest]) -> $crate::BoxFuture<'a, Vec<Result<$crate::Attempt, $crate::Error>>> {
                self.$inner.attempt_set(requests)
            }
        });
        $crate::delegate!(@ extend_set [$($own)+] {
            fn extend_set<'a>(&'a self, leases: &'a [($crate::Lease, $crate::ExtendRequest)]) -> $crate::BoxFuture<'a, Vec<Result<$crate::Extension, $crate::Error>>> {
                self.$inner.extend_set(leases)
            }
        });
        $crate::delegate!(@ withdraw [$($own)+] {
            fn withdraw<'a>(&'a self, request: &'a $crate::AttemptRequest) -> $crate::BoxFuture<'a, Result<bool, $crate::Error>> {
                self.$inner.withdraw(request)
            }
        });
        $crate::delegate!(@ extend [$($own)+] {
            fn extend<'a>(&'a self, lease: &'a $crate::Lease, request: &'a $crate::ExtendRequest) -> $crate::BoxFuture<'a, Result<$crate::Extension, $crate::Error>> {
                self.$inner.extend(lease, request)
            }
        });
        $crate::delegate!(@ unlock [$($own)+] {
            fn unlock<'a>(&'a self, lease: &'a $crate::Lease, request: &'a $crate::UnlockRequest) -> $crate::BoxFuture<'a, Result<$crate::Unlock, $crate::Error>> {
                self.$inner.unlock(lease, request)
            }
        });
        $crate::delegate!(@ inspect [$($own)+] {
            fn inspect<'a>(&'a self, name: &'a $crate::LockName) -> $crate::BoxFuture<'a, Result<Option<$crate::LockRecord>, $crate::Error>> {
                self.$inner.inspect(name)
            }
        });
        $crate::delegate!(@ list [$($own)+] {
            fn list<'a>(&'a self, request: &'a $crate::ListRequest) -> $crate::BoxFuture<'a, Result<Vec<$crate::LockRecord>, $crate::Error>> {
                self.$inner.list(request)
            }
        });
        $crate::delegate!(@ look [$($own)+] {
            fn look<'a>(&'a self, name: &'a $crate::LockName) -> $crate::BoxFuture<'a, Result<Option<$crate::admin::Seen>, $crate::Error>> {
                self.$inner.look(name)
            }
        });
        $crate::delegate!(@ change [$($own)+] {
            fn change<'a>(&'a self, name: &'a $crate::LockName, seen: &'a $crate::admin::Seen, change: &'a $crate::admin::Change) -> $crate::BoxFuture<'a, Result<$crate::admin::Changed, $crate::Error>> {
                self.$inner.change(name, seen, change)
            }
        });
        $crate::delegate!(@ remove [$($own)+] {
            fn remove<'a>(&'a self, name: &'a $crate::LockName, seen: &'a $crate::admin::Seen) -> $crate::BoxFuture<'a, Result<$crate::admin::Changed, $crate::Error>> {
                self.$inner.remove(name, seen)
            }
        });
        $crate::delegate!(@ check [$($own)+] {
            fn check(&self) -> $crate::BoxFuture<'_, Result<(), $crate::Error>> {
                self.$inner.check()
            }
        });
        $crate::delegate!(@ diagnose [$($own)+] {
            fn diagnose(&self) -> $crate::BoxFuture<'_, Result<Vec<$crate::Finding>, $crate::Error>> {
                self.$inner.diagnose()
            }
        });
        $crate::delegate!(@ store_time [$($own)+] {
            fn store_time(&self) -> $crate::BoxFuture<'_, Result<Option<std::time::SystemTime>, $crate::Error>> {
                self.$inner.store_time()
            }
        });
        $crate::delegate!(@ written_until [$($own)+] {
            fn written_until(&self) -> $crate::BoxFuture<'_, Result<Option<std::time::SystemTime>, $crate::Error>> {
                self.$inner.written_until()
            }
        });
        $crate::delegate!(@ capabilities [$($own)+] {
            fn capabilities(&self) -> $crate::Capabilities {
                self.$inner.capabilities()
            }
        });
        $crate::delegate!(@ identity [$($own)+] {
            fn identity(&self) -> $crate::ProviderIdentity {
                self.$inner.identity()
            }
        });
        $crate::delegate!(@ identity_of [$($own)+] {
            fn identity_of(&self, name: &$crate::LockName) -> $crate::ProviderIdentity {
                self.$inner.identity_of(name)
            }
        });
        $crate::delegate!(@ store [$($own)+] {
            fn store(&self) -> &str {
                self.$inner.store()
            }
        });
        $crate::delegate!(@ defaults [$($own)+] {
            fn defaults(&self) -> $crate::LockDefaults {
                self.$inner.defaults()
            }
        });
        $crate::delegate!(@ journal [$($own)+] {
            fn journal(&self) -> Option<std::sync::Arc<dyn $crate::Journal>> {
                self.$inner.journal()
            }
        });
        $crate::delegate!(@ for_duties [$($own)+] {
            fn for_duties(&self) -> Option<$crate::BoxFuture<'_, Result<std::sync::Arc<dyn $crate::LockProvider>, $crate::Error>>> {
                self.$inner.for_duties()
            }
        });
        $crate::delegate!(@ migrate [$($own)+] {
            fn migrate(&self) -> $crate::BoxFuture<'_, Result<$crate::Migration, $crate::Error>> {
                self.$inner.migrate()
            }
        });
        $crate::delegate!(@ plan_migration [$($own)+] {
            fn plan_migration(&self) -> $crate::BoxFuture<'_, Result<Vec<$crate::MigrationStep>, $crate::Error>> {
                self.$inner.plan_migration()
            }
        });
        $crate::delegate!(@ schema [$($own)+] {
            fn schema(&self) -> $crate::Schema {
                self.$inner.schema()
            }
        });
    };
    (@ attempt [attempt $($rest:ident)*] { $($method:tt)* }) => {};
    (@ withdraw [withdraw $($rest:ident)*] { $($method:tt)* }) => {};
    (@ extend [extend $($rest:ident)*] { $($method:tt)* }) => {};
    (@ unlock [unlock $($rest:ident)*] { $($method:tt)* }) => {};
    (@ inspect [inspect $($rest:ident)*] { $($method:tt)* }) => {};
    (@ list [list $($rest:ident)*] { $($method:tt)* }) => {};
    (@ look [look $($rest:ident)*] { $($method:tt)* }) => {};
    (@ change [change $($rest:ident)*] { $($method:tt)* }) => {};
    (@ remove [remove $($rest:ident)*] { $($method:tt)* }) => {};
    (@ check [check $($rest:ident)*] { $($method:tt)* }) => {};
    (@ diagnose [diagnose $($rest:ident)*] { $($method:tt)* }) => {};
    (@ store_time [store_time $($rest:ident)*] { $($method:tt)* }) => {};
    (@ written_until [written_until $($rest:ident)*] { $($method:tt)* }) => {};
    (@ capabilities [capabilities $($rest:ident)*] { $($method:tt)* }) => {};
    (@ identity [identity $($rest:ident)*] { $($method:tt)* }) => {};
    (@ identity_of [identity_of $($rest:ident)*] { $($method:tt)* }) => {};
    (@ store [store $($rest:ident)*] { $($method:tt)* }) => {};
    (@ defaults [defaults $($rest:ident)*] { $($method:tt)* }) => {};
    (@ journal [journal $($rest:ident)*] { $($method:tt)* }) => {};
    (@ for_duties [for_duties $($rest:ident)*] { $($method:tt)* }) => {};
    // A set would go past a wrapper's own call: the default body makes that call for each of the set.
    (@ attempt_set [attempt $($rest:ident)*] $method:tt) => {};
    (@ attempt_set [attempt_set $($rest:ident)*] $method:tt) => {};
    (@ extend_set [extend $($rest:ident)*] $method:tt) => {};
    (@ extend_set [extend_set $($rest:ident)*] $method:tt) => {};
    // These calls of a wrapper that has its own would go past it.
    (@ for_duties [extend $($rest:ident)*] $method:tt) => {
        $crate::delegate!(@ for_duties without [$($rest)*]);
    };
    (@ for_duties [unlock $($rest:ident)*] $method:tt) => {
        $crate::delegate!(@ for_duties without [$($rest)*]);
    };
    (@ for_duties [withdraw $($rest:ident)*] $method:tt) => {
        $crate::delegate!(@ for_duties without [$($rest)*]);
    };
    (@ for_duties without [$($rest:ident)*]) => {
        $crate::delegate!(@ for_duties [$($rest)*] {
            fn for_duties(&self) -> Option<$crate::BoxFuture<'_, Result<std::sync::Arc<dyn $crate::LockProvider>, $crate::Error>>> {
                None
            }
        });
    };
    (@ migrate [migrate $($rest:ident)*] { $($method:tt)* }) => {};
    (@ plan_migration [plan_migration $($rest:ident)*] { $($method:tt)* }) => {};
    (@ schema [schema $($rest:ident)*] { $($method:tt)* }) => {};
    (@ $name:ident [$other:ident $($rest:ident)*] { $($method:tt)* }) => {
        $crate::delegate!(@ $name [$($rest)*] { $($method)* });
    };
    (@ $name:ident [] { $($method:tt)* }) => { $($method)* };
}

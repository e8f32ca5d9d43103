//! The dashboard, and how to make one.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::request::Parts;
use axum::middleware;
use axum::routing::get;
use shedlock_core::{BoxFuture, Error, ErrorKind, Journal, LockProvider};
use shedlock_scheduler::Handle;

use crate::failure::Failure;
use crate::store::{Place, Store};
use crate::{Access, act, api, assets, guard, pages};

pub(crate) type AccessOf = dyn Fn(&Parts) -> Access + Send + Sync;

/// A dashboard of the jobs and locks in one or several stores.
///
/// ```
/// use shedlock::MemoryProvider;
/// use shedlock_ui::{Access, Dashboard};
/// use std::sync::Arc;
///
/// #[derive(Clone)]
/// struct User(String); // Set by the login of your service.
///
/// let dashboard = Dashboard::builder()
///     .store("main", Arc::new(MemoryProvider::new()))
///     .access(|request| match request.extensions.get::<User>() {
///         Some(User(name)) => Access::operate(name),
///         None => Access::None,
///     })
///     .build()?;
/// let app: axum::Router = axum::Router::new().nest("/jobs", dashboard.router());
/// # let _ = app;
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Dashboard(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) places: Vec<Place>,
    pub(crate) access: Arc<AccessOf>,
    /// The values of `Host` that are served, without ports; `None` for all.
    pub(crate) hosts: Option<Vec<String>>,
}

/// Makes a [`Dashboard`].
#[must_use]
pub struct Builder {
    places: Vec<Place>,
    schedulers: Vec<(String, Handle)>,
    access: Arc<AccessOf>,
    hosts: Option<Vec<String>>,
}

impl Dashboard {
    /// Starts a dashboard without stores, on which everyone may read and no one may operate.
    pub fn builder() -> Builder {
        Builder {
            places: Vec::new(),
            schedulers: Vec::new(),
            access: Arc::new(|_| Access::Read),
            hosts: None,
        }
    }

    /// Creates the router. Its URLs are relative, so you can nest it under any prefix, also behind a
    /// proxy that removes one. `/` redirects to the page *Now*.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(pages::root))
            .route("/now", get(pages::now))
            .route("/jobs", get(pages::jobs))
            .route("/job", get(pages::job))
            .route("/locks", get(pages::locks))
            .route("/runs", get(pages::runs))
            .route("/stores", get(pages::stores))
            .route("/audit", get(pages::audit))
            .route(
                "/act",
                get(pages::confirm)
                    .post(act::act)
                    .layer(DefaultBodyLimit::max(act::LONGEST_FORM)),
            )
            .route("/asset/{name}", get(assets::asset))
            .nest("/api", api::router())
            .fallback(async || {
                Failure::not_found(
                    "there is no such page; if a proxy in front of this dashboard keeps a prefix in the path, the \
                     dashboard must be served under it",
                )
            })
            .layer(middleware::from_fn_with_state(self.0.clone(), guard::guard))
            .with_state(self.0.clone())
    }
}

impl Builder {
    /// Shows the locks of this provider under this name, and the journal that its store keeps beside
    /// them, if it has one. The first store is shown first.
    pub fn store(self, name: impl Into<String>, provider: Arc<dyn LockProvider>) -> Self {
        self.add(Place::of(name.into(), (provider, None)))
    }

    /// Shows the locks of this provider, and this journal, which is in another store.
    pub fn store_with_journal(
        self,
        name: impl Into<String>,
        provider: Arc<dyn LockProvider>,
        journal: Arc<dyn Journal>,
    ) -> Self {
        self.add(Place::of(name.into(), (provider, Some(journal))))
    }

    /// Shows a store that may be down when the dashboard starts. A request opens it, for 4 s, and so does the
    /// next one until that has succeeded; the pages show the error. `open` returns a provider, and a journal if
    /// it is in another store. It is called by one request at a time, and dropped after 4 s.
    pub fn store_later<F>(
        self,
        name: impl Into<String>,
        open: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(Arc<dyn LockProvider>, Option<Arc<dyn Journal>>), Error>>
            + Send
            + 'static,
    {
        let open = move || Box::pin(open()) as BoxFuture<'static, _>;
        self.add(Place::later(name.into(), Box::new(open)))
    }

    fn add(mut self, place: Place) -> Self {
        self.places.push(place);
        self
    }

    /// Lets operators run the jobs of this scheduler now. `store` is the name of the store that has
    /// their locks.
    ///
    /// A job is run in this process ([`Handle::run_now`]): its run belongs to no slot, and is skipped
    /// if another replica takes the lock first.
    pub fn scheduler(mut self, store: impl Into<String>, scheduler: Handle) -> Self {
        self.schedulers.push((store.into(), scheduler));
        self
    }

    /// Sets who may do what. Your service authenticates the request before it reaches the dashboard,
    /// and leaves the user in the request's extensions, where this function finds it.
    ///
    /// Default: everyone who can reach the dashboard may read, and no one may operate.
    pub fn access(mut self, access: impl Fn(&Parts) -> Access + Send + Sync + 'static) -> Self {
        self.access = Arc::new(access);
        self
    }

    /// Refuses requests whose header `Host` is none of these names or addresses, on any port. Set it
    /// if the dashboard listens on a loopback address: otherwise a web page in the same browser can
    /// reach it through a name that the page's owner points at that address (DNS rebinding).
    pub fn allow_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let hosts = hosts.into_iter().map(Into::into);
        self.hosts = Some(hosts.map(|host| host.to_ascii_lowercase()).collect());
        self
    }

    /// Creates the dashboard.
    ///
    /// # Errors
    /// `InvalidInput` if there is no store, if a name is empty or used twice, or if a scheduler is
    /// added for a store that is not shown.
    pub fn build(mut self) -> Result<Dashboard, Error> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidInput, what);
        if self.places.is_empty() {
            return Err(
                wrong("a dashboard needs a store".to_owned()).advise("add one with Builder::store")
            );
        }
        for (at, place) in self.places.iter().enumerate() {
            if place.name.trim().is_empty() {
                return Err(wrong("the name of a store is empty".to_owned())
                    .advise("choose a name to show"));
            }
            if self.places[..at].iter().any(|it| it.name == place.name) {
                return Err(wrong(format!("two stores are called {:?}", place.name))
                    .advise("give each a name of its own"));
            }
        }
        for (name, scheduler) in self.schedulers {
            match self.places.iter_mut().find(|place| place.name == name) {
                Some(place) => place.schedulers.push(scheduler),
                None => {
                    return Err(wrong(format!(
                        "a scheduler was added for the store {name:?}, which is not shown"
                    ))
                    .advise("add the store with Builder::store"));
                }
            }
        }
        Ok(Dashboard(Arc::new(Inner {
            places: self.places,
            access: self.access,
            hosts: self.hosts,
        })))
    }
}

impl Inner {
    /// The store of this name, or the first one.
    pub(crate) async fn store(&self, name: Option<&str>) -> Result<&Store, Failure> {
        let mut places = self.places.iter();
        let place = places.find(|place| name.is_none_or(|name| place.name == name));
        let place = place.ok_or_else(|| Failure::not_found("there is no store of this name"))?;
        Ok(place.store().await?)
    }
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard")
            .field("stores", &self.0.places)
            .field("hosts", &self.0.hosts)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("stores", &self.places)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

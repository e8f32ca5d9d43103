//! URLs: our own options are taken out and checked, and the driver reads the rest.

use std::net::IpAddr;
use std::time::Duration;

use shedlock_core::{Error, Schema};
use shedlock_provider::{
    FromUrl, Result, Store as _, StoreProvider, TimeMode, UrlOptions, invalid, read_file,
    refuse_cut_password, unusable_file,
};
use url::Url;

use crate::builder::Server;
use crate::call::SqlStore;
use crate::driver::{Connections, Driver};
use crate::failure::BoxError;
use crate::libpq;
use crate::options::Settings;
use crate::zone;

/// A driver that opens connections of its own, from a URL.
pub trait Open: Driver {
    /// As [`FromUrl::from_url`].
    fn open(url: &str) -> impl Future<Output = Result<StoreProvider<SqlStore<Self>>>> + Send;

    /// As [`FromUrl::again_from_url`].
    fn open_again(url: &str) -> impl Future<Output = Result<StoreProvider<SqlStore<Self>>>> + Send;

    /// As [`FromUrl::schema`].
    fn schema(url: &str) -> impl Future<Output = Result<Schema>> + Send;

    /// As [`FromUrl::address`].
    fn address_of(store: &SqlStore<Self>, url: &str) -> Option<String>;

    /// As [`FromUrl::reach`].
    fn reach(store: &SqlStore<Self>) -> impl Future<Output = Result<()>> + Send;
}

impl<B: Open> FromUrl for SqlStore<B> {
    const NAME: &'static str = B::STORE;

    type Store = Self;

    async fn from_url(url: &str) -> Result<StoreProvider<Self>> {
        B::open(url).await
    }

    async fn again_from_url(url: &str) -> Result<StoreProvider<Self>> {
        B::open_again(url).await
    }

    async fn schema(url: &str) -> Result<Schema> {
        B::schema(url).await
    }

    fn address(store: &Self, url: &str) -> Option<String> {
        B::address_of(store, url)
    }

    async fn reach(store: &Self) -> Result<()> {
        B::reach(store).await
    }
}

/// A server whose driver reads URLs.
pub trait Remote: Server {
    /// Takes the database's own options from the URL and lets the driver read the rest. No I/O except for files that
    /// the URL names.
    ///
    /// # Errors
    /// `InvalidInput` for options that are not accepted, `Configuration` for files that cannot be used.
    fn read(address: &mut Address) -> Result<Self::Options>;

    /// The provider that a URL describes. Nothing is connected to.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn described(url: &str) -> Result<StoreProvider<SqlStore<Self>>> {
        refuse_cut_password(url)?;
        let mut address = Address::parse(url)?;
        address.settings.prepared = address.options.flag("prepared")?;
        let skew = address.options.duration("server_skew")?;
        set(&mut address.settings.server_skew, skew);
        let options = Self::read(&mut address)?;
        Ok(address.store(options, MAX_CONNECTIONS)?.provider())
    }
}

impl<B: Remote> Open for B {
    async fn open(url: &str) -> Result<StoreProvider<SqlStore<B>>> {
        B::described(url)
    }

    async fn open_again(url: &str) -> Result<StoreProvider<SqlStore<B>>> {
        B::described(url)
    }

    async fn schema(url: &str) -> Result<Schema> {
        Ok(B::described(url)?.backend().schema())
    }

    /// Drivers take a missing host from their defaults and from variables like PGHOST, and options can name another host.
    fn address_of(store: &SqlStore<B>, url: &str) -> Option<String> {
        let address = store.connections.address()?;
        match has_host(url) {
            true => Some(address),
            false => Some(format!("{address} (no host in the URL)")),
        }
    }

    /// Reads the table's shape and keeps it.
    async fn reach(store: &SqlStore<B>) -> Result<()> {
        store.call().check_unless_to_migrate().await
    }
}

/// The host of a URL, with its port; several of them, if it has several.
fn hosts(place: &str) -> &str {
    let (_, rest) = place.split_once("://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// Refuses a list of hosts.
fn one_host(hosts: &str) -> Result<()> {
    match hosts.contains(',') {
        true => Err(invalid(
            "the store's URL lists several hosts, and this driver connects to one host only",
        )
        .advise("write the host of a proxy, or a DNS name, that always leads to the primary")),
        false => Ok(()),
    }
}

fn has_host(url: &str) -> bool {
    let (place, mut options) = UrlOptions::split(url);
    let host = hosts(place);
    let mut has = |name| !matches!(options.text(name), Ok(None));
    !host.is_empty() && !host.starts_with(':') || has("host") || has("hostaddr") || has("socket")
}

/// Applies a setting that the URL contains.
fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

/// A URL, parsed as far as all dialects are alike.
#[derive(Debug)]
pub struct Address {
    url: Url,
    pub(crate) settings: Settings,
    max_connections: Option<usize>,
    /// How long a call waits for one of our own connections.
    pub connect_timeout: Duration,
    /// The options that were not taken yet.
    pub options: UrlOptions,
}

/// The default maximum of our own connections to a server. Each is opened only when it is needed: one is enough for a
/// program with one job at a time.
const MAX_CONNECTIONS: usize = 4;

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// `InvalidInput`. The error never contains the URL, which may contain a password.
    pub fn parse(text: &str) -> Result<Self> {
        let (place, mut options) = UrlOptions::split(text);
        // The error of the URL's parser would be about a port.
        one_host(hosts(place))?;
        let url = Url::parse(place).map_err(|error| {
            invalid(format!("cannot read the store's URL: {error}"))
                .advise("write it like scheme://user@host:port/database?option=value")
        })?;
        let mut settings = Settings {
            schema: options.text("schema")?,
            defaults: options.defaults()?,
            timeout: options.duration("timeout")?,
            ..Settings::default()
        };
        settings.table = options.text("table")?;
        let mut text = |name, setting| options.text(name).map(|value| set(setting, value));
        text("name_column", &mut settings.name_column)?;
        text("lock_until_column", &mut settings.lock_until_column)?;
        text("locked_at_column", &mut settings.locked_at_column)?;
        text("locked_by_column", &mut settings.locked_by_column)?;
        settings.time = TimeMode::take(&mut options)?;
        let max_connections = options.number("max_connections")?;
        if max_connections.is_some_and(|most| !(1..=1_000).contains(&most)) {
            return Err(invalid(
                "option \"max_connections\" in the URL must be a number from 1 to 1000",
            ));
        }
        let connect_timeout = match url.scheme() {
            "postgres" | "postgresql" => libpq::connect_timeout(&mut options)?,
            _ => options.duration("connect_timeout")?,
        };
        Ok(Self {
            url,
            settings,
            max_connections,
            connect_timeout: connect_timeout.unwrap_or(Duration::from_secs(10)),
            options,
        })
    }

    /// Returns the URL with the options left for the driver. `known` lists the names that the driver accepts, separated
    /// by spaces (`options[` stands for all names with this prefix).
    ///
    /// # Errors
    /// `InvalidInput` for any other.
    pub fn for_driver(&mut self, known: &str) -> Result<Url> {
        let known: Vec<_> = known.split_whitespace().collect();
        let rest = std::mem::take(&mut self.options).finish_for_driver(&known)?;
        // The driver's own errors do not name the option.
        let mut typed = UrlOptions::parse(&rest.join("&"));
        typed.number::<usize>("statement-cache-capacity")?;
        typed.number::<u16>("port")?;
        if let Some(hosts) = typed.text("host")? {
            one_host(&hosts)?;
        }
        let address = typed.text("hostaddr")?;
        if let Some(address) = address.filter(|it| it.parse::<IpAddr>().is_err()) {
            return Err(invalid(format!(
                "option \"hostaddr\" in the URL must be an IP address, not {address:?}"
            )));
        }
        let mut url = self.url.clone();
        if !rest.is_empty() {
            url.set_query(Some(&rest.join("&")));
        }
        for (option, value) in url.query_pairs() {
            if TLS_FILES.split(' ').any(|it| it == option) {
                check_file(&option, &value)?;
            }
        }
        Ok(url)
    }

    /// Takes `durable_unlock`, an option of PostgreSQL.
    ///
    /// # Errors
    /// `InvalidInput` for a value that is no flag.
    pub fn take_durable_unlock(&mut self) -> Result<()> {
        let durable = self.options.flag("durable_unlock")?;
        set(&mut self.settings.durable_unlock, durable);
        Ok(())
    }

    /// Takes `shared_session_zone`, an option of MySQL and MariaDB, and returns the zone that sessions are to have.
    ///
    /// # Errors
    /// `InvalidInput` for a value that is no zone.
    pub fn take_session_zone(&mut self) -> Result<String> {
        // In a URL a plus sign stands for a space.
        let zone = self.options.text("shared_session_zone")?;
        let zone = zone.map(|zone| zone::parse(&zone.replace(' ', "+")));
        self.settings.shared_session_zone = zone.transpose()?;
        Ok(self.settings.zone().to_owned())
    }

    /// Whether an option names the schema of the table.
    #[must_use]
    pub fn names_schema(&self) -> bool {
        self.settings.names_schema()
    }

    /// The store with its own connections, at most `usual` unless the URL sets the number.
    pub(crate) fn store<B: Driver>(self, connect: B::Options, usual: usize) -> Result<SqlStore<B>> {
        let options = B::DIALECT.options(self.settings)?;
        let size = self.max_connections.unwrap_or(usual);
        let connections = Connections::own(connect, size, self.connect_timeout, &options);
        Ok(SqlStore::new(connections, options))
    }
}

/// The options of sqlx that name files. It reads them only when it connects, and its errors do not name them.
const TLS_FILES: &str = "sslca ssl-ca sslrootcert ssl-root-cert sslcert ssl-cert sslkey ssl-key";

/// Refuses a file that cannot be read, or is not in PEM. The value may also be the text of such a file.
fn check_file(option: &str, value: &str) -> Result<()> {
    const PEM: &[u8] = b"-----BEGIN";
    if value.trim().as_bytes().starts_with(PEM) {
        return Ok(());
    }
    let text = read_file(option, value)?;
    let mut places = text.windows(PEM.len());
    match places.any(|place| place == PEM) {
        true => Ok(()),
        false => Err(unusable_file(option)),
    }
}

/// The error for an option that the driver accepts with a value that it rejects. `tls` is the option that sqlx calls
/// `ssl_mode`.
#[must_use]
pub fn refused_option(error: impl Into<BoxError>, tls: &str, modes: &str) -> Error {
    let error: BoxError = error.into();
    // Each error repeats the text of its cause.
    let mut cause: &(dyn std::error::Error + 'static) = &*error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let reason = cause.to_string();
    match reason.strip_suffix("`ssl_mode`") {
        Some(start) => invalid(format!("{start}{tls} in the URL")).advise(format!("use {modes}")),
        None => invalid("the driver rejects an option of the store's URL")
            .advise("correct that option")
            .with_source(reason),
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    /// Also returns what is left for the driver.
    fn parse(text: &str) -> Result<(Address, Url), Error> {
        let mut address = Address::parse(text)?;
        address.options.flag("prepared")?;
        let url = address.for_driver("sslmode options[")?;
        Ok((address, url))
    }

    #[test]
    fn ours_are_taken_out_and_theirs_stay() {
        let (address, url) = parse(
            "postgres://u:p@h/db?table=jobs&sslmode=require&prepared=false&options[a]=b&\
             lock_at_most_for=10m",
        )
        .unwrap();
        assert_eq!(
            url.as_str(),
            "postgres://u:p@h/db?sslmode=require&options[a]=b"
        );
        assert_eq!(address.settings.table.as_deref(), Some("jobs"));
        assert_eq!(
            address.settings.defaults,
            shedlock_core::LockDefaults::new().lock_at_most_for(Duration::from_secs(600))
        );
    }

    #[test]
    fn a_bad_value_of_a_drivers_option_is_named_with_what_is_accepted() {
        for (option, says) in [
            (
                "statement-cache-capacity=x",
                "option \"statement-cache-capacity\" in the URL must be a number, not \"x\"",
            ),
            (
                "port=1e3",
                "option \"port\" in the URL must be a number, not \"1e3\"",
            ),
            (
                "hostaddr=h",
                "option \"hostaddr\" in the URL must be an IP address, not \"h\"",
            ),
        ] {
            let mut address = Address::parse(&format!("postgres://h/db?{option}")).unwrap();
            let known = "statement-cache-capacity port hostaddr";
            let error = address.for_driver(known).unwrap_err();
            assert_eq!(error.to_string(), says);
        }
    }

    #[test]
    fn a_value_that_the_driver_rejects_is_named_once() {
        let inner = Error::new(ErrorKind::Internal, "unknown value \"x\" for `ssl_mode`");
        let outer = Error::new(ErrorKind::Internal, "error with configuration").with_source(inner);
        let error = refused_option(outer, "sslmode", "disable");
        assert_eq!(
            error.to_string(),
            "unknown value \"x\" for sslmode in the URL; use disable"
        );
    }

    #[test]
    fn a_url_without_options_stays_as_it_is() {
        assert_eq!(
            parse("postgres://h/db").unwrap().1.as_str(),
            "postgres://h/db"
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_name_and_shows_no_password() {
        let message = |text: &str| {
            let error = parse(text).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
            error.to_string()
        };
        assert!(message("postgres://u:secret@h/db?tabel=x").contains("unknown option \"tabel\""));
        assert!(message("postgres://u:secret@h/db?tabel=x").contains("schema, "));
        assert!(message("postgres://u:secret@h/db?table=a&table=b").contains("twice"));
        assert!(message("postgres://u:secret@h/db?time=java").contains("store or client"));
        assert!(message("postgres://u:secret@h/db?max_connections=0").contains("1 to 1000"));
        assert!(
            message("postgres://u:secret@h/db?connect_timeout=soon").contains("connect_timeout")
        );
        assert!(message("postgres://u:secret@h:port/db").contains("cannot read"));
        assert!(message("postgres://u:secret@h:1,i:2/db").contains("one host only"));
    }
}

//! URLs of stores: hosts, credentials and options, parsed in the same way for every store.
//!
//! No error contains the URL, which may hold a password.

use std::fmt;
use std::mem;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use shedlock_core::{LockDefaults, parse_duration};

use crate::builder::maybe;
use crate::errors::{Result, invalid};

/// A URL of a store: `scheme://user:password@host:port,host:port/path?option=value`. A URL that cannot be parsed is
/// `InvalidInput`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// In lower case.
    pub scheme: String,
    /// The part before the first colon of the login; none if empty.
    pub user: Option<String>,
    /// The part after that colon; none if empty.
    pub password: Option<String>,
    /// One or more.
    pub hosts: Vec<Host>,
    /// Without slashes at either end.
    pub path: String,
    /// The options after `?`.
    pub options: UrlOptions,
}

/// A host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address; an IPv6 address is without its brackets.
    pub name: String,
    /// The port, if the URL gives one.
    pub port: Option<u16>,
}

/// The options of a URL. The reader takes each option by its name.
///
/// Options that the reader has not taken are unknown: [`finish`](Self::finish) refuses them and lists the known ones.
/// An option that cannot be parsed or that is set twice is `InvalidInput`.
///
/// ```
/// use shedlock_provider::UrlOptions;
/// use std::time::Duration;
///
/// let mut options = UrlOptions::parse("connect_timeout=2s&tabel=jobs");
/// assert_eq!(options.timeout("connect_timeout")?, Some(Duration::from_secs(2)));
/// assert_eq!(options.text("table")?, None);
/// let error = options.finish().unwrap_err();
/// assert!(error.to_string().contains("unknown option \"tabel\""));
/// assert!(error.to_string().contains("connect_timeout, table"));
/// # Ok::<(), shedlock_core::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UrlOptions {
    left: Vec<UrlOption>,
    known: Vec<&'static str>,
}

#[derive(Clone, PartialEq, Eq)]
struct UrlOption {
    name: String,
    value: String,
    /// As it was in the URL.
    raw: String,
}

impl StoreUrl {
    /// Parses a URL. `example` is a sample URL for error messages.
    pub fn parse(text: &str, example: &str) -> Result<Self> {
        let unreadable = |why: &str| {
            invalid(format!("cannot read the store's URL: {why}"))
                .advise(format!("write it like {example}"))
        };
        refuse_cut_password(text)?;
        let (place, options) = UrlOptions::split(text);
        let (scheme, place) = place
            .split_once("://")
            .ok_or_else(|| unreadable("it has no scheme"))?;
        if place.contains('#') {
            return Err(unreadable(
                "it contains a '#', which must be written as %23",
            ));
        }
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            let text = text.map(String::from);
            text.map_err(|_| unreadable("a part of it is not valid UTF-8"))
        };
        let hosts = hosts.split(',').map(Host::parse).collect::<Option<_>>();
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: some(decoded(user)?),
            password: some(decoded(password)?),
            hosts: hosts.ok_or_else(|| unreadable("a host or a port is missing or invalid"))?,
            path: decoded(path.trim_matches('/'))?,
            options,
        })
    }

    /// Returns the host, for a store that accepts only one.
    pub fn only_host(&self) -> Result<&Host> {
        match &*self.hosts {
            [host] => Ok(host),
            _ => Err(invalid("the store's URL lists several hosts").advise("use one")),
        }
    }

    /// Returns the names of the hosts.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| &*host.name)
    }

    /// Returns `scheme://name:port` of each host, with the usual port if none is given.
    pub fn servers(&self, scheme: &str, usual_port: u16) -> impl Iterator<Item = String> {
        let hosts = self.hosts.iter();
        hosts.map(move |host| format!("{scheme}://{}", host.with_port(usual_port)))
    }

    /// Returns user and password, for a store that accepts both or neither.
    pub fn login(&self) -> Result<Option<(&str, &str)>> {
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => Ok(Some((user, password))),
            (None, None) => Ok(None),
            _ => Err(invalid(
                "the URL needs both a user and a password, or neither",
            )),
        }
    }

    /// Whether the URL's scheme uses TLS: `plain` does not, `encrypted` does.
    pub fn is_encrypted(&self, plain: &str, encrypted: &str) -> Result<bool> {
        match &*self.scheme {
            scheme if scheme == plain => Ok(false),
            scheme if scheme == encrypted => Ok(true),
            scheme => Err(invalid(format!("the URL has the scheme {scheme:?}"))
                .advise(format!("use {plain}:// or, for TLS, {encrypted}://"))),
        }
    }
}

/// Refuses a server's URL whose path contains an `@`. That `@` may be the end of a password with an unescaped `/`: the
/// host would be a part of the password.
///
/// [`StoreUrl::parse`] does so. This is for stores whose driver parses the URL.
pub fn refuse_cut_password(url: &str) -> Result<()> {
    let (place, _) = UrlOptions::split(url);
    let parts = place.split_once("://");
    match parts.and_then(|(_, rest)| rest.split_once('/')) {
        Some((_, path)) if path.contains('@') => Err(invalid("the URL's path contains an '@'")
            .advise("write it as %40")
            .of_url(url)),
        _ => Ok(()),
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl Host {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(text) => text.split_once(']')?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        let is_name =
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        is_name.then(|| Self {
            name: name.to_owned(),
            port,
        })
    }

    /// Returns `name:port`, with the usual port if none is given.
    pub fn with_port(&self, usual: u16) -> String {
        let port = self.port.unwrap_or(usual);
        if self.name.contains(':') {
            format!("[{}]:{port}", self.name)
        } else {
            format!("{}:{port}", self.name)
        }
    }
}

impl UrlOptions {
    /// Returns the part of a URL before its `?`, unchanged, and its options: for a driver that parses the first part
    /// itself.
    pub fn split(url: &str) -> (&str, Self) {
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        (place, Self::parse(options))
    }

    /// Parses `name=value&name=value`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let left = pairs.filter_map(|raw| {
            let (name, value) = form_urlencoded::parse(raw.as_bytes()).next()?;
            Some(UrlOption {
                name: name.into_owned(),
                value: value.into_owned(),
                raw: raw.to_owned(),
            })
        });
        Self {
            left: left.collect(),
            known: Vec::new(),
        }
    }

    /// Takes an option as text.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>> {
        self.known.push(name);
        let options = mem::take(&mut self.left).into_iter();
        let (mut found, left): (Vec<_>, _) = options.partition(|option| option.name == name);
        self.left = left;
        let value = found.pop().map(|option| option.value);
        if !found.is_empty() {
            return Err(
                invalid(format!("option {name:?} is set twice in the URL")).advise("remove one")
            );
        }
        Ok(value)
    }

    /// Takes a duration like `10m`.
    pub fn duration(&mut self, name: &'static str) -> Result<Option<Duration>> {
        let text = self.text(name)?;
        let parsed = text.map(|text| parse_duration(&text)).transpose();
        parsed.map_err(|error| error.about(format_args!("option {name:?} in the URL")))
    }

    /// Takes a duration that is not zero.
    pub fn timeout(&mut self, name: &'static str) -> Result<Option<Duration>> {
        match self.duration(name)? {
            Some(Duration::ZERO) => Err(invalid(format!(
                "option {name:?} in the URL must be longer than zero"
            ))),
            timeout => Ok(timeout),
        }
    }

    /// Takes a number.
    pub fn number<N: FromStr>(&mut self, name: &'static str) -> Result<Option<N>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let parsed = text.parse().map(Some);
        parsed.map_err(|_| {
            invalid(format!(
                "option {name:?} in the URL must be a number, not {text:?}"
            ))
        })
    }

    /// Takes `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// Takes one of these words.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let chosen = choices.iter().find(|(word, _)| *word == text);
        let Some((_, chosen)) = chosen else {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            return Err(invalid(format!(
                "option {name:?} in the URL must be {}, not {text:?}",
                words.join(" or ")
            )));
        };
        Ok(Some(*chosen))
    }

    /// Takes `lock_at_most_for`, `lock_at_least_for` and `owner_prefix`, for locks that set none.
    pub fn defaults(&mut self) -> Result<LockDefaults> {
        let at_most = self.duration("lock_at_most_for")?;
        let at_least = self.duration("lock_at_least_for")?;
        let defaults = maybe(LockDefaults::new(), at_most, LockDefaults::lock_at_most_for);
        let defaults = maybe(defaults, at_least, LockDefaults::lock_at_least_for);
        let prefix = self.text("owner_prefix")?;
        let defaults = maybe(defaults, prefix, LockDefaults::owner_prefix);
        defaults.validate()?;
        Ok(defaults)
    }

    /// Takes all remaining options, unchanged: for a driver that parses its own options.
    pub fn rest(&mut self) -> Vec<String> {
        self.left.drain(..).map(|option| option.raw).collect()
    }

    /// Returns the names of all options that the reader has tried to take.
    pub fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Refuses any remaining options.
    pub fn finish(self) -> Result<()> {
        self.finish_for_driver(&[]).map(drop)
    }

    /// Returns the remaining options, unchanged, for a driver that accepts only the options in `theirs`. An entry that
    /// ends in `[`, like `options[`, stands for all names that begin with it.
    pub fn finish_for_driver(self, theirs: &[&str]) -> Result<Vec<String>> {
        let is_theirs = |name: &str| {
            theirs
                .iter()
                .any(|known| *known == name || (known.ends_with('[') && name.starts_with(known)))
        };
        let Some(unknown) = self.left.iter().find(|option| !is_theirs(&option.name)) else {
            return Ok(self.left.into_iter().map(|option| option.raw).collect());
        };
        let mut known = self.known.join(", ");
        if !theirs.is_empty() {
            let theirs = theirs.join(", ").replace('[', "[…]");
            known.push_str(&format!(", and the driver's {theirs}"));
        }
        Err(
            invalid(format!("unknown option {:?} in the URL", unknown.name))
                .advise(format!("allowed: {known}")),
        )
    }
}

/// Leaves out user and password.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreUrl")
            .field("scheme", &self.scheme)
            .field("hosts", &self.hosts)
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UrlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.left.iter().map(|option| &option.name);
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::ErrorKind;

    fn parse(text: &str) -> Result<StoreUrl> {
        StoreUrl::parse(text, "redis://host:6379")
    }

    #[test]
    fn a_url_names_hosts_credentials_and_a_path() {
        let url = parse("ETCD://ann:p%40ss:word@a:1,[::1]:2,b/team%20a/locks/?x=1").unwrap();
        assert_eq!(url.scheme, "etcd");
        assert_eq!(url.user.as_deref(), Some("ann"));
        assert_eq!(url.password.as_deref(), Some("p@ss:word"));
        let hosts: Vec<_> = url.hosts.iter().map(|host| host.with_port(9)).collect();
        assert_eq!(hosts, ["a:1", "[::1]:2", "b:9"]);
        assert_eq!(url.path, "team a/locks");
        assert!(!format!("{url:?}").contains("p@ss"));
        let plain = parse("redis://h").unwrap();
        assert_eq!((plain.user, plain.password, &*plain.path), (None, None, ""));
        let secret = parse("redis://:secret@h").unwrap();
        assert_eq!((secret.user, &*secret.password.unwrap()), (None, "secret"));
    }

    #[test]
    fn an_invalid_url_is_refused_without_showing_it() {
        for text in [
            "secret",
            "redis://",
            "redis://secret@",
            "redis://u:secret@h:0",
            "redis://u:secret@h:port",
            "redis://u:secret@h,,h",
            "redis://u:secret@[::1",
            "redis://u:secret@[::1]7",
            "redis://u:secret@h#x",
            "redis://u:secret%ff@h",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains("write it like"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_that_ends_at_a_slash_is_not_taken_for_a_host() {
        for text in [
            "redis://u:p@secret/x@h/0",
            "redis://u:12/secret@h",
            "redis://secret/x@h?a=b",
            "redis://u:p@s/@h",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains("%2F"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(parse("redis://u:p%2F@h/a%40b?c=d@e").is_ok());
    }

    #[test]
    fn options_are_read_by_their_type() {
        let mut options = UrlOptions::parse(
            "a=1&b=yes&c=2s&d=0s&e=tape&f=%2Fa+b&f2=x&f2=y&lock_at_most_for=10m&owner_prefix=blue",
        );
        assert_eq!(options.number::<u32>("a").unwrap(), Some(1));
        for error in [
            options.flag("b").map(drop),
            options.timeout("d").map(drop),
            options.choice("e", &[("file", 1), ("memory", 2)]).map(drop),
            options.text("f2").map(drop),
        ] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(options.duration("c").unwrap(), Some(Duration::from_secs(2)));
        assert_eq!(options.text("f").unwrap().as_deref(), Some("/a b"));
        let defaults = LockDefaults::new()
            .lock_at_most_for(Duration::from_secs(600))
            .owner_prefix("blue");
        assert_eq!(options.defaults().unwrap(), defaults);
        options.finish().unwrap();
    }

    #[test]
    fn what_is_left_can_go_to_a_driver_as_it_was() {
        let mut options = UrlOptions::parse("table=jobs&tlsCAFile=%2Fca.pem&tags=a&tags=b");
        options.text("table").unwrap();
        assert_eq!(options.rest(), ["tlsCAFile=%2Fca.pem", "tags=a", "tags=b"]);
        options.finish().unwrap();
    }
}

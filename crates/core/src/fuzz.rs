//! What reads foreign text here, as targets of fuzzing: each panics where a promise is broken. And
//! what the targets of other crates promise alike.

use std::error::Error as StdError;

use crate::{
    Error, ErrorKind, LockDuration, LockName, LockRecord, LockState, Owner, parse_duration, text,
};

/// Stands for a password in the corpora of URLs.
const SECRET: &str = "geheim";

/// A refusal is of one of these kinds, and is one line that begins as an error of ours does.
pub fn is_refusal(error: &Error, kinds: &[ErrorKind]) {
    assert!(kinds.contains(&error.kind()), "{error:?}");
    let message = error.message();
    assert!(message.len() > 10, "too short: {message:?}");
    assert!(!message.ends_with('.'), "ends like a sentence: {message:?}");
    assert!(
        !message.chars().any(char::is_control),
        "not one line: {message:?}"
    );
}

/// As [`is_refusal`], of a URL: what stands where a password does is in no part of the error.
pub fn is_refusal_of_url(error: &Error, url: &str, kinds: &[ErrorKind]) {
    is_refusal(error, kinds);
    let mut all = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        all.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    assert!(
        !holds_secret(url) || !all.contains(SECRET),
        "tells a password: {all}"
    );
}

/// A URL: `read` reads no file and asks no server, and whatever it refuses is input.
pub fn url<T>(data: &[u8], read: impl FnOnce(&str) -> Result<T, Error>) {
    let url = String::from_utf8_lossy(data);
    if let Err(error) = read(&url) {
        is_refusal_of_url(&error.of_url(&url), &url, &[ErrorKind::InvalidInput]);
    }
}

/// The same for what reads files: URLs that name any are left out.
pub fn url_without_files<T>(data: &[u8], read: impl FnOnce(&str) -> Result<T, Error>) {
    let url = String::from_utf8_lossy(data);
    let names_file = |option| url.contains(option);
    if !["tls_ca", "tls_cert", "tls_key", "token_file"]
        .into_iter()
        .any(names_file)
    {
        self::url(data, read);
    }
}

/// Key prefix, environment and what stands behind them, a line each: names become two keys and keys names, of which no
/// two meet. Names that do not fit are no key's.
pub fn keys<K>(
    data: &[u8],
    new: impl Fn(&str, &str) -> Result<K, Error>,
    of: impl Fn(&K, &LockName) -> [String; 2],
    name_of: impl Fn(&K, &str) -> Option<LockName>,
    fits: impl Fn(&LockName) -> bool,
) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let keys = match new(line(), line()) {
        Ok(keys) => keys,
        Err(error) => return is_refusal(&error, &[ErrorKind::InvalidInput]),
    };
    let last = line();
    if let Some(name) = name_of(&keys, last) {
        assert!(of(&keys, &name).iter().any(|key| key == last), "{name}");
    }
    let Ok(name) = LockName::new(last) else {
        return;
    };
    let both = of(&keys, &name);
    assert_ne!(both[0], both[1]);
    let expected = fits(&name).then_some(&name);
    for key in &both {
        assert_eq!(name_of(&keys, key).as_ref(), expected, "{key}");
    }
}

/// Whether the secret stands behind the scheme and before the `@` of a host, and nowhere else.
pub fn holds_secret(url: &str) -> bool {
    let mut parts = url.splitn(2, "://");
    let (Some(_), Some(rest)) = (parts.next(), parts.next()) else {
        return false;
    };
    url.matches(SECRET).count() == 1
        && rest
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, password)| password.contains(SECRET))
}

/// Durations as users write them: what is read is written and read again, and the rest is refused by
/// a message that shows it.
pub fn duration(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    match parse_duration(&input) {
        Ok(duration) => {
            let printed = text::duration(duration);
            assert_eq!(parse_duration(&printed).ok(), Some(duration), "{printed}");
            assert_eq!(LockDuration::from(&*input).get().ok(), Some(duration));
        }
        Err(error) => {
            is_refusal(&error, &[ErrorKind::InvalidInput]);
            assert!(error.message().contains(&format!("{input:?}")), "{error}");
            assert!(error.message().contains("like \"10m\""), "{error}");
            assert!(LockDuration::from(&*input).get().is_err());
        }
    }
}

/// Names of locks.
pub fn name(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    match LockName::new(&*input) {
        Ok(name) => {
            assert_eq!(name.as_str(), input);
            assert!(!input.trim().is_empty() && !input.chars().any(char::is_control));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
}

/// Owners as stores keep them, ours and others'.
pub fn owner(data: &[u8]) {
    let stored = String::from_utf8_lossy(data);
    match Owner::parse(&stored) {
        Ok(owner) => {
            assert_eq!(owner.as_str(), stored);
            assert!(Owner::is_ours(&stored) && !Owner::is_released(&stored));
            assert_eq!(Owner::without_mark(&owner.released()), stored);
            assert!(owner.released().len() <= 255);
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
    match Owner::generate_with_prefix(&stored) {
        Ok(owner) => {
            assert_eq!(Owner::parse(owner.as_str()).ok(), Some(owner.clone()));
            assert!(owner.as_str().starts_with(&*stored));
        }
        Err(error) => is_refusal(&error, &[ErrorKind::InvalidInput]),
    }
    let marked = Owner::released_text(&stored);
    assert!(Owner::is_released(&marked) && Owner::without_mark(&marked) == stored);
    let name = LockName::new("job").expect("it is a name");
    let record = LockRecord::from_stored(name, &stored, true);
    let is_kept = record.state == LockState::AtLeast;
    assert_eq!(is_kept, Owner::is_released(&stored));
    assert_ne!(record.owner.as_deref(), Some(""));
    let skip = record.as_skip().to_string();
    assert!(
        skip.len() > 3 && !skip.contains(char::is_control),
        "{skip:?}"
    );
}

#[cfg(test)]
shedlock_fuzz::tests!(duration, name, owner);

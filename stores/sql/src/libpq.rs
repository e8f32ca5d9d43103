//! Options of libpq in a URL of PostgreSQL: an application's own URL often has some that the driver does not read.
//!
//! Those that change nothing here are accepted, and so are values that the driver's behaviour satisfies. A value that
//! demands what the driver cannot do is refused.

use std::time::Duration;

use shedlock_provider::{Result, UrlOptions, invalid};

/// Options of which these words are accepted.
const WORDS: &[(&str, &str)] = &[
    ("channel_binding", "disable prefer"),
    ("gssencmode", "disable prefer"),
    ("sslnegotiation", "postgres"),
    ("sslsni", "0 1"),
    ("sslcompression", "0"),
    ("sslcertmode", "allow"),
    ("ssl_min_protocol_version", "TLSv1 TLSv1.1 TLSv1.2"),
    ("ssl_max_protocol_version", "TLSv1.3"),
    // Locks need a server that accepts writes: others refuse each statement.
    ("target_session_attrs", "any read-write primary"),
    // There is one host.
    ("load_balance_hosts", "disable random"),
    // The driver's own.
    (
        "client_encoding",
        "UTF8 utf8 UTF-8 utf-8 unicode UNICODE auto",
    ),
];

/// Options of which any number is accepted: the driver connects without it.
const NUMBERS: &str =
    "keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout";

/// The name of the program, for sessions without one.
const PROGRAM: &str = "fallback_application_name";

/// Options that are refused, whatever their value is.
const REFUSED: &str = "passfile service servicefile gsslib gssdelegation krbsrvname require_auth requirepeer requiressl \
     replication sslcrl sslcrldir sslpassword sslkeylogfile min_protocol_version max_protocol_version \
     scram_client_key scram_server_key oauth_issuer oauth_client_id oauth_client_secret";

/// Takes the options of libpq that the driver does not read; `known` lists those that it reads. Returns the name of the
/// program that the URL gives for sessions without one.
///
/// # Errors
/// `InvalidInput` for a value that the driver cannot satisfy.
pub fn take(options: &mut UrlOptions, known: &str) -> Result<Option<String>> {
    let is_left = |name: &str| !known.split(' ').any(|it| it == name);
    let unsupported = |what: String, instead: &str| {
        invalid(format!(
            "option {what} in the URL is not supported by this driver"
        ))
        .advise(format!("remove it{instead}"))
    };
    // Copies, so that messages do not list options that are only tolerated.
    let copy = options.clone();
    let value = |name: &'static str| copy.clone().text(name);
    for name in REFUSED.split(' ').filter(|name| is_left(name)) {
        if value(name)?.is_some() {
            return Err(unsupported(format!("{name:?}"), ""));
        }
    }
    for (name, words) in WORDS.iter().filter(|(name, _)| is_left(name)) {
        let Some(value) = value(name)? else { continue };
        if !words.split(' ').any(|word| word == value) {
            let instead = match words.rsplit_once(' ') {
                Some((rest, last)) => format!("{} or {last}", rest.replace(' ', ", ")),
                None => (*words).to_owned(),
            };
            let what = format!("\"{name}={value}\"");
            return Err(unsupported(what, &format!(", or use {instead}")));
        }
        options.text(name)?;
    }
    for name in NUMBERS.split(' ').filter(|name| is_left(name)) {
        if copy.clone().number::<u64>(name)?.is_some() {
            options.text(name)?;
        }
    }
    match value(PROGRAM)? {
        Some(_) if is_left(PROGRAM) => options.text(PROGRAM),
        _ => Ok(None),
    }
}

/// Takes `connect_timeout`, which libpq writes in seconds without a unit.
pub(crate) fn connect_timeout(options: &mut UrlOptions) -> Result<Option<Duration>> {
    const NAME: &str = "connect_timeout";
    let text = options.clone().text(NAME)?;
    match text.and_then(|text| text.parse().ok()) {
        Some(0) => Err(invalid(format!(
            "option {NAME:?} in the URL must be longer than zero"
        ))),
        Some(seconds) => {
            options.text(NAME)?;
            Ok(Some(Duration::from_secs(seconds)))
        }
        None => options.duration(NAME),
    }
}

/// Takes `sslrootcert=system`: the authorities that the driver trusts by itself, with the server's name verified.
/// Returns whether it was set.
///
/// # Errors
/// `InvalidInput` for another `sslmode` beside it, as in libpq.
pub fn system_authorities(options: &mut UrlOptions) -> Result<bool> {
    const NAME: &str = "sslrootcert";
    if options.clone().text(NAME)?.as_deref() != Some("system") {
        return Ok(false);
    }
    options.text(NAME)?;
    let mode = options.clone().text("sslmode")?;
    match mode {
        Some(mode) if mode != "verify-full" => Err(invalid(format!(
            "option \"sslrootcert=system\" in the URL cannot be combined with sslmode={mode}"
        ))
        .advise("use sslmode=verify-full")),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_reads_itself_is_left_to_it() {
        let mut options = UrlOptions::parse("keepalives=0&passfile=/a&gssencmode=disable");
        take(&mut options, "keepalives passfile").unwrap();
        assert_eq!(options.rest(), ["keepalives=0", "passfile=/a"]);
    }

    #[test]
    fn a_timeout_has_a_unit_or_is_in_seconds() {
        let read = |text: &str| connect_timeout(&mut UrlOptions::parse(text));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(read("connect_timeout=10").unwrap(), seconds(10));
        assert_eq!(read("connect_timeout=1m").unwrap(), seconds(60));
        assert_eq!(read("").unwrap(), None);
        for wrong in [
            "connect_timeout=-1",
            "connect_timeout=0",
            "connect_timeout=soon",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

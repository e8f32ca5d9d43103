//! Options of libpq in a URL of PostgreSQL: an application's own URL often has some that the driver does not read.
//!
//! Those that change nothing here are accepted, and so are values that the driver's behaviour satisfies. A value that
//! demands what the driver cannot do is refused.

use std::time::Duration;

use shedlock_store::{Result, UrlOptions, invalid};

/// What is accepted of an option that the driver does not read.
enum Accepted {
    /// Any number: the driver connects without it.
    Number,
    /// Any text.
    Text,
    /// These words.
    Words(&'static [&'static str]),
    /// Nothing.
    Nothing,
}

use Accepted::{Nothing, Number, Text, Words};

const OPTIONS: &[(&str, Accepted)] = &[
    ("channel_binding", Words(&["disable", "prefer"])),
    ("gssencmode", Words(&["disable", "prefer"])),
    ("sslnegotiation", Words(&["postgres"])),
    ("sslsni", Words(&["0", "1"])),
    ("sslcompression", Words(&["0"])),
    ("sslcertmode", Words(&["allow"])),
    (
        "ssl_min_protocol_version",
        Words(&["TLSv1", "TLSv1.1", "TLSv1.2"]),
    ),
    ("ssl_max_protocol_version", Words(&["TLSv1.3"])),
    // Locks need a server that accepts writes: others refuse each statement.
    (
        "target_session_attrs",
        Words(&["any", "read-write", "primary"]),
    ),
    // There is one host.
    ("load_balance_hosts", Words(&["disable", "random"])),
    // The driver's own.
    (
        "client_encoding",
        Words(&[
            "UTF8", "utf8", "UTF-8", "utf-8", "unicode", "UNICODE", "auto",
        ]),
    ),
    ("keepalives", Number),
    ("keepalives_idle", Number),
    ("keepalives_interval", Number),
    ("keepalives_count", Number),
    ("tcp_user_timeout", Number),
    ("fallback_application_name", Text),
    ("passfile", Nothing),
    ("service", Nothing),
    ("servicefile", Nothing),
    ("gsslib", Nothing),
    ("gssdelegation", Nothing),
    ("krbsrvname", Nothing),
    ("require_auth", Nothing),
    ("requirepeer", Nothing),
    ("requiressl", Nothing),
    ("replication", Nothing),
    ("sslcrl", Nothing),
    ("sslcrldir", Nothing),
    ("sslpassword", Nothing),
    ("sslkeylogfile", Nothing),
    ("min_protocol_version", Nothing),
    ("max_protocol_version", Nothing),
    ("scram_client_key", Nothing),
    ("scram_server_key", Nothing),
    ("oauth_issuer", Nothing),
    ("oauth_client_id", Nothing),
    ("oauth_client_secret", Nothing),
];

/// Takes the options of libpq that the driver does not read; `known` lists those that it reads. Returns the name of the
/// program that the URL gives for sessions without one.
///
/// # Errors
/// `InvalidInput` for a value that the driver cannot satisfy.
pub(crate) fn take(options: &mut UrlOptions, known: &str) -> Result<Option<String>> {
    let mut program = None;
    for (name, accepted) in OPTIONS {
        if known.split_whitespace().any(|it| it == *name) {
            continue;
        }
        // A copy, so that messages do not list options that are only tolerated.
        let Some(value) = options.clone().text(name)? else {
            continue;
        };
        let unsupported = |what: &str, instead: &str| {
            Err(invalid(format!(
                "option {what} in the URL is not supported by this driver: remove it{instead}"
            )))
        };
        match accepted {
            Nothing => return unsupported(&format!("{name:?}"), ""),
            Words(words) if !words.contains(&&*value) => {
                let instead = match words.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        format!(", or use {} or {last}", rest.join(", "))
                    }
                    _ => format!(", or use {}", words.join("")),
                };
                return unsupported(&format!("\"{name}={value}\""), &instead);
            }
            Words(_) | Text => {}
            Number => drop(options.clone().number::<u64>(name)?),
        }
        let value = options.text(name)?;
        if *name == "fallback_application_name" {
            program = value;
        }
    }
    Ok(program)
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
pub(crate) fn system_authorities(options: &mut UrlOptions) -> Result<bool> {
    const NAME: &str = "sslrootcert";
    if options.clone().text(NAME)?.as_deref() != Some("system") {
        return Ok(false);
    }
    options.text(NAME)?;
    let mode = options.clone().text("sslmode")?;
    match mode {
        Some(mode) if mode != "verify-full" => Err(invalid(format!(
            "option \"sslrootcert=system\" in the URL cannot be combined with sslmode={mode}: use \
             sslmode=verify-full"
        ))),
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

//! The users of the dashboard: a file of password hashes, and HTTP's basic authentication.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::SystemRandom;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use shedlock::{Clock as _, SystemClock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::brake::{self, Brake};
use crate::exit::{Failure, INTERNAL};
use crate::output;

/// bcrypt's cost of a new hash: about a tenth of a second.
const COST: u32 = 11;

/// The costs that `htpasswd` accepts. At the highest, a sign-in takes seconds.
const COSTS: RangeInclusive<u32> = 4..=17;

/// bcrypt reads no more bytes of a password.
const LONGEST: usize = 72;

/// A user who has been authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) may_operate: bool,
}

/// The users, by name.
pub(super) struct Users {
    users: BTreeMap<String, Entry>,
    /// Of passwords that were right: bcrypt is slow, and a browser sends the password with each request.
    known: Mutex<BTreeMap<String, hmac::Tag>>,
    key: hmac::Key,
    /// One hash at a time, so that guesses do not use all processors.
    turn: Arc<Semaphore>,
    brake: Brake,
    is_behind_proxy: bool,
}

/// Why a request has no user.
enum Refused {
    Unknown,
    /// The address had too many refused sign-ins. It may try again after this time.
    TooMany(Duration),
}

struct Entry {
    hash: String,
    may_operate: bool,
}

/// A line for the file, for a password that is read from stdin.
pub(super) fn line_for(user: &str) -> Result<String, Failure> {
    let refused = |why: &str| {
        let message = format!("--hash-password {user:?}: {why}; choose another name");
        Err(Failure::usage(message))
    };
    if user.is_empty() || user.contains(':') || user.contains(char::is_control) {
        return refused("a user's name cannot be empty or contain a colon or a control character");
    }
    if user.starts_with('#') {
        return refused("a line that starts with # is a comment");
    }
    let password = read_password()?;
    if password.is_empty() || password.len() > LONGEST {
        return Err(Failure::usage(format!(
            "the password was not hashed: it has {} bytes; choose one of 1 to {LONGEST}",
            password.len()
        )));
    }
    let hash = bcrypt::hash(password, COST)
        .map_err(|error| Failure::new(INTERNAL, format!("cannot hash the password: {error}")))?;
    Ok(format!("{user}:{hash}\n"))
}

/// A line of stdin, which a terminal does not show.
fn read_password() -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let shown = stdin
        .is_terminal()
        .then(|| tcgetattr(&stdin).ok())
        .flatten();
    if let Some(shown) = &shown {
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // Otherwise the password is shown.
        let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(shown) = &shown {
        let _ = tcsetattr(&stdin, OptionalActions::Flush, shown);
    }
    read.map_err(|error| {
        Failure::usage(format!(
            "cannot read the password from stdin: {error}; write it to stdin as one line"
        ))
    })?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

impl Users {
    pub(super) fn read(file: &Path, is_behind_proxy: bool) -> Result<Self, Failure> {
        let place = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!(
                "--auth-file: cannot read {place}: {error}; check the path and its permissions"
            ))
        })?;
        let users = parse(&text)
            .map_err(|(line, why)| Failure::usage(format!("--auth-file: {place}:{line}: {why}")))?;
        if users.is_empty() {
            return Err(Failure::usage(format!(
                "--auth-file: {place} has no users; add the line that `shedlock ui --hash-password USER` prints"
            )));
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Self {
            users,
            known: Mutex::default(),
            key: key.map_err(|_| Failure::new(INTERNAL, "cannot make a key"))?,
            turn: Arc::new(Semaphore::new(1)),
            brake: Brake::default(),
            is_behind_proxy,
        })
    }

    /// Lets only these users reach the router.
    pub(super) fn protect(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::new(self), admit))
    }

    async fn check(
        self: &Arc<Self>,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<User, Refused> {
        let (name, password) = credentials(headers).ok_or(Refused::Unknown)?;
        // Also for a password that is known: with it, a guess takes no time.
        self.brake(address)?;
        let tried = [name.as_bytes(), password.as_bytes()].join(&0);
        let is_known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let tag = known.get(&name);
            tag.is_some_and(|tag| hmac::verify(&self.key, &tried, tag.as_ref()).is_ok())
        };
        if !is_known {
            let turn = self.turn.clone().acquire_owned().await;
            let turn = turn.map_err(|_| Refused::Unknown)?;
            // Other sign-ins of this address may have been refused in the meantime.
            self.brake(address)?;
            // Also if the client leaves, which would drop it: the guess counts, and the next one waits for its turn.
            let tag = hmac::sign(&self.key, &tried);
            let compared = self
                .clone()
                .compare(name.clone(), password, tag, address, turn);
            if !tokio::spawn(compared).await.unwrap_or(false) {
                return Err(Refused::Unknown);
            }
        }
        let entry = self.users.get(&name).ok_or(Refused::Unknown)?;
        Ok(User {
            may_operate: entry.may_operate,
            name,
        })
    }

    /// Whether the password is right. Counts it if it is wrong.
    async fn compare(
        self: Arc<Self>,
        name: String,
        password: String,
        tag: hmac::Tag,
        address: Option<IpAddr>,
        _turn: OwnedSemaphorePermit,
    ) -> bool {
        let hash = self.hash_for(&name).to_owned();
        let compare = move || bcrypt::verify(password, &hash).unwrap_or(false);
        let is_equal = tokio::task::spawn_blocking(compare).await.unwrap_or(false);
        let is_right = is_equal && self.users.contains_key(&name);
        if is_right {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(name, tag);
        } else {
            self.refuse(&name, address);
        }
        is_right
    }

    /// The hash to compare with. A name that is not in the file has always that of the same user, so that time does not
    /// show which users exist.
    fn hash_for(&self, name: &str) -> &str {
        let instead = || {
            let tag = hmac::sign(&self.key, name.as_bytes());
            let at = usize::from(tag.as_ref()[0]) % self.users.len().max(1);
            self.users.values().nth(at)
        };
        let entry = self.users.get(name).or_else(instead);
        entry.map_or("", |entry| &entry.hash)
    }

    fn brake(&self, address: Option<IpAddr>) -> Result<(), Refused> {
        match address.and_then(|address| self.brake.wait(address)) {
            Some(wait) => Err(Refused::TooMany(wait)),
            None => Ok(()),
        }
    }

    fn refuse(&self, name: &str, address: Option<IpAddr>) {
        let from = address.map_or_else(
            || "an unknown address".to_owned(),
            |address| address.to_string(),
        );
        let at = output::second(SystemClock.system_time());
        tracing::warn!(
            user = name,
            "a sign-in from {from} was refused at {at}: wrong user or password"
        );
        if let Some(address) = address {
            self.brake.count(address);
            if self.brake.wait(address).is_some() {
                tracing::warn!(
                    "sign-ins from {from} are refused for a minute: too many were wrong"
                );
            }
        }
    }
}

async fn admit(State(users): State<Arc<Users>>, mut request: Request, next: Next) -> Response {
    let address = brake::address(&request, users.is_behind_proxy);
    match users.check(request.headers(), address).await {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(Refused::Unknown) => {
            let realm = "Basic realm=\"shedlock\", charset=\"UTF-8\"";
            let text = "sign in as a user of this dashboard\n";
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, realm)], text).into_response()
        }
        Err(Refused::TooMany(wait)) => {
            let seconds = wait.as_secs() + 1;
            let text = format!(
                "too many sign-ins from this address had a wrong user or password; try again in {seconds} s\n"
            );
            let again = [(RETRY_AFTER, seconds.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, again, text).into_response()
        }
    }
}

/// The user's name and password in these headers.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// The users of a file, or the line that is wrong and why.
fn parse(text: &str) -> Result<BTreeMap<String, Entry>, (usize, String)> {
    let mut users = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| Err((at + 1, why.to_owned()));
        let mut fields = line.split(':');
        let (Some(name), Some(hash)) = (fields.next(), fields.next()) else {
            return wrong(
                "a line needs a user, a colon and a hash; `htpasswd -nB USER` prints one",
            );
        };
        let may_operate = match (fields.next(), fields.next()) {
            (None, None) => true,
            (Some("read"), None) => false,
            _ => return wrong("after the hash, only `:read` may follow; remove the rest"),
        };
        // The hash of a test password costs as much as a sign-in, so only its form is checked.
        let Ok(parts) = hash.parse::<bcrypt::HashParts>() else {
            return wrong(
                "this is not a bcrypt hash; `htpasswd -nB USER` or `shedlock ui --hash-password USER` \
                 prints one",
            );
        };
        let cost = parts.get_cost();
        if !COSTS.contains(&cost) {
            return wrong(&format!(
                "the cost of this hash is {cost}; make one with a cost of {} to {}, like \
                 `shedlock ui --hash-password USER`",
                COSTS.start(),
                COSTS.end()
            ));
        }
        let hash = hash.to_owned();
        let entry = Entry { hash, may_operate };
        if name.is_empty() || users.insert(name.to_owned(), entry).is_some() {
            return wrong("the user's name is empty or was used before; choose another one");
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe";

    #[test]
    fn the_file_has_the_form_of_htpasswd() {
        let text = format!("# users\n\nalice:{HASH}\nbob:{HASH}:read\n");
        let users = parse(&text).ok().unwrap();
        assert!(users["alice"].may_operate && !users["bob"].may_operate);
        for (text, line, part) in [
            ("alice\n", 1, "needs a user"),
            ("\nalice:{SHA}x\n", 2, "not a bcrypt hash"),
            (&*format!("alice:{HASH}:write"), 1, "only `:read`"),
            (&*format!("a:{HASH}\na:{HASH}"), 2, "used before"),
            (&*format!(":{HASH}"), 1, "empty"),
            (
                &*format!("a:{}", HASH.replace("$05$", "$18$")),
                1,
                "4 to 17",
            ),
            (
                &*format!("a:{}", HASH.replace("$05$", "$03$")),
                1,
                "4 to 17",
            ),
        ] {
            let (at, why) = parse(text).err().unwrap();
            assert!(at == line && why.contains(part), "{text}: {at}: {why}");
        }
    }

    /// The cost of a hash is how long it takes to compare.
    #[test]
    fn a_name_that_is_not_in_the_file_costs_as_much_as_one_that_is() {
        let file = std::env::temp_dir().join(format!("shedlock-users-{}", std::process::id()));
        std::fs::write(&file, format!("alice:{HASH}\nbob:{HASH}\n")).unwrap();
        let users = Users::read(&file, false).ok().unwrap();
        std::fs::remove_file(&file).unwrap();
        for name in ["alice", "carol", "dave", "", "\0"] {
            assert_eq!(users.hash_for(name), HASH, "{name}");
        }
    }
}

//! What operators do to locks. Each action is a form of its own page, and is recorded in the journal.

use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest as _, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use shedlock_core::{
    Actor, Error, ForcedUnlock, LockName, LockRecord, LockState, Pause, PauseRequest, Paused,
    ResetSlotRequest, ResumeRequest, Resumed, Slot, SlotReset, SystemClock, admin, parse_duration,
    within,
};
use shedlock_journal::view::{
    Extended, extend_by_operator, extension_detail, is_far_ahead, pause_end, record_action, second,
    slot_detail, state_in_words, taken_from, unlock_by_operator,
};

use crate::Access;
use crate::action::Action;
use crate::components::link;
use crate::failure::Failure;
use crate::pages::{Shared, again, given, instant_of};
use crate::store::Store;

/// How long a client may take to send its form.
const SENDING: Duration = Duration::from_secs(15);

/// How long an action waits for the journal.
const FLUSH: Duration = Duration::from_secs(2);

/// The form of an action. Each action has some of the fields.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Fields {
    pub(crate) store: Option<String>,
    pub(crate) name: String,
    #[serde(rename = "do")]
    pub(crate) action: String,
    /// The owner that the page showed.
    owner: Option<String>,
    /// The name of the lock as the operator typed it.
    typed: Option<String>,
    #[serde(default, rename = "for")]
    pub(crate) lasts: String,
    #[serde(default)]
    pub(crate) reason: String,
    pub(crate) now: Option<String>,
    /// Confirms that the lock does not exist yet.
    pub(crate) create: Option<String>,
    pub(crate) catch_up: Option<String>,
    #[serde(default)]
    pub(crate) to: String,
    pub(crate) far: Option<String>,
}

/// The longest body of a form, in bytes.
pub(crate) const LONGEST_FORM: usize = 16 * 1024;

/// The most characters of a reason, as in the form.
pub(crate) const LONGEST_REASON: usize = 200;

/// What was done, for the audit.
#[derive(Default)]
struct Done {
    detail: String,
    reason: String,
    /// When the pause ends, if it is one.
    until: Option<SystemTime>,
}

pub(crate) async fn act(
    dashboard: Shared,
    Extension(access): Extension<Access>,
    request: Request,
) -> Result<Response, Failure> {
    let Some(actor) = access.actor() else {
        return Err(Failure::forbidden("you may only read"));
    };
    let form = Form::<Fields>::from_request(request, &());
    let fields = match within(&SystemClock, SENDING, form).await {
        Some(Ok(Form(fields))) => fields,
        Some(Err(rejection)) => return Err(unreadable(&rejection)),
        None => {
            return Err(Failure::new(
                StatusCode::REQUEST_TIMEOUT,
                "nothing was changed: the form did not arrive in time; send it again",
            ));
        }
    };
    let store = dashboard.store(given(fields.store.as_ref())).await?;
    let action = Action::parse(&fields.action)?;
    let name = LockName::new(&fields.name)?;
    let done = match action {
        Action::Pause => pause(store, &name, &fields, actor).await,
        Action::Resume => resume(store, &name, &fields).await,
        Action::Unlock => unlock(store, &name, &fields).await,
        Action::Extend => extend(store, &name, &fields).await,
        Action::SlotReset => reset_slot(store, &name, &fields).await,
        Action::RunNow => run_now(store, &name).await,
    };
    // Also after a failure: it may have been done although its reply was lost.
    store.seen.forget();
    let done = match done {
        Err(failure) if failure.field.is_some() => {
            return again(&dashboard, &access, store, (action, &name), fields, failure).await;
        }
        done => done?,
    };
    tracing::info!(
        store = store.name,
        lock = name.as_str(),
        action = action.word(),
        user = actor.user(),
        detail = done.detail,
        "an operator acted"
    );
    let unrecorded = match record(store, actor, action, &name, &done).await {
        Ok(()) => "",
        Err(()) => "1",
    };
    let page = [
        ("store", &*store.name),
        ("name", name.as_str()),
        ("done", action.word()),
        ("unrecorded", unrecorded),
    ];
    Ok(Redirect::to(&link("job", &page)).into_response())
}

async fn record(
    store: &Store,
    actor: &Actor,
    action: Action,
    name: &LockName,
    done: &Done,
) -> Result<(), ()> {
    let Some(journal) = &store.journal else {
        return Ok(());
    };
    let what = (action.word(), name);
    let write = record_action(
        &*store.provider,
        &**journal,
        actor.clone(),
        what,
        &done.detail,
        (&done.reason, done.until),
    );
    match within(&SystemClock, FLUSH, write).await {
        // A journal is optional.
        Some(Ok(_)) => Ok(()),
        failed => {
            let error = failed.and_then(Result::err);
            let error = error.map_or_else(|| "no reply".to_owned(), |error| error.to_string());
            tracing::warn!(lock = name.as_str(), error, "an action was not recorded");
            Err(())
        }
    }
}

fn unreadable(rejection: &FormRejection) -> Failure {
    let message = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("the form has more than {LONGEST_FORM} bytes; nothing was done; shorten it")
        }
        _ => rejection.body_text(),
    };
    Failure::new(rejection.status(), message)
}

fn not_done(what: &str, why: &str) -> Failure {
    Failure::conflict(format!("not {what}: {why}")).at("")
}

/// Whether there is a lock or a job of this name, so that it is not mistyped.
pub(crate) async fn is_known(store: &Store, name: &LockName) -> Result<bool, Failure> {
    if inspect(store, name).await?.is_some() || store.scheduler_of(name.as_str()).await.is_some() {
        return Ok(true);
    }
    let Some(journal) = &store.journal else {
        return Ok(false);
    };
    let job = within(&SystemClock, FLUSH, journal.job(name.as_str())).await;
    Ok(matches!(job, Some(Ok(Some(_)))))
}

async fn inspect(store: &Store, name: &LockName) -> Result<Option<LockRecord>, Failure> {
    store.read(store.provider.inspect(name)).await
}

/// Checks that the lock is not under another pause than the page showed: neither a colleague's pause nor its end may be
/// undone by someone who has not seen it.
async fn is_as_shown(
    store: &Store,
    name: &LockName,
    fields: &Fields,
    what: &str,
) -> Result<(), Failure> {
    let Some(shown) = fields.owner.as_deref() else {
        return Ok(());
    };
    let lock = inspect(store, name).await?;
    let now = lock.as_ref().and_then(LockRecord::pause);
    if Pause::parse(shown).map(|pause| pause.id()) == now.map(|pause| pause.id()) {
        return Ok(());
    }
    let changed = match now {
        Some(pause) => format!("it was paused {pause} since this page was shown"),
        None => "its pause has ended since this page was shown".to_owned(),
    };
    Err(not_done(
        what,
        &format!("{changed}; the page shows the lock as it is now"),
    ))
}

fn duration_of(fields: &Fields) -> Result<Option<Duration>, Failure> {
    let Some(text) = given(Some(&fields.lasts)) else {
        return Ok(None);
    };
    let wrong = |error: Error| Failure::from(error).at("for");
    let duration = parse_duration(text).map_err(wrong)?;
    Ok(Some(duration))
}

async fn pause(
    store: &Store,
    name: &LockName,
    fields: &Fields,
    actor: &Actor,
) -> Result<Done, Failure> {
    let lasts = duration_of(fields)?;
    let reason = given(Some(&fields.reason)).unwrap_or_default();
    let length = reason.chars().count();
    if length > LONGEST_REASON {
        return Err(Failure::bad(format!(
            "not paused: the reason has {length} characters, more than {LONGEST_REASON}; shorten it"
        ))
        .at("reason"));
    }
    if fields.create.is_none() && !is_known(store, name).await? {
        return Err(not_done(
            "paused",
            "there is no lock and no job of this name; check the name, or confirm that it has not run yet",
        )
        .at("create"));
    }
    is_as_shown(store, name, fields, "paused").await?;
    // Only the name of `user@host`: the pause adds this host.
    let user = actor.user().split('@').next().unwrap_or_default();
    let mut request = PauseRequest::new(name.clone(), user).with_reason(reason);
    if let Some(lasts) = lasts {
        request = request.lasting(lasts);
    }
    if fields.now.is_some() {
        request = request.replacing_holder();
    }
    match store.read(admin::pause(&*store.provider, &request)).await? {
        Paused::Done { before, until, .. } => {
            let details = [
                Some(pause_end(until, lasts.is_some())),
                taken_from(before.as_ref()),
            ];
            let details: Vec<_> = details.into_iter().flatten().collect();
            Ok(Done {
                detail: details.join("; "),
                reason: reason.to_owned(),
                until: Some(until),
            })
        }
        Paused::Held(lock) => {
            let owner = lock.owner.as_deref().unwrap_or("another owner");
            let until = lock.locked_until.map(second);
            let until = until.map_or_else(String::new, |until| format!(" until {until}"));
            Err(not_done(
                "paused",
                &format!(
                    "a task holds the lock ({owner}{until}); wait for its end, or take the lock from it"
                ),
            ))
        }
        _ => Err(unknown_answer()),
    }
}

async fn resume(store: &Store, name: &LockName, fields: &Fields) -> Result<Done, Failure> {
    is_as_shown(store, name, fields, "resumed").await?;
    let catches_up = fields.catch_up.is_some();
    let mut request = ResumeRequest::new(name.clone());
    if catches_up {
        request = request.catching_up();
    }
    match store
        .read(admin::resume(&*store.provider, &request))
        .await?
    {
        Resumed::Resumed(before) => {
            let was = before.pause().map(|pause| format!("it was paused {pause}"));
            let catches_up = catches_up.then(|| "--catch-up".to_owned());
            let details: Vec<_> = [was, catches_up].into_iter().flatten().collect();
            Ok(Done {
                detail: details.join("; "),
                ..Done::default()
            })
        }
        Resumed::NotPaused(lock) => Err(not_done("resumed", &why_not("paused", lock.as_ref()))),
        _ => Err(unknown_answer()),
    }
}

async fn unlock(store: &Store, name: &LockName, fields: &Fields) -> Result<Done, Failure> {
    if fields.typed.as_deref() != Some(name.as_str()) {
        return Err(Failure::bad(
            "not unlocked: the name that was typed is not that of the lock; type it exactly",
        )
        .at("typed"));
    }
    let seen = inspect(store, name).await?;
    let owner = given(fields.owner.as_ref());
    let free = unlock_by_operator(&*store.provider, name, seen.as_ref(), owner);
    match store.read(free).await? {
        ForcedUnlock::Freed(lock) => Ok(Done {
            detail: taken_from(Some(&lock))
                .unwrap_or_else(|| "it was kept after its last run".to_owned()),
            ..Done::default()
        }),
        ForcedUnlock::OwnerDiffers(_) => Err(owner_differs("unlocked")),
        ForcedUnlock::Paused(_) => Err(not_done("unlocked", "it is paused; resume it instead")),
        ForcedUnlock::NotHeld => Err(not_done("unlocked", &why_not("held", seen.as_ref()))),
        _ => Err(unknown_answer()),
    }
}

async fn extend(store: &Store, name: &LockName, fields: &Fields) -> Result<Done, Failure> {
    let Some(lasts) = duration_of(fields)? else {
        return Err(
            Failure::bad("not extended: no duration was given; write one, like 30m").at("for"),
        );
    };
    let Some(before) = inspect(store, name).await? else {
        return Err(not_done("extended", &why_not("held", None)));
    };
    let owner = given(fields.owner.as_ref());
    let extension = extend_by_operator(&*store.provider, &before, owner, lasts);
    match store.read(extension).await? {
        Extended::Done(until) => Ok(Done {
            detail: extension_detail(&before, until),
            ..Done::default()
        }),
        Extended::Unchanged(until) => Err(not_done(
            "extended",
            &format!("its lease already runs until {}", second(until)),
        )),
        Extended::NotHeld => Err(not_done("extended", &why_not("held", Some(&before)))),
        Extended::OwnerDiffers => Err(owner_differs("extended")),
        Extended::OfShedLock => Err(not_done(
            "extended",
            "ShedLock for Java holds it, and extends its own leases only",
        )),
        Extended::Ended => Err(not_done("extended", "its lease has ended in the meantime")),
    }
}

async fn run_now(store: &Store, name: &LockName) -> Result<Done, Failure> {
    const WHAT: &str = "run";
    let Some(scheduler) = store.scheduler_of(name.as_str()).await else {
        return Err(not_done(WHAT, "no scheduler of this process has this job"));
    };
    // The scheduler would skip the run, and only its log would say so.
    if let Some(lock) = inspect(store, name).await?
        && lock.state != LockState::Free
    {
        let why = match lock.pause() {
            Some(pause) => format!("it is paused {pause}; resume it first"),
            None => {
                let until = lock.locked_until.map(second);
                let until = until.map_or_else(String::new, |until| format!(" until {until}"));
                format!("its lock is {}{until}", state_in_words(lock.state))
            }
        };
        return Err(not_done(WHAT, &why));
    }
    scheduler
        .run_now(name.as_str())
        .await
        .map_err(|error| not_done(WHAT, &error.to_string()))?;
    Ok(Done::default())
}

async fn reset_slot(store: &Store, name: &LockName, fields: &Fields) -> Result<Done, Failure> {
    const WHAT: &str = "reset";
    let mut request = ResetSlotRequest::new(name.clone());
    if let Some(to) = given(Some(&fields.to)) {
        let to = instant_of(to).map_err(|failure| failure.at("to"))?;
        let lock = inspect(store, name).await?;
        let is_confirmed = fields.far.is_some();
        if !is_confirmed && lock.is_some_and(|lock| is_far_ahead(to, lock.read_at)) {
            return Err(Failure::bad(format!(
                "not reset: {} is more than a day ahead of the store's clock, and no slot before it \
                 would run; check the time, or confirm it",
                second(to)
            ))
            .at("far"));
        }
        request = request.with_slot(Slot::at(to)?);
    }
    match store
        .read(admin::reset_slot(&*store.provider, &request))
        .await?
    {
        SlotReset::Reset {
            before, last_slot, ..
        } => Ok(Done {
            detail: slot_detail(&before, last_slot),
            ..Done::default()
        }),
        SlotReset::NotAhead(_) => Err(not_done(
            WHAT,
            "the last slot is not ahead of the store's clock; to set it anyway, give a time",
        )),
        _ => Err(not_done(WHAT, "no slot was ever taken under this lock")),
    }
}

fn why_not(wanted: &str, lock: Option<&LockRecord>) -> String {
    match lock {
        Some(lock) => format!("it is not {wanted}; it is {}", state_in_words(lock.state)),
        None => "there is no such lock".to_owned(),
    }
}

fn owner_differs(what: &str) -> Failure {
    not_done(
        what,
        "another owner has the lock now than the one that was shown; look at it again",
    )
}

fn unknown_answer() -> Failure {
    Failure::from(Error::new(
        shedlock_core::ErrorKind::Internal,
        "the provider returned an unknown result",
    ))
}

//! Servers that accept connections and requests, and never reply.

use std::time::Duration;

use super::{unique, within};
use shedlock_conformance::proxy::{Fault, Proxy, Strike, contains_any};
use shedlock_core::{
    Attempt, AttemptRequest, Error, ErrorKind, ExtendRequest, ForceUnlockRequest, Lease,
    ListRequest, LockName, LockProvider, Owner, ResetSlotRequest, Slot, UnlockRequest, admin,
};
use shedlock_rig::wait::{answered, found_async};

/// The timeout of a call in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);

/// Many times the timeout, because machines can be slow.
const HANG: Duration = Duration::from_secs(9);

fn request(lock: &str) -> AttemptRequest {
    let name = LockName::new(lock).expect("a name");
    AttemptRequest::new(name, Owner::generate(), Duration::from_secs(60))
}

async fn take(provider: &dyn LockProvider, request: &AttemptRequest) -> Lease {
    let attempt = async || provider.attempt(request).await;
    match answered("an attempt", Error::is_retryable, attempt).await {
        Attempt::Acquired(lease) => lease,
        answer => panic!("{} is free: {answer:?}", &request.name),
    }
}

async fn fails<T>(what: &str, kind: ErrorKind, call: impl Future<Output = Result<T, Error>>) {
    match within(HANG, call).await {
        None => panic!("{what} should return, whatever the server does"),
        Some(Ok(_)) => panic!("{what} should fail: the server is silent"),
        Some(Err(error)) => assert_eq!(error.kind(), kind, "{what}: {error}"),
    }
}

/// Makes an attempt whose request arrives and whose reply does not. On a busy machine, the timeout may pass before the
/// request arrives: then another one is made.
async fn attempt_without_reply(provider: &dyn LockProvider, proxy: &Proxy) -> AttemptRequest {
    found_async("an attempt has no reply", async || {
        let attempt = request(&unique("other"));
        // As a value, or as a literal of MySQL's.
        let owner = attempt.owner.as_str();
        let hex: String = owner.bytes().map(|byte| format!("{byte:02X}")).collect();
        let swallowed = proxy.on_request(contains_any([owner, &hex]), 1, Strike::SwallowReply);
        let error = unanswered(provider, &attempt).await;
        assert!(error.is_retryable(), "{error}");
        swallowed.has_struck().then(|| {
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
            attempt
        })
    })
    .await
}

async fn unanswered(provider: &dyn LockProvider, attempt: &AttemptRequest) -> Error {
    let answer = within(HANG, provider.attempt(attempt)).await;
    let answer = answer.expect("an attempt returns, whatever the server does");
    answer.expect_err("the server is silent")
}

/// Checks that each method returns if the server behind the proxy stops responding, and works again
/// once it responds. The provider has `TIMEOUT` for a call.
pub(crate) async fn every_method_returns(provider: &dyn LockProvider, proxy: &Proxy) {
    let job = LockName::new("job").expect("a name");
    let lease = take(provider, &request("job")).await;
    // In the middle of a call: the request arrives, its reply does not.
    let attempt = attempt_without_reply(provider, proxy).await;

    // From the start: neither open connections nor new ones respond.
    proxy.set(Fault::Swallow).await.expect("the proxy is there");
    let extend = ExtendRequest::new(Duration::from_secs(90));
    let unlock = UnlockRequest::new();
    let force = ForceUnlockRequest::new(job.clone());
    let slot = Slot::from_micros(1_700_000_000_000_000).expect("a slot");
    let reset = ResetSlotRequest::new(job.clone()).with_slot(slot);
    let free = request("free");
    // The first attempt may be sent on an open connection.
    let error = unanswered(provider, &free).await;
    assert!(error.is_retryable(), "{error}");
    // Now no connection is open, and nothing is sent.
    let nothing = ErrorKind::Unavailable;
    for _ in 0..2 {
        let _ = within(HANG, provider.inspect(&job)).await;
    }
    fails("an attempt", nothing, provider.attempt(&free)).await;
    fails("a withdrawal", nothing, provider.withdraw(&free)).await;
    fails("an extension", nothing, provider.extend(&lease, &extend)).await;
    fails("an unlock", nothing, provider.unlock(&lease, &unlock)).await;
    fails("a look at one", nothing, provider.inspect(&job)).await;
    let list = ListRequest::new();
    fails("a list", nothing, provider.list(&list)).await;
    fails(
        "a forced unlock",
        nothing,
        admin::force_unlock(provider, &force),
    )
    .await;
    fails("a slot reset", nothing, admin::reset_slot(provider, &reset)).await;
    fails("a check", nothing, provider.check()).await;
    fails("a migration", nothing, provider.migrate()).await;

    proxy.heal().await.expect("the proxy is there");
    // A machine can be slower than this timeout.
    let may_pass = Error::is_retryable;
    let withdraw = async || provider.withdraw(&attempt).await.map(drop);
    answered("a withdrawal", may_pass, withdraw).await;
    let unlock = async || provider.unlock(&lease, &unlock).await.map(drop);
    answered("an unlock", may_pass, unlock).await;
}

//! Checks that a provider does what it declares, as far as the cases of the laws do not check it.

use shedlock_core::{ExtendRequest, Extension, UnlockRequest};

use crate::case::cases;
use crate::context::{granted, name};
use crate::steps::{acquire, still_holds, unlock};
use crate::verdict::ensure;
use crate::{Call, TestContext, Verdict};

cases!("declared" [Declared]:
    providers_over_one_store_declare_the_same [Smoke],
    what_was_declared_at_first_contact_holds,
    what_is_opened_for_duties_extends_the_same_lease [Smoke],
    providers_have_identities_of_their_own,
    a_check_changes_nothing,
    a_container_that_breaks_promises_is_refused_at_the_first_call,
    what_is_published_holds,
);

/// Two providers over one store declare the same, once each has had contact with the store.
pub async fn providers_over_one_store_declare_the_same(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    first.check().await?;
    second.check().await?;
    ensure!(
        first.capabilities() == second.capabilities(),
        "two providers over one store declare different capabilities: {:?} and {:?}",
        first.capabilities(),
        second.capabilities()
    );
    Ok(())
}

/// The declaration does not change after some use.
pub async fn what_was_declared_at_first_contact_holds(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    provider.check().await?;
    let before = provider.capabilities();
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    unlock(&provider, &lease).await?;
    let after = provider.capabilities();
    ensure!(
        before == after,
        "the provider declared {before:?} after its check and {after:?} after a lock"
    );
    Ok(())
}

/// A provider that declares duties opens a connection that sees the same records. Its extension is one of the same
/// lease, and the first connection ends that lease.
pub async fn what_is_opened_for_duties_extends_the_same_lease(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    let declared = provider.capabilities().duties;
    let Some(opened) = provider.for_duties() else {
        ensure!(
            !declared,
            "duties are declared, and there is nothing for them"
        );
        return unlock(&provider, &lease).await;
    };
    ensure!(
        declared,
        "duties are not declared, and there is something for them"
    );
    let second = opened.await?;
    let longer = ExtendRequest::new(2 * context.timing().long());
    let answer = second.extend(&lease, &longer).await?;
    ensure!(
        matches!(answer, Extension::Extended(_)),
        "the second connection reports a lease that runs as lost"
    );
    unlock(&provider, &lease).await?;
    let answer = second.extend(&lease, &longer).await;
    ensure!(
        !matches!(answer, Ok(Extension::Extended(_))),
        "the second connection extended a lease that was unlocked"
    );
    Ok(())
}

/// Reentrancy relies on identity: two providers over one store are different; one provider stays
/// itself.
pub async fn providers_have_identities_of_their_own(context: &TestContext) -> Verdict {
    let (first, second) = context.two().await?;
    let job = name("job");
    ensure!(
        first.identity() == first.identity() && first.identity_of(&job) == first.identity_of(&job),
        "one provider has two identities"
    );
    ensure!(
        first.identity() != second.identity()
            && first.identity_of(&job) != second.identity_of(&job),
        "two providers share the identity {:?}",
        first.identity()
    );
    Ok(())
}

/// A check may be called at any time.
pub async fn a_check_changes_nothing(context: &TestContext) -> Verdict {
    let provider = context.provider().await?;
    provider.check().await?;
    let lease = acquire(&provider, &context.request(&name("job"))).await?;
    for _ in 0..2 {
        provider.check().await?;
        still_holds(&provider, &lease).await?;
    }
    unlock(&provider, &lease).await
}

/// The profile in the documentation matches what the provider declares.
pub async fn what_is_published_holds(context: &TestContext) -> Verdict {
    let harness = context.harness();
    let profile = granted(
        harness.profile(),
        "return the published profile",
        "Harness::profile",
    )
    .await?;
    let declared = context.capabilities();
    profile
        .hold(&**harness, context.namespace(), declared)
        .await
}

/// Nothing is granted under settings with which the store cannot keep its promises. The first call
/// detects them, whichever call it is, because a program need not check its provider.
pub async fn a_container_that_breaks_promises_is_refused_at_the_first_call(
    context: &TestContext,
) -> Verdict {
    let provider = context.provider().await?;
    let held = context.request(&name("held"));
    let lease = acquire(&provider, &held).await?;
    drop(provider);
    context.weaken_container().await?;
    let calls = [Call::Attempt, Call::Extend, Call::Unlock, Call::Withdraw];
    for call in calls {
        // Failing to create the provider is a refusal as well.
        let Ok(provider) = context.namespace().provider().await else {
            continue;
        };
        let answer = match call {
            Call::Attempt => {
                let request = context.request(&name("job"));
                provider.attempt(&request).await.map(debug)
            }
            Call::Extend => {
                let longer = ExtendRequest::new(2 * context.timing().long());
                provider.extend(&lease, &longer).await.map(debug)
            }
            Call::Unlock => {
                let request = UnlockRequest::new();
                provider.unlock(&lease, &request).await.map(debug)
            }
            Call::Withdraw => provider.withdraw(&held).await.map(debug),
        };
        ensure!(
            answer.as_ref().is_err_and(|error| !error.is_retryable()),
            "the container has settings that break promises, so the first call of a provider, \
             {call:?}, should fail permanently, but returned {answer:?}"
        );
    }
    Ok(())
}

fn debug(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

//! The provider that repeated attempts and withdrawals go to after a reply was lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Bench, Fault, Faulty, bench, config, secs};
use shedlock_core::{
    AttemptRequest, BoxFuture, Capabilities, Error, Executor, LockName, LockProvider, LockState,
    Owner, TenantProvider, TenantRouter,
};

/// A router that uses the context of the call, which changes from one call to the next.
#[derive(Debug)]
struct Changing {
    first: Faulty,
    asked: AtomicUsize,
}

impl TenantRouter for Changing {
    fn tenant(&self, _: &LockName) -> Result<String, Error> {
        Ok(self.asked.fetch_add(1, Ordering::SeqCst).to_string())
    }

    fn provider<'a>(
        &'a self,
        tenant: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn LockProvider>, Error>> {
        Box::pin(async move {
            let provider: Arc<dyn LockProvider> = if tenant == "0" {
                Arc::new(self.first.clone())
            } else {
                Arc::new(shedlock_core::MemoryProvider::new())
            };
            Ok(provider)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.first.capabilities()
    }
}

fn tenants(bench: &Bench) -> Arc<TenantProvider> {
    Arc::new(TenantProvider::new(Arc::new(Changing {
        first: bench.faulty.clone(),
        asked: AtomicUsize::new(0),
    })))
}

#[tokio::test]
async fn an_attempt_is_withdrawn_where_it_was_sent_whatever_the_store_answered_since() {
    let bench = bench();
    bench
        .faulty
        .next([Fault::ReplyLost, Fault::Unavailable, Fault::Unavailable]);
    bench.faulty.next([Fault::Unavailable; 2]);
    let executor = Executor::new(tenants(&bench)).clock(Arc::new(bench.clock.clone()));
    let task = tokio::spawn(async move { executor.execute(&config("a"), async {}).await });
    bench.settle().await;
    bench.pass(secs(3)).await;
    assert!(task.await.unwrap().is_err());
    bench.pass(secs(4)).await;
    assert_eq!(bench.state("a").await, Some(LockState::Free));
    bench.pass(secs(30)).await;
    assert!(
        bench.faulty.calls_of("withdraw") >= 2,
        "and once more later"
    );
}

#[tokio::test]
async fn an_attempt_that_no_one_can_ask_about_any_more_is_forgotten() {
    let bench = bench();
    let tenants = tenants(&bench);
    let request = |name: &str| {
        let name = LockName::new(name).unwrap();
        AttemptRequest::new(name, Owner::generate(), secs(10))
    };
    let first = request("a");
    let owner = first.owner().to_string();
    bench.faulty.next([Fault::RequestLost, Fault::Unavailable]);
    assert!(
        tenants
            .attempt(&first)
            .await
            .unwrap_err()
            .is_outcome_unknown()
    );
    tenants.withdraw(&first).await.unwrap_err();
    drop(first);
    drop(tenants.attempt(&request("b")).await.unwrap());
    let kept = format!("{tenants:?}");
    assert!(!kept.contains(&owner), "{kept}");
}

//! A namespace that hangs ends its case, as a case that hangs does.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use shedlock_conformance::{BoxError, Case, Harness, Namespace, Provider, Stop, run_case};
use shedlock_core::BoxFuture;
use shedlock_provider::MemoryProvider;

#[derive(Clone, Copy, PartialEq)]
enum Hanging {
    Creation,
    Case,
    Removal,
}

impl Harness for Hanging {
    fn name(&self) -> &str {
        "hanging"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            if *self == Self::Creation {
                pending::<()>().await;
            }
            Ok(Arc::new(*self) as Arc<dyn Namespace>)
        })
    }
}

impl Namespace for Hanging {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok(Arc::new(MemoryProvider::new()) as Provider) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            if *self == Self::Removal {
                pending::<()>().await;
            }
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_hangs_is_given_up_and_named() {
    for (hanging, expected) in [
        (Hanging::Creation, "the creation of the namespace hangs"),
        (Hanging::Case, "hangs: still running after 200ms"),
        (Hanging::Removal, "the removal of the namespace hangs"),
    ] {
        let case = Case::new("a_case", move |_| {
            Box::pin(async move {
                if hanging == Hanging::Case {
                    pending::<()>().await;
                }
                Ok(())
            })
        });
        let case = case.with_limit(Duration::from_millis(200));
        match run_case(Arc::new(hanging), &case).await {
            Err(Stop::Failed(message)) => assert!(message.starts_with(expected), "{message}"),
            verdict => panic!("{verdict:?}"),
        }
    }
}

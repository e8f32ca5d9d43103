//! Together with attributes that rewrite functions themselves, in both orders.

use async_trait::async_trait;
use shedlock::{Outcome, scheduler_lock};

#[async_trait]
trait Job {
    async fn run(&self, times: u8, text: &str) -> Result<(), shedlock::Error>;
    async fn count(&mut self, (a, b): (u8, u8)) -> Option<u8>;
    async fn nothing();

    #[scheduler_lock(name = "provided", lock_at_most_for = "1m")]
    async fn provided(&self) -> Outcome<String>
    where
        Self: Sync,
    {
        "text".to_owned()
    }
}

struct Mails(u8);

#[async_trait]
impl Job for Mails {
    #[scheduler_lock(name = "mails-{self.0}-{times}-{text}", lock_at_most_for = "1m")]
    async fn run(&self, times: u8, text: &str) -> Result<(), shedlock::Error> {
        shedlock::parse_duration(text)?;
        if times > self.0 {
            return Ok(());
        }
        Ok(())
    }

    #[scheduler_lock(name = "mails", lock_at_most_for = "1m")]
    async fn count(&mut self, (a, b): (u8, u8)) -> Option<u8> {
        self.0 += a;
        Some(b)
    }

    #[scheduler_lock(name = "mails", lock_at_most_for = "1m")]
    async fn nothing() {}
}

#[async_trait(?Send)]
trait Local {
    async fn run(&self);
}

#[async_trait(?Send)]
impl Local for Mails {
    #[scheduler_lock(name = "mails-{self.0}", lock_at_most_for = "1m")]
    async fn run(&self) {}
}

#[tracing::instrument]
#[scheduler_lock(name = "a-{id}", lock_at_most_for = "1m")]
async fn instrumented_outside(id: u8) -> Option<u8> {
    Some(id)
}

#[scheduler_lock(name = "a-{id}", lock_at_most_for = "1m")]
#[tracing::instrument(ret)]
async fn instrumented_inside(id: u8) -> Option<u8> {
    Some(id)
}

#[scheduler_lock(name = "a-{id}", lock_at_most_for = "1m")]
#[tracing::instrument]
fn instrumented_blocking(id: u8) {}

#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
#[tokio::main(flavor = "current_thread")]
async fn runtime_inside() {}

#[tokio::test]
#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
async fn test_outside() {}

#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
#[tokio::test]
async fn test_inside() {}

#[scheduler_lock(name = "main", lock_at_most_for = "1m")]
fn blocking_on_a_runtime(runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async {});
}

fn main() {
    let _ = (instrumented_outside, instrumented_inside, instrumented_blocking);
    let _ = (runtime_inside, blocking_on_a_runtime);
    let _ = (Mails::nothing, <Mails as Local>::run, <Mails as Job>::provided);
}

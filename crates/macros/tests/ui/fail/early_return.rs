//! A future that is returned before the one that takes the lock would run without it.

use std::future::Future;
use std::pin::Pin;

use shedlock::scheduler_lock;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

struct Mails;

impl Mails {
    #[scheduler_lock(name = "a", lock_at_most_for = "10m")]
    fn of_an_if(&self, all: bool) -> BoxFuture<'_, ()> {
        if all {
            return Box::pin(async move { self.send_all().await });
        }
        Box::pin(async move {})
    }

    async fn send_all(&self) {}
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn of_an_else(text: Option<String>) -> BoxFuture<'static, Option<String>> {
    let Some(text) = text else {
        return Box::pin(async { None });
    };
    Box::pin(async move { Some(text) })
}

macro_rules! unless {
    ($condition:expr, $or:expr) => {
        if !$condition {
            $or
        }
    };
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn of_an_argument_of_a_macro(all: bool) -> BoxFuture<'static, ()> {
    unless!(all, return Box::pin(async {}));
    Box::pin(async move {})
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn of_a_macro_inside(all: bool) -> BoxFuture<'static, ()> {
    macro_rules! leave {
        () => {
            return Box::pin(async {})
        };
    }
    if all {
        leave!();
    }
    Box::pin(async move {})
}

#[scheduler_lock(name = "a", lock_at_most_for = "10m")]
fn of_a_condition() -> BoxFuture<'static, ()> {
    #[cfg(all())]
    {
        Box::pin(async move {})
    }
    #[cfg(not(all()))]
    Box::pin(async move {})
}

fn main() {}

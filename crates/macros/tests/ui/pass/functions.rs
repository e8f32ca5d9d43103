//! The parts of the user's function that are preserved.
#![deny(warnings)]
#![deny(missing_docs)]

use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::Pin;

use shedlock::{Outcome, scheduler_lock};

/// Documented.
///
/// And public.
#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
#[must_use]
#[inline]
pub async fn documented() -> Option<u8> {
    #![allow(unused_variables)]
    let unused = 1;
    None
}

#[doc(hidden)]
#[deprecated]
#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
pub(crate) fn with_attributes() {}

/// Generic.
#[scheduler_lock(name = "a-{value}", lock_at_most_for = "1m")]
pub async fn generic<'a, T, const N: usize>(value: &'a T, more: [T; N]) -> Option<&'a T>
where
    T: Display + Debug + ?Sized + Clone,
{
    let _ = more;
    Some(value)
}

#[scheduler_lock(name = "a-{text}", lock_at_most_for = "1m")]
async fn impl_trait(text: impl Display + Send, run: impl FnOnce() -> u8) -> Outcome<u8> {
    let _ = text.to_string();
    run()
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
fn elided(text: &str) -> Option<&str> {
    Some(text)
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn elided_async(text: &mut String) -> Option<&mut String> {
    text.push('a');
    Some(text)
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
extern "C" fn foreign() {}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
unsafe fn dangerous(pointer: *const u8) -> Option<u8> {
    // SAFETY: as the caller promises.
    Some(unsafe { *pointer })
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn local(shared: std::rc::Rc<u8>) {
    std::future::ready(()).await;
    drop(shared);
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn names_of_the_expansion(__shedlock_call: u8, call: u8, task: u8) -> Option<u8> {
    Some(__shedlock_call + call + task)
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
fn returns_a_future(value: u8) -> impl Future<Output = Option<u8>> + Send {
    let twice = value * 2;
    async move { Some(twice) }
}

#[scheduler_lock(name = "a-{value}", lock_at_most_for = "1m")]
fn returns_a_box<'a>(value: &'a str) -> Pin<Box<dyn Future<Output = Option<&'a str>> + Send + 'a>> {
    Box::pin(async move { Some(value) })
}

/// Each `return` is that of something inside.
#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
fn returns_inside(values: Vec<u8>) -> Pin<Box<dyn Future<Output = Option<u8>> + Send>> {
    fn first(values: &[u8]) -> Option<u8> {
        return values.first().copied();
    }
    println!("return {}", values.len());
    let first = first(&values);
    let is_large = |value: u8| return value > 1;
    let last = async move { return values.last().copied() };
    Box::pin(async move {
        if is_large(last.await?) {
            return first;
        }
        None
    })
}

struct Jobs<T>(T);

impl<T: Clone + Send + Sync> Jobs<T> {
    #[scheduler_lock(name = "a", lock_at_most_for = "1m")]
    async fn by_reference(&self) -> Option<&T> {
        Some(&self.0)
    }

    #[scheduler_lock(name = "a", lock_at_most_for = "1m")]
    async fn by_mutable_reference(&mut self, value: T) {
        self.0 = value;
    }

    #[scheduler_lock(name = "a", lock_at_most_for = "1m")]
    fn by_value(mut self, value: T) -> Option<T> {
        let before = std::mem::replace(&mut self.0, value);
        drop(self);
        Some(before)
    }
}

trait Job {
    const NAME: &'static str;

    fn run(&self) -> impl Future<Output = ()> + Send;

    #[scheduler_lock(name = Self::NAME, lock_at_most_for = "1m")]
    fn provided(&self) {}
}

impl Job for Jobs<u8> {
    const NAME: &'static str = "a";

    #[scheduler_lock(name = "a-{self.0}", lock_at_most_for = "1m")]
    async fn run(&self) {}
}

struct Parts {
    text: String,
    more: Vec<u8>,
}

#[scheduler_lock(name = "a", lock_at_most_for = "1m")]
async fn arguments_in_parts(
    _: String,
    (mut first, _): (String, u8),
    Parts { text, .. }: Parts,
    [.., last]: [String; 2],
    _unused: Vec<u8>,
    #[allow(unused_variables)] ignored: u8,
    #[expect(unused_variables)] expected: u8,
    #[expect(unused_variables)] (expected_of_two, second): (u8, u8),
    #[expect(unused_variables)] Parts { text: expected_in_part, .. }: Parts,
    #[cfg_attr(all(), allow(unused_variables))] perhaps: u8,
    #[cfg_attr(all(), cfg(any()))] absent_too: u8,
    #[cfg(any())] absent: u8,
) -> Outcome<usize> {
    let _ = second;
    first.push('a');
    // Borrowed until the end of the body.
    first.lines().count() + text.lines().count() + last.lines().count()
}

#[scheduler_lock(name = "a-{text}", lock_at_most_for = "1m")]
fn arguments_in_the_name(Parts { text, .. }: Parts, ref more: Parts, mut kept: Parts) -> Outcome<usize> {
    kept.more.clear();
    text.lines().chain(more.text.lines()).count() + kept.more.len()
}

#[scheduler_lock(name = name, lock_at_most_for = "1m", provider = executor)]
async fn arguments_that_are_moved(name: String, executor: shedlock::Executor) {}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(documented());
    let parts = || Parts { text: String::new(), more: Vec::new() };
    let text = String::new;
    is_send(arguments_in_parts(text(), (text(), 1), parts(), [text(), text()], Vec::new(), 1, 1, (1, 1), parts(), 1));
    let _ = arguments_in_the_name(parts(), parts(), parts());
    let _ = arguments_that_are_moved;
    is_send(Jobs(1_u8).run());
    Jobs(1_u8).provided();
    is_send(Jobs(1_u8).by_reference());
    is_send(Jobs(1_u8).by_mutable_reference(2));
    let _ = Jobs(1_u8).by_value(2);
    is_send(returns_a_future(1));
    is_send(returns_a_box("a"));
    is_send(returns_inside(Vec::new()));
    is_send(generic(&1, [2]));
    is_send(impl_trait(1, || 2));
    let _ = elided("a");
    is_send(elided_async(&mut String::new()));
    foreign();
    // SAFETY: the pointer is good.
    let _ = unsafe { dangerous(&1) };
    drop(local(std::rc::Rc::new(1)));
    is_send(names_of_the_expansion(1, 2, 3));
    #[expect(deprecated)]
    with_attributes();
}

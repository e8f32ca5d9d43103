//! Fuzz targets for the parsers of program text in this crate. Each panics if a promise is broken.

use proc_macro2::TokenStream;
use quote::quote;
use shedlock::LockName;
use syn::{Item, LitStr};

use crate::name::Name;
use crate::{expand, scheduled};

/// The compiler has its own limit, and this thread's stack is limited too.
const DEEPEST: usize = 40;

/// The arguments of `#[scheduler_lock(…)]`: the function is always emitted, either locked or with
/// errors.
fn lock_attribute(data: &[u8]) {
    let function = quote!(
        async fn job(tenant: &str, id: u32) -> Result<(), Error> {
            work(tenant, id).await
        }
    );
    emits(data, |attribute| expand::expand(attribute, function));
}

/// The arguments of `#[scheduled(…)]`.
fn schedule_attribute(data: &[u8]) {
    let function = quote!(
        #[scheduler_lock(name = "job", lock_at_most_for = "10m")]
        async fn job(pool: Pool) -> Result<(), Error> {
            work(pool).await
        }
    );
    emits(data, |attribute| scheduled::expand(attribute, function));
}

fn emits(data: &[u8], expand: impl FnOnce(TokenStream) -> TokenStream) {
    let text = String::from_utf8_lossy(data);
    if depth(&text) > DEEPEST {
        return;
    }
    let Ok(attribute) = text.parse::<TokenStream>() else {
        return;
    };
    let expanded = expand(attribute).to_string();
    let file = syn::parse_str::<syn::File>(&expanded);
    let file = file.unwrap_or_else(|error| panic!("{error} in {expanded}"));
    let is_job = |item: &Item| matches!(item, Item::Fn(function) if function.sig.ident == "job");
    assert!(
        file.items.iter().any(is_job),
        "the function is lost: {expanded}"
    );
}

fn depth(text: &str) -> usize {
    // Includes tokens that could nest without brackets: `&&&&x`, `!!!!x`, `a::<b<c<…`.
    text.matches(['(', '[', '{', '<', '&', '!', '-', '*', '|'])
        .count()
}

/// The text of a lock's name: a fixed name is also a valid name for the runtime.
fn name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if depth(&text) > DEEPEST {
        return;
    }
    let literal = LitStr::new(&text, proc_macro2::Span::call_site());
    match Name::from_literal(&literal) {
        Ok(Name::Fixed(fixed)) => {
            let fixed = fixed.value();
            assert_eq!(fixed.replace('{', "{{").replace('}', "}}"), text);
            assert!(LockName::new(&fixed).is_ok(), "{fixed:?}");
        }
        Ok(Name::Template {
            format, arguments, ..
        }) => {
            let fixed = format.value().replace("{{", "").replace("}}", "");
            assert_eq!(fixed.matches('{').count(), arguments.len(), "{fixed}");
        }
        Ok(Name::Computed(_)) => panic!("a literal is not computed"),
        Err(_) => {}
    }
}

shedlock_fuzz::tests!(lock_attribute, schedule_attribute, name);

//! Generates the function around the user's body.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path, Type, parse_quote};

use crate::attr::{Arguments, Errors};
use crate::function::{Function, TrailingFuture};
use crate::name::Name;
use crate::return_type::Returned;
use crate::taken::Taken;

/// Generates the code that replaces the annotated function. If the attribute is in a wrong place,
/// this is the same function, unlocked.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    #[cfg(feature = "scheduled")]
    if let Some(swapped) = below_scheduled(&attribute, &item) {
        return swapped;
    }
    let mut errors = Errors::default();
    let arguments = Arguments::parse(attribute, &mut errors);
    let function = match Function::parse("scheduler_lock", item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let errors = errors.into_tokens();
            return quote!(#errors #item);
        }
    };
    let locked = locked(&function, &arguments).unwrap_or_else(|error| {
        errors.push(error);
        item
    });
    let errors = errors.into_tokens();
    // An impl can only contain items, so the errors are items in front of the function.
    quote!(#errors #locked)
}

/// Returns the two attributes in the order in which the upper one sees both.
#[cfg(feature = "scheduled")]
fn below_scheduled(attribute: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    let mut function = Function::parse("scheduler_lock", item.clone()).ok()?;
    let scheduled = crate::scheduled::is_attribute;
    let at = function.outer.iter().position(scheduled)?;
    let scheduled = function.outer.remove(at);
    let arguments = Arguments::parse(attribute.clone(), &mut Errors::default());
    let facade = arguments.facade();
    let function = function.with_body(&function.body);
    Some(quote!(#scheduled #[#facade::scheduler_lock(#attribute)] #function))
}

fn locked(function: &Function, arguments: &Arguments) -> syn::Result<TokenStream> {
    let signature = &function.signature;
    if let Some(token) = signature.constness {
        return Err(syn::Error::new(
            token.span,
            "a `const fn` cannot take a lock: remove `const` or `#[scheduler_lock]`",
        ));
    }
    if function.starts_runtime() {
        return Err(syn::Error::new(
            Span::call_site(),
            "an attribute above, like `#[tokio::main]`, made this function blocking, so it cannot \
             be stopped when its lease is lost: put it below `#[scheduler_lock]`",
        ));
    }
    let parts = Parts::new(arguments);
    let prepare = parts.prepare(function);
    let run = match Returned::of(signature)? {
        Returned::Value(returned) => {
            let mut function = function.clone();
            let taken = Taken::from(&mut function, &prepare, &arguments.moving());
            let run = if function.signature.asyncness.is_some() {
                parts.run_async(&returned, &taken, &function.body)
            } else {
                parts.run_blocking(&returned, &taken, &function.body)
            };
            return Ok(function.with_body(&quote!(#prepare #run)));
        }
        Returned::FutureOf(returned) => {
            let tail = function.trailing_future().ok_or_else(|| {
                syn::Error::new_spanned(
                    &signature.output,
                    "`#[scheduler_lock]` cannot find the future that this function returns: make \
                     it an `async fn`, or end its body with `Box::pin(async move { … })`",
                )
            })?;
            tail.check_returns()?;
            parts.run_future(&returned, tail)
        }
    };
    Ok(function.with_body(&quote!(#prepare #run)))
}

/// Generates the lock's configuration, without the part that is passed to `Call`.
pub(crate) fn lock_config(arguments: &Arguments, private: &TokenStream) -> TokenStream {
    // A missing name was already reported. This one only keeps the rest compiling.
    let name = arguments.name.as_ref();
    let name = name.map_or_else(|| quote!("unnamed"), |name| name.to_tokens(private));
    let durations = [
        ("lock_at_most_for", &arguments.lock_at_most_for),
        ("lock_at_least_for", &arguments.lock_at_least_for),
        ("max_run_time", &arguments.max_run_time),
        ("lock_wait", &arguments.lock_wait),
        ("expect_every", &arguments.expect_every),
    ];
    let durations = durations.iter().filter_map(|(setter, value)| {
        let value = value.as_ref()?.to_tokens(private);
        let setter = Ident::new(setter, Span::mixed_site());
        Some(quote!(.#setter(#value)))
    });
    let job = arguments.name.as_ref().and_then(Name::template);
    let job = job.map(|template| quote!(.job(#template)));
    quote!(#private::LockConfig::new(#name) #job #(#durations)*)
}

/// The parts that all forms are assembled from.
struct Parts<'a> {
    arguments: &'a Arguments,
    facade: Path,
    /// A variable that the user's code can neither see nor shadow.
    call: Ident,
}

impl<'a> Parts<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        Self {
            arguments,
            facade: arguments.facade(),
            call: Ident::new("__shedlock_call", Span::mixed_site()),
        }
    }

    /// Evaluates the attribute's values, which may borrow arguments that the body then takes.
    fn prepare(&self, function: &Function) -> TokenStream {
        let Self {
            arguments,
            facade,
            call,
        } = self;
        let private = quote!(#facade::__private);
        let config = lock_config(arguments, &private);
        let keep_alive = arguments.keep_alive.as_ref();
        let keep_alive = keep_alive.map(|value| quote!(.keep_alive(#value)));
        let provider = arguments.provider.as_ref().map(|value| quote!(.on(#value)));
        let function = function.signature.ident.to_string();
        quote! {
            let #call = #private::Call::new(
                #config,
                #private::concat!(#private::module_path!(), "::", #function),
            ) #keep_alive #provider;
        }
    }

    fn run_async(&self, returned: &Type, taken: &Taken, body: &TokenStream) -> TokenStream {
        let Self { facade, call, .. } = self;
        let mentioned = &taken.mentioned;
        let body = taken.around(body);
        let body_type = self.returns("Body", returned);
        let failure = self.failure(&body_type);
        let span = Span::mixed_site();
        // The compiler does not infer the output type of an async block from outside. A `return`
        // that is never reached sets the type before the user's own code is checked.
        let run = quote_spanned! {span=>
            #facade::__private::run(#call, async move {
                if false {
                    return #facade::__private::unreached::<#body_type>();
                }
                #mentioned
                #body
            }, #failure)
            .await
        };
        self.answer(returned, &run)
    }

    fn run_blocking(&self, returned: &Type, taken: &Taken, body: &TokenStream) -> TokenStream {
        let Self { facade, call, .. } = self;
        let mentioned = &taken.mentioned;
        let body = taken.around(body);
        let body_type = self.returns("Body", returned);
        let failure = self.failure(&body_type);
        let run = quote! {
            #facade::__private::run_blocking::<#body_type>(
                #call,
                move || { #mentioned #body },
                #failure,
            )
        };
        self.answer(returned, &run)
    }

    /// Generates the closure that returns the text of the error that the body returned.
    fn failure(&self, body_type: &TokenStream) -> TokenStream {
        let facade = &self.facade;
        quote_spanned! {Span::mixed_site()=>
            |__shedlock_value: &#body_type| {
                use #facade::__private::judged::*;
                (&&&Judged(__shedlock_value)).shedlock_failure()
            }
        }
    }

    /// Generates the conversion from the end of the call to the return value of the function.
    fn answer(&self, returned: &Type, ended: &TokenStream) -> TokenStream {
        let from_ended = self.returns("from_ended", returned);
        let span = span_for_complaints(returned);
        let variable = Ident::new("__shedlock_ended", span);
        let answer = quote_spanned!(span=> #from_ended(#variable));
        quote!(let #variable = #ended; #answer)
    }

    /// Takes the lock when the future is polled, not when it is created.
    fn run_future(&self, returned: &Type, mut tail: TrailingFuture) -> TokenStream {
        let body_type = self.returns("Body", returned);
        tail.evaluate_to(&parse_quote!(#body_type));
        tail.body(&self.run_async(returned, &Taken::default(), &tail.inside()))
    }

    /// Refers to a part of the facade's trait for this return type. If the trait is not
    /// implemented, the compiler points at the type.
    fn returns(&self, part: &str, returned: &Type) -> TokenStream {
        let facade = &self.facade;
        let span = span_for_complaints(returned);
        let part = Ident::new(part, span);
        quote_spanned!(span=> <#returned as #facade::__private::Return>::#part)
    }
}

/// Returns the type's own span, so that the compiler points there. For `()` there is nothing to
/// report, and code that looks like the user's would only make the compiler suggest a semicolon.
fn span_for_complaints(returned: &Type) -> Span {
    match returned {
        Type::Tuple(unit) if unit.elems.is_empty() => Span::mixed_site(),
        _ => returned.span(),
    }
}

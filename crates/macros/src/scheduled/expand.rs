//! Generates the function and its job.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Meta, Path, Safety, Signature, Type, parse_quote};

use super::attr::Arguments;
use super::parameters::Parameter;
use crate::attr::{Arguments as LockArguments, Errors};
use crate::expand::lock_config;
use crate::function::Function;
use crate::return_type::Returned;
use crate::taken::mentions;

/// Generates the function with its lock, as without this attribute, and an empty type with the same
/// name that provides the function's job.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = Arguments::parse(attribute, &mut errors);
    let expanded = Function::parse("scheduled", item.clone()).and_then(|function| {
        if let Some(second) = function.outer.iter().find(|other| is_attribute(other)) {
            let message = "a job has one schedule: remove this one";
            errors.push(syn::Error::new_spanned(second, message));
        }
        let lock = Lock::of(&function, &arguments, &mut errors)?;
        job(&function, &arguments, &lock)
    });
    let expanded = expanded.unwrap_or_else(|error| {
        errors.push(error);
        item
    });
    let errors = errors.into_tokens();
    quote!(#errors #expanded)
}

/// Returns true for `#[scheduled]`, by any path.
pub(crate) fn is_attribute(attribute: &Attribute) -> bool {
    is_named(attribute, "scheduled")
}

fn is_named(attribute: &Attribute, name: &str) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|last| last.ident == name)
}

/// The function's lock, as `#[scheduler_lock]` defines it.
struct Lock {
    arguments: LockArguments,
    facade: Path,
}

impl Lock {
    fn of(function: &Function, arguments: &Arguments, errors: &mut Errors) -> syn::Result<Self> {
        let mut locks = function.outer.iter().filter(|attribute| is_lock(attribute));
        let Some(found) = locks.next() else {
            return Err(syn::Error::new(
                Span::call_site(),
                "the job has no lock: add `#[scheduler_lock(name = \"…\", lock_at_most_for = \"…\")]`",
            ));
        };
        if let Some(second) = locks.next() {
            let message = "a job has one lock: remove this one";
            errors.push(syn::Error::new_spanned(second, message));
        }
        let tokens = match &found.meta {
            Meta::List(list) => list.tokens.clone(),
            Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
        };
        // The other attribute reports the errors in there.
        let lock = LockArguments::parse(tokens, &mut Errors::default());
        if let Some(provider) = &lock.provider {
            errors.add(
                provider.span(),
                "a scheduled function uses its scheduler's provider: remove `provider`, or build \
                 the job with `Job::new`",
            );
        }
        let facade = arguments.facade.clone();
        Ok(Self {
            facade: facade.unwrap_or_else(|| lock.facade()),
            arguments: lock,
        })
    }
}

fn is_lock(attribute: &Attribute) -> bool {
    is_named(attribute, "scheduler_lock")
}

fn job(function: &Function, arguments: &Arguments, lock: &Lock) -> syn::Result<TokenStream> {
    let signature = &function.signature;
    check_qualifiers(signature)?;
    let parameters = Parameter::of(signature)?;
    if let Returned::FutureOf(_) = Returned::of(signature)? {
        return Err(syn::Error::new_spanned(
            &signature.output,
            "`#[scheduled]` needs an `async fn` here",
        ));
    }
    let function_name = &signature.ident;
    let name = arguments.job.as_ref().unwrap_or(function_name);
    let visibility = &function.visibility;
    let allowed = allowed(&function.outer);
    let outer = locked_function(function, name, &parameters);
    let task = task(function, &parameters, lock);
    let job = job_function(signature, &parameters, arguments, lock);
    let about = format!("The job of the function `{function_name}`, for a scheduler.");
    let about_job = "The job: when it is due, its lock, and the function that it runs.";
    // A name of the expansion, which is not reported for having no upper case.
    let mut type_name = name.clone();
    type_name.set_span(name.span().resolved_at(Span::call_site()));
    Ok(quote! {
        #outer

        #[doc = #about]
        #visibility enum #type_name {}

        #(#allowed)*
        impl #name {
            #[doc = #about_job]
            #visibility #job

            #task
        }
    })
}

fn check_qualifiers(signature: &Signature) -> syn::Result<()> {
    let wrong = match (&signature.constness, &signature.safety, &signature.abi) {
        (Some(token), _, _) => token.span,
        (None, Safety::Safe(token), _) => token.span,
        (None, Safety::Unsafe(token), _) => token.span,
        (None, Safety::Default, Some(abi)) => abi.extern_token.span,
        (None, Safety::Default, None) => return Ok(()),
    };
    let message = "a job must be a plain `fn` or `async fn`: build any other with `Job::new`";
    Err(syn::Error::new(wrong, message))
}

/// Generates the function that users call by hand: with its lock, and with the body in the task.
///
/// It consists of the user's own tokens, so that the compiler reports an unused function.
fn locked_function(function: &Function, job: &Ident, parameters: &[Parameter]) -> TokenStream {
    let mut outer = function.clone();
    outer.outer.retain(is_outer);
    outer.outer.extend(allowed(&function.outer));
    outer.inner.clear();
    outer.signature.inputs = parameters.iter().map(Parameter::declared).collect();
    let passed = parameters.iter().map(Parameter::passed);
    let task = task_name();
    let wait = outer.signature.asyncness.map(|_| quote!(.await));
    // As a type: if a module has this name, the compiler reports the module, not what it lacks.
    outer.with_body(&quote!(<#job>::#task(#(#passed),*) #wait))
}

/// Attributes for callers of the function. All others apply to its body.
fn is_outer(attribute: &Attribute) -> bool {
    let callers = ["doc", "deprecated", "must_use"];
    is_lock(attribute) || callers.iter().any(|name| attribute.path().is_ident(name))
}

/// Returns the lints that the function allows or expects, for all functions that have its signature.
fn allowed(attributes: &[Attribute]) -> Vec<Attribute> {
    let lints = attributes.iter().filter_map(|attribute| {
        let list = attribute.meta.require_list().ok()?;
        let is_lint = list.path.is_ident("allow") || list.path.is_ident("expect");
        is_lint.then_some(&list.tokens)
    });
    lints.map(|lints| parse_quote!(#[allow(#lints)])).collect()
}

/// Generates the function as it was written, without its lock.
///
/// It keeps its name, for the spans of `#[tracing::instrument]`. An argument may have the same name, so those of the task
/// have others.
fn task(function: &Function, parameters: &[Parameter], lock: &Lock) -> TokenStream {
    let Signature {
        asyncness,
        ident,
        output,
        ..
    } = &function.signature;
    let hidden = parameters.iter().enumerate();
    let hidden: Vec<Parameter> = hidden
        .map(|(index, parameter)| parameter.hidden(index))
        .collect();
    let declared = hidden.iter().map(Parameter::declared);
    let passed = hidden.iter().map(Parameter::passed);
    let task = task_name();
    let is_deprecated = |attribute: &Attribute| attribute.path().is_ident("deprecated");
    let deprecated = function.outer.iter().any(is_deprecated);
    let allowed = deprecated.then(|| quote!(#[allow(deprecated)]));
    let wait = asyncness.map(|_| quote!(.await));
    let mut inner = function.clone();
    inner.visibility = syn::Visibility::Inherited;
    inner
        .outer
        .retain(|attribute| !is_outer(attribute) && !is_attribute(attribute));
    // As code of the expansion, so that no lint reports arguments that the body only borrows: a job has to own them.
    inner.signature.fn_token.span = Span::mixed_site();
    // Arguments that the lock's name uses count as used, even if the body does not use them.
    let of_lock = lock_config(&lock.arguments, &TokenStream::new());
    let names_of_lock = parameters
        .iter()
        .filter(|parameter| mentions(&of_lock, &parameter.name))
        .map(Parameter::mentioned);
    let body = &function.body;
    let inner = inner.with_body(&quote!(#(#names_of_lock)* #body));
    quote! {
        #asyncness fn #task(#(#declared),*) #output {
            // Using the job counts as using the function, so that the compiler reports unused ones.
            #allowed
            let _ = #ident;
            {
                #inner
                #ident(#(#passed),*) #wait
            }
        }
    }
}

/// Generates `fn job(…) -> Job`, which takes the function's arguments except for the `JobRun`.
fn job_function(
    signature: &Signature,
    parameters: &[Parameter],
    arguments: &Arguments,
    lock: &Lock,
) -> TokenStream {
    let facade = &lock.facade;
    let scheduler = quote!(#facade::scheduler);
    let private = quote!(#facade::__private);
    let config = config(arguments, lock, &private);
    let schedule = arguments.schedule(&scheduler, &private);
    let given = || parameters.iter().filter(|parameter| !parameter.is_run);
    let declared = given().map(Parameter::declared);
    let cloned: Vec<TokenStream> = given().map(|given| given.cloned(&private)).collect();
    let run_of_scheduler = Ident::new("__shedlock_run", Span::mixed_site());
    let run = parameters.iter().find(|parameter| parameter.is_run);
    let run = run.map_or(&run_of_scheduler, |run| &run.name);
    let passed = parameters.iter().map(Parameter::passed);
    let task = task_name();
    let returned = returned(signature);
    let into_result = quote_spanned! {returned.span()=>
        <#returned as #private::job::Return>::into_result
    };
    let call = quote!(Self::#task(#(#passed),*));
    let (make, body) = match signature.asyncness {
        Some(_) => (
            quote!(#private::job::of_future),
            quote!(async move { #into_result(#call.await) }),
        ),
        None => (
            quote!(#private::job::of_closure),
            quote!(#into_result(#call)),
        ),
    };
    let job = quote! {
        #make(
            #config,
            #schedule,
            move |#run: #scheduler::JobRun| {
                let _ = &#run;
                #(#cloned)*
                #body
            },
        )
    };
    let job = arguments.set_on(job, &scheduler, &private);
    quote! {
        fn job(#(#declared),*) -> #scheduler::Job {
            #job
        }
    }
}

/// Generates the configuration of the job's lock.
fn config(arguments: &Arguments, lock: &Lock, private: &TokenStream) -> TokenStream {
    let config = lock_config(&lock.arguments, private);
    let config = match &lock.arguments.keep_alive {
        Some(wanted) => quote!(#private::job::keep_alive(#config, #wanted)),
        None => config,
    };
    arguments.completion.set_on(config, private)
}

/// Returns the return type of the function.
fn returned(signature: &Signature) -> Type {
    match &signature.output {
        syn::ReturnType::Default => parse_quote!(()),
        syn::ReturnType::Type(_, ty) => (**ty).clone(),
    }
}

/// Returns the name of a function that is hidden from the user's code.
fn task_name() -> Ident {
    Ident::new("__shedlock_task", Span::mixed_site())
}

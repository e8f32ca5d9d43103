//! The parameters of the function, and those that its job has to be given.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Signature, Type, parse_quote_spanned};

use crate::taken::conditions;

/// One parameter: a name and a type.
#[derive(Clone)]
pub(super) struct Parameter {
    /// Its `#[cfg]` attributes.
    conditions: Vec<Attribute>,
    pub(super) name: Ident,
    ty: Type,
    /// Whether it is the `JobRun` of each run. Every other parameter is given once, and cloned for
    /// each run.
    pub(super) is_run: bool,
}

impl Parameter {
    /// Returns the parameters of a function that can be a job.
    pub(super) fn of(signature: &Signature) -> syn::Result<Vec<Self>> {
        if let Some(parameter) = signature.generics.params.first() {
            return Err(syn::Error::new_spanned(
                parameter,
                "a scheduled function cannot be generic: remove the generics, or build the job \
                 with `Job::new`",
            ));
        }
        let parameters: Vec<Self> = signature
            .inputs
            .iter()
            .map(Self::read)
            .collect::<Result<_, _>>()?;
        let mut runs = parameters
            .iter()
            .filter(|parameter| parameter.is_run)
            .skip(1);
        match runs.next() {
            Some(second) => Err(syn::Error::new_spanned(
                &second.ty,
                "a run has one `JobRun`: remove this one",
            )),
            None => Ok(parameters),
        }
    }

    fn read(argument: &FnArg) -> syn::Result<Self> {
        let FnArg::Typed(PatType { attrs, pat, ty, .. }) = argument else {
            return Err(syn::Error::new_spanned(
                argument,
                "a scheduled function cannot be a method: `#[scheduled]` has no value for `self`; \
                 build the job with `Job::new`, or take the value as an argument",
            ));
        };
        let Pat::Ident(pattern) = &**pat else {
            return Err(syn::Error::new_spanned(
                pat,
                "an argument of a scheduled function must be written as `name: Type`",
            ));
        };
        if let Some(reference) = short_reference(ty) {
            return Err(syn::Error::new_spanned(
                reference,
                "a job outlives the call that makes it: take an owned value, like `String` or \
                 `Arc<…>`, or a `&'static` one",
            ));
        }
        if let Type::ImplTrait(_) = &**ty {
            return Err(syn::Error::new_spanned(
                ty,
                "a scheduled function cannot be generic: remove the generics, or build the job \
                 with `Job::new`",
            ));
        }
        Ok(Self {
            conditions: conditions(attrs),
            name: pattern.ident.clone(),
            ty: (**ty).clone(),
            is_run: is_run(ty),
        })
    }

    /// Returns the same parameter under a name that is hidden from the user's code.
    pub(super) fn hidden(&self, index: usize) -> Self {
        Self {
            name: format_ident!("__shedlock_argument_{index}", span = Span::mixed_site()),
            ..self.clone()
        }
    }

    /// Returns `name: Type`, without the parts that only the body needs.
    pub(super) fn declared(&self) -> FnArg {
        let Self {
            conditions,
            name,
            ty,
            ..
        } = self;
        parse_quote_spanned!(name.span()=> #(#conditions)* #name: #ty)
    }

    /// Generates the argument of a call.
    pub(super) fn passed(&self) -> TokenStream {
        let Self {
            conditions, name, ..
        } = self;
        quote!(#(#conditions)* #name)
    }

    /// Generates a clone for one run. If the type is not `Clone`, the compiler points at the type.
    pub(super) fn cloned(&self, private: &TokenStream) -> TokenStream {
        let Self {
            conditions,
            name,
            ty,
            ..
        } = self;
        let clone = quote_spanned!(ty.span()=> #private::Clone::clone(&#name));
        quote_spanned!(name.span()=> #(#conditions)* let #name: #ty = #clone;)
    }

    /// Generates a statement that counts as a use of the argument.
    pub(super) fn mentioned(&self) -> TokenStream {
        let Self {
            conditions, name, ..
        } = self;
        quote!(#(#conditions)* let _ = &#name;)
    }
}

fn short_reference(ty: &Type) -> Option<&dyn ToTokens> {
    match ty {
        Type::Group(group) => short_reference(&group.elem),
        Type::Paren(paren) => short_reference(&paren.elem),
        Type::Reference(reference) => {
            let is_static = |lifetime: &syn::Lifetime| lifetime.ident == "static";
            let long = reference.lifetime.as_ref().is_some_and(is_static);
            (!long).then_some(reference as _)
        }
        _ => None,
    }
}

/// Recognizes it by the name in which its type is written.
fn is_run(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => is_run(&group.elem),
        Type::Paren(paren) => is_run(&paren.elem),
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| last.ident == "JobRun")
        }
        _ => false,
    }
}

//! Moves the function's arguments into the locked body, so that they are dropped while the lock is
//! held, just as a function drops them before it returns.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Attribute, FnArg, Ident, Pat, PatIdent, PatRest, PatType, PatWild, ReceiverKind, Type,
    parse_quote,
};

use crate::function::Function;

/// The statements at the beginning of the locked body.
///
/// A closure and an async block capture only the variables that they mention, and only the fields
/// that they mention. Everything else would live until the lock is given back, and longer.
#[derive(Default)]
pub(crate) struct Taken {
    /// Mentions each argument as a whole.
    pub(crate) mentioned: TokenStream,
    /// Destructures arguments whose patterns leave something out.
    pub(crate) patterns: TokenStream,
}

impl Taken {
    /// Takes the arguments of the function, except those that `moved` may already have moved.
    /// Arguments without a name, and those whose patterns leave something out, get a name that is
    /// hidden from the user's code.
    pub(crate) fn from(function: &mut Function, config: &TokenStream, moved: &TokenStream) -> Self {
        let mut taken = Self::default();
        // `#[tracing::instrument]` records the arguments by their names.
        let is_instrumented = function.outer.iter().any(|attribute| {
            let last = attribute.path().segments.last();
            last.is_some_and(|last| last.ident == "instrument")
        });
        let used = [config.clone(), function.body.clone()];
        for (index, input) in function.signature.inputs.iter_mut().enumerate() {
            match input {
                FnArg::Receiver(receiver) => {
                    let this = Ident::from(receiver.self_token);
                    let is_owned = match &receiver.kind {
                        ReceiverKind::Value => true,
                        ReceiverKind::Typed(_, ty) => !is_reference(ty),
                        _ => false,
                    };
                    if is_owned && !mentions(moved, &this) {
                        taken.mentioned.extend(quote!(let _ = &#this;));
                    }
                }
                FnArg::Typed(argument) if is_reference(&argument.ty) => {}
                FnArg::Typed(argument) => {
                    let bound = Bound::by(&argument.pat);
                    let is_named = bound.names.iter().any(|name| mentions(config, name));
                    let is_unused = bound.names.iter().all(|name| {
                        name.unraw().to_string().starts_with('_')
                            && !used.iter().any(|used| mentions(used, name))
                    });
                    let is_partial = bound.is_partial || is_unused;
                    if !is_partial || is_named || is_instrumented {
                        let names = bound.names.iter();
                        let names = names.filter(|name| !mentions(moved, name));
                        taken.names(&mut argument.attrs, names, &used);
                    } else {
                        taken.partial(argument, index);
                    }
                }
            }
        }
        taken
    }

    /// Generates the user's body, with the arguments that it only sees in part.
    pub(crate) fn around(&self, body: &TokenStream) -> TokenStream {
        let patterns = &self.patterns;
        if patterns.is_empty() {
            return quote!({ #body });
        }
        // Borrows by the last expression end with the arm, before these variables are dropped.
        quote_spanned! {Span::mixed_site()=>
            #patterns
            match () { () => { #body } }
        }
    }

    fn names<'a>(
        &mut self,
        attributes: &mut Vec<Attribute>,
        names: impl Iterator<Item = &'a Ident>,
        used: &[TokenStream],
    ) {
        let conditions = conditions(attributes);
        let mut lints = None;
        for name in names {
            let is_used = used.iter().any(|used| mentions(used, name));
            self.mentioned.extend(if is_used {
                quote!(#(#conditions)* let _ = &#name;)
            } else if name.unraw().to_string().starts_with('_') {
                let allowed = quote!(#[allow(clippy::used_underscore_binding)]);
                quote!(#(#conditions)* #allowed let _ = &#name;)
            } else {
                // So that the compiler still reports an unused argument.
                let lints = lints.get_or_insert_with(|| moved_lints(attributes));
                quote!(#(#conditions)* #(#lints)* let #name = #name;)
            });
        }
    }

    fn partial(&mut self, argument: &mut PatType, index: usize) {
        let conditions = conditions(&argument.attrs);
        let name = format_ident!("__shedlock_argument_{index}", span = Span::mixed_site());
        let pattern = std::mem::replace(&mut *argument.pat, parse_quote!(#name));
        let mention = quote!(#(#conditions)* let _ = &#name;);
        self.mentioned.extend(mention);
        if !matches!(pattern, Pat::Wild(_)) {
            let lints = moved_lints(&mut argument.attrs);
            let taken_apart = quote!(#(#conditions)* #(#lints)* let #pattern = #name;);
            self.patterns.extend(taken_apart);
        }
    }
}

fn is_reference(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => is_reference(&group.elem),
        Type::Paren(paren) => is_reference(&paren.elem),
        Type::Reference(_) => true,
        _ => false,
    }
}

/// Returns the attributes that decide whether an argument exists.
pub(crate) fn conditions(attributes: &[Attribute]) -> Vec<Attribute> {
    let attributes = attributes.iter();
    let conditions = attributes.filter(|attribute| is_condition(attribute));
    conditions.cloned().collect()
}

/// Returns true for an attribute that may remove what it is on.
pub(crate) fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
}

/// Returns the lints of an argument for the variables in the body. An `expect` moves there, because
/// nothing in the argument itself fulfills it any more.
fn moved_lints(attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
    let lints = attributes.iter().filter(|attribute| is_lint(attribute));
    let lints = lints.cloned().collect();
    attributes.retain(|attribute| !attribute.path().is_ident("expect"));
    lints
}

fn is_lint(attribute: &Attribute) -> bool {
    let lints = ["allow", "expect", "warn", "deny", "forbid"];
    lints.iter().any(|lint| attribute.path().is_ident(lint))
}

/// The variables that a pattern binds.
#[derive(Default)]
struct Bound {
    names: Vec<Ident>,
    /// A part of the value is not bound to a name, or only borrowed.
    is_partial: bool,
}

impl Bound {
    fn by(pattern: &Pat) -> Self {
        let mut bound = Self::default();
        bound.visit_pat(pattern);
        bound
    }
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.names.push(pattern.ident.clone());
        self.is_partial |= pattern.by_ref.is_some();
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_pat_rest(&mut self, _: &'ast PatRest) {
        self.is_partial = true;
    }

    fn visit_pat_wild(&mut self, _: &'ast PatWild) {
        self.is_partial = true;
    }
}

/// Searches within the braces of format strings too.
pub(crate) fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            // As a value, or as a width or precision.
            text.contains(&format!("{{{name}")) || text.contains(&format!("{name}$"))
        }
        TokenTree::Punct(_) => false,
    })
}

//! The arguments of a job that must not be lost.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit};

use crate::attr::{Errors, Period, period};

/// The arguments for slots that are open until they are done.
#[derive(Default)]
pub(super) struct Completion {
    wanted: Option<(Span, Expr)>,
    /// The keys that are only meaningful together with `must_not_be_lost`.
    details: Vec<Ident>,
    max_attempts: Option<Expr>,
    backoff: Option<Period>,
    max_backoff: Option<Period>,
}

impl Completion {
    /// Handles the value of one of its keys. Returns false if the key is not one of them.
    pub(super) fn take(&mut self, key: &Ident, value: &Expr, errors: &mut Errors) -> bool {
        match key.to_string().as_str() {
            "must_not_be_lost" => {
                self.wanted = Some((key.span(), value.clone()));
                return true;
            }
            "max_attempts" => self.max_attempts = errors.keep(max_attempts(value)),
            "backoff" => self.backoff = errors.keep(period(value.clone())),
            "max_backoff" => self.max_backoff = errors.keep(period(value.clone())),
            _ => return false,
        }
        self.details.push(key.clone());
        true
    }

    /// Checks these arguments together with the others.
    pub(super) fn check(&self, has_slots: bool, errors: &mut Errors) {
        let Some((span, _)) = &self.wanted else {
            for key in &self.details {
                let message = format!("`{key}` needs `must_not_be_lost`: add that key");
                errors.add(key.span(), message);
            }
            return;
        };
        if !has_slots {
            errors.add(
                *span,
                "a fixed delay has no slots that can be lost: use `cron` or `every` instead",
            );
        }
        match (&self.backoff, &self.max_backoff) {
            (Some(Period::Known(backoff, _)), Some(Period::Known(longest, span)))
                if longest < backoff =>
            {
                errors.add(
                    *span,
                    "max_backoff is shorter than backoff: raise the first or lower the second",
                );
            }
            _ => {}
        }
    }

    /// Generates the calls that apply them to the lock's configuration.
    pub(super) fn set_on(&self, config: TokenStream, private: &TokenStream) -> TokenStream {
        let Some((_, wanted)) = &self.wanted else {
            return config;
        };
        let max_attempts = self.max_attempts.as_ref();
        let max_attempts = max_attempts.map(|attempts| quote!(.max_attempts(#attempts)));
        let pause = |period: &Period| period.to_tokens(private);
        let retries = match self.backoff.as_ref().map(pause) {
            Some(backoff) => quote!(#private::job::backing_off(#backoff)),
            None => quote!(#private::job::Retries::new()),
        };
        let longest = self.max_backoff.as_ref().map(pause);
        let longest = longest.map(|pause| quote!(.max_backoff(#pause)));
        quote! {
            #private::job::must_not_be_lost(
                #config,
                #wanted,
                #retries #max_attempts #longest,
            )
        }
    }
}

fn max_attempts(value: &Expr) -> syn::Result<Expr> {
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return Ok(value.clone());
    };
    let number = match lit {
        Lit::Int(number) => number.base10_parse::<u32>().ok(),
        _ => None,
    };
    match number {
        Some(0) => Err(syn::Error::new(
            value.span(),
            "max_attempts is zero: the slot could never be run",
        )),
        Some(_) => Ok(value.clone()),
        None => Err(syn::Error::new(
            value.span(),
            "write the number of attempts, like `max_attempts = 5`",
        )),
    }
}

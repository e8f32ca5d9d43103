//! The return type of the annotated function: the value itself, or a future of it.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{
    AngleBracketedGenericArguments, GenericArgument, PathArguments, PathSegment, ReturnType,
    Signature, Type, TypeInfer, TypeParamBound, TypePath, parse_quote_spanned,
};

/// What the caller receives in the end.
///
/// The compiler decides which types have a value for a skipped run, through a trait of the facade,
/// so that aliases such as `anyhow::Result<()>` are resolved. Only types that no alias can hide are
/// refused here.
pub(crate) enum Returned {
    /// The function returns this, or is `async` and resolves to it.
    Value(Box<Type>),
    /// The function returns a future of this; `async_trait` rewrites methods in this way.
    FutureOf(Box<Type>),
}

impl Returned {
    pub(crate) fn of(signature: &Signature) -> syn::Result<Self> {
        let ty = match &signature.output {
            ReturnType::Default => return Ok(Self::Value(Box::new(unit(signature.ident.span())))),
            ReturnType::Type(_, ty) => &**ty,
        };
        let future = future_output(ty).filter(|_| signature.asyncness.is_none());
        let value = future.unwrap_or(ty);
        if can_never_be_skipped(value) {
            return Err(syn::Error::new_spanned(
                value,
                format!(
                    "a `#[scheduler_lock]` function cannot return this type: it has no value for a \
                     skipped run; return {RETURN_TYPES}"
                ),
            ));
        }
        let value = Box::new(without_impl_trait(value.clone()));
        Ok(if future.is_some() {
            Self::FutureOf(value)
        } else {
            Self::Value(value)
        })
    }
}

const RETURN_TYPES: &str = "`()`, `Option<T>`, `Result<(), E>`, `Result<Option<T>, E>`, \
                            `Outcome<T>` or `Result<Outcome<T>, E>`, where \
                            `E: From<shedlock::Error>`";

fn unit(span: Span) -> Type {
    parse_quote_spanned!(span=> ())
}

fn can_never_be_skipped(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => can_never_be_skipped(&group.elem),
        Type::Paren(paren) => can_never_be_skipped(&paren.elem),
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Array(_)
        | Type::FnPtr(_)
        | Type::ImplTrait(_)
        | Type::Never(_)
        | Type::Ptr(_)
        | Type::Reference(_)
        | Type::Slice(_)
        | Type::TraitObject(_) => true,
        _ => false,
    }
}

/// Returns `R` of `impl Future<Output = R>`, `Pin<Box<dyn Future<Output = R>>>`, `BoxFuture<'_, R>`
/// and `LocalBoxFuture<'_, R>`.
fn future_output(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Group(group) => future_output(&group.elem),
        Type::Paren(paren) => future_output(&paren.elem),
        Type::ImplTrait(implemented) => implemented.bounds.iter().find_map(output_of_bound),
        Type::Path(path) => {
            let segment = last_segment(path)?;
            if segment.ident == "BoxFuture" || segment.ident == "LocalBoxFuture" {
                return only_type_argument(segment);
            }
            if segment.ident != "Pin" {
                return None;
            }
            let Type::Path(boxed) = only_type_argument(segment)? else {
                return None;
            };
            let boxed = last_segment(boxed).filter(|segment| segment.ident == "Box")?;
            match only_type_argument(boxed)? {
                Type::TraitObject(object) => object.bounds.iter().find_map(output_of_bound),
                _ => None,
            }
        }
        _ => None,
    }
}

fn last_segment(path: &TypePath) -> Option<&PathSegment> {
    path.path.segments.last()
}

fn arguments(segment: &PathSegment) -> Option<&AngleBracketedGenericArguments> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    }
}

fn only_type_argument(segment: &PathSegment) -> Option<&Type> {
    let mut types = arguments(segment)?
        .args
        .iter()
        .filter_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
    types.next().filter(|_| types.next().is_none())
}

fn output_of_bound(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else {
        return None;
    };
    let segment = bound.path.segments.last()?;
    if segment.ident != "Future" {
        return None;
    }
    arguments(segment)?
        .args
        .iter()
        .find_map(|argument| match argument {
            GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
            _ => None,
        })
}

/// Returns the type in the form that is allowed inside the body: `impl Trait` becomes `_`.
fn without_impl_trait(mut ty: Type) -> Type {
    struct Eraser;
    impl VisitMut for Eraser {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(found) = ty {
                *ty = Type::Infer(TypeInfer {
                    attrs: Vec::new(),
                    underscore_token: syn::Token![_](found.impl_token.span),
                });
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    Eraser.visit_type_mut(&mut ty);
    ty
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn returned(output: &str) -> syn::Result<Returned> {
        Returned::of(&syn::parse_str(&format!("fn job() {output}")).unwrap())
    }

    fn value(output: &str) -> String {
        match returned(output).unwrap() {
            Returned::Value(ty) => ty.to_token_stream().to_string(),
            Returned::FutureOf(_) => panic!("{output} is no future"),
        }
    }

    #[test]
    fn futures_are_seen_through() {
        for output in [
            "-> Pin<Box<dyn Future<Output = Option<u8>> + Send + 'a>>",
            "-> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Option<u8>> + 'a>>",
            "-> impl Future<Output = Option<u8>> + Send",
            "-> BoxFuture<'static, Option<u8>>",
            "-> futures::future::LocalBoxFuture<'_, Option<u8>>",
        ] {
            let Returned::FutureOf(ty) = returned(output).unwrap() else {
                panic!("{output} is a future");
            };
            assert_eq!(
                ty.to_token_stream().to_string(),
                "Option < u8 >",
                "{output}"
            );
        }
    }

    #[test]
    fn paths_are_left_to_the_compiler() {
        assert_eq!(value(""), "()");
        assert_eq!(value("-> ()"), "()");
        assert_eq!(value("-> Pin<Box<u8>>"), "Pin < Box < u8 > >");
        assert_eq!(value("-> anyhow::Result<()>"), "anyhow :: Result < () >");
    }

    #[test]
    fn impl_trait_is_inferred_inside_the_body() {
        assert_eq!(value("-> Option<impl Display>"), "Option < _ >");
    }

    #[test]
    fn what_no_alias_can_hide_is_refused() {
        for output in [
            "-> !",
            "-> &'static str",
            "-> (u8, u8)",
            "-> [u8; 2]",
            "-> impl Display",
            "-> fn()",
            "-> impl Future<Output = (u8, u8)>",
        ] {
            let error = returned(output).err().unwrap().to_string();
            assert!(
                error.contains("`Result<Option<T>, E>`"),
                "{output}: {error}"
            );
        }
    }
}

//! The annotated function, with its body as it was written.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::parse::{ParseStream, Parser};
use syn::token::Brace;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, ExprAsync, ExprClosure, ExprReturn, Ident, Item, Pat, Signature, Stmt,
    Token, Type, Visibility, braced,
};

use crate::taken::{is_condition, mentions};

/// A function whose body is kept as tokens. Errors in the body are for the compiler to report, and
/// must not prevent the function from being emitted.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) outer: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    defaultness: Option<Token![default]>,
    pub(crate) signature: Signature,
    brace: Brace,
    pub(crate) inner: Vec<Attribute>,
    pub(crate) body: TokenStream,
}

impl Function {
    /// Parses the item that this attribute is on.
    pub(crate) fn parse(attribute: &str, item: TokenStream) -> syn::Result<Self> {
        let read = |input: ParseStream<'_>| Self::read(attribute, input);
        read.parse2(item)
    }

    fn read(attribute: &str, input: ParseStream<'_>) -> syn::Result<Self> {
        let outer = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let defaultness = if input.peek(Token![default]) && !input.peek2(Token![!]) {
            Some(input.parse()?)
        } else {
            None
        };
        let signature: Signature = input.parse().map_err(|error| {
            let message = format!("`#[{attribute}]` belongs on a function: {error}");
            syn::Error::new(error.span(), message)
        })?;
        if input.peek(Token![;]) {
            return Err(input.error(format!(
                "the function has no body to lock: put `#[{attribute}]` on its implementations"
            )));
        }
        let content;
        let brace = braced!(content in input);
        Ok(Self {
            outer,
            visibility,
            defaultness,
            signature,
            brace,
            inner: content.call(Attribute::parse_inner)?,
            body: content.parse()?,
        })
    }

    /// Returns true for the result of `#[tokio::main]` and similar attributes on an async function:
    /// a blocking function that runs the body on its own runtime.
    pub(crate) fn starts_runtime(&self) -> bool {
        let is_test = |attribute: &Attribute| {
            let last = attribute.path().segments.last();
            last.is_some_and(|last| last.ident == "test")
        };
        let is_called = |name: &str| mentions(&self.body, &Ident::new(name, Span::call_site()));
        self.signature.asyncness.is_none()
            && !self.outer.iter().any(is_test)
            && is_called("block_on")
            && (self.signature.ident == "main" || is_by_tokio(&self.body))
    }

    /// Returns the same function with another body.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let mut tokens = TokenStream::new();
        tokens.append_all(&self.outer);
        self.visibility.to_tokens(&mut tokens);
        self.defaultness.to_tokens(&mut tokens);
        self.signature.to_tokens(&mut tokens);
        self.brace.surround(&mut tokens, |tokens| {
            tokens.append_all(&self.inner);
            body.to_tokens(tokens);
        });
        tokens
    }

    /// Splits off the async block at the end of the body of a function without `async`. Returns
    /// `None` if the body ends otherwise.
    pub(crate) fn trailing_future(&self) -> Option<TrailingFuture> {
        let block = Block::parse_within;
        let mut statements = syn::parse::Parser::parse2(block, self.body.clone()).ok()?;
        let Some(Stmt::Expr(mut last, None)) = statements.pop() else {
            return None;
        };
        let inside = async_block(&mut last)?.block.stmts.clone();
        Some(TrailingFuture {
            before: statements,
            inside,
            whole: last,
        })
    }
}

/// Recognizes it by the message of its `expect`.
fn is_by_tokio(body: &TokenStream) -> bool {
    body.to_string().contains("\"Failed building the Runtime\"")
}

/// A body that ends in `async move { … }`, in a `Box::pin(…)` of one, or in `.boxed()`.
pub(crate) struct TrailingFuture {
    before: Vec<Stmt>,
    /// The statements of the async block.
    inside: Vec<Stmt>,
    whole: Expr,
}

impl TrailingFuture {
    /// Refuses a `return` before the async block: it would return a future without the lock.
    ///
    /// A `?` cannot be there, because no future can be made from an error.
    pub(crate) fn check_returns(&self) -> syn::Result<()> {
        let mut returns = Returns::default();
        for statement in &self.before {
            returns.visit_stmt(statement);
        }
        returns.first.map_or(Ok(()), |span| {
            let message = "the future that is returned here would run without the lock: make the \
                           function an `async fn`, or move the `return` into the async block";
            Err(syn::Error::new(span, message))
        })
    }

    /// Removes the type annotations of `async_trait`. They name the declared return type of the
    /// function, but the body of a function that returns `Outcome<T>` evaluates to `T`.
    pub(crate) fn evaluate_to(&mut self, body: &Type) {
        self.inside.retain(|statement| !is_return_edge(statement));
        for statement in &mut self.inside {
            let Stmt::Local(local) = statement else {
                continue;
            };
            match &mut local.pat {
                Pat::Type(typed) if is_returned(&typed.pat) => *typed.ty = body.clone(),
                _ => {}
            }
        }
    }

    /// Returns the statements of the async block.
    pub(crate) fn inside(&self) -> TokenStream {
        let mut tokens = TokenStream::new();
        tokens.append_all(&self.inside);
        tokens
    }

    /// Returns the whole body, with other statements in the async block.
    pub(crate) fn body(&self, inside: &TokenStream) -> TokenStream {
        let mut whole = self.whole.clone();
        if let Some(future) = async_block(&mut whole) {
            future.capture.get_or_insert_with(Default::default);
            future.block.stmts = vec![Stmt::Expr(Expr::Verbatim(inside.clone()), None)];
        }
        let mut tokens = TokenStream::new();
        tokens.append_all(&self.before);
        whole.to_tokens(&mut tokens);
        tokens
    }
}

fn async_block(expression: &mut Expr) -> Option<&mut ExprAsync> {
    match expression {
        Expr::Async(block) => is_kept(&block.attrs).then_some(block),
        Expr::Group(group) => async_block(&mut group.expr),
        Expr::Paren(paren) if is_kept(&paren.attrs) => async_block(&mut paren.expr),
        Expr::Call(call)
            if is_kept(&call.attrs) && call.args.len() == 1 && is_box_pin(&call.func) =>
        {
            async_block(call.args.first_mut()?)
        }
        Expr::MethodCall(call)
            if is_kept(&call.attrs) && (call.method == "boxed" || call.method == "boxed_local") =>
        {
            async_block(&mut call.receiver)
        }
        _ => None,
    }
}

/// Returns false for an expression that may be removed, so that the body ends with another one.
fn is_kept(attributes: &[Attribute]) -> bool {
    !attributes.iter().any(is_condition)
}

/// Searches for the first `return` of the function itself, not of a closure, an async block or an
/// item in it.
///
/// The arguments of macros are searched too, as are macros that are defined in the function. Other
/// macros that contain a `return` are not recognized.
#[derive(Default)]
struct Returns {
    first: Option<Span>,
}

impl<'ast> Visit<'ast> for Returns {
    fn visit_expr_return(&mut self, found: &'ast ExprReturn) {
        self.first.get_or_insert(found.return_token.span);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.first = self.first.or_else(|| returns_in(tokens));
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Macro(_) = item {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_async(&mut self, _: &'ast ExprAsync) {}

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}
}

fn returns_in(tokens: &TokenStream) -> Option<Span> {
    tokens.clone().into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "return" => Some(ident.span()),
        TokenTree::Group(group) => returns_in(&group.stream()),
        _ => None,
    })
}

/// Recognizes `Box::pin`, by any path.
fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(path) = function else {
        return false;
    };
    let mut segments = path.path.segments.iter().rev();
    segments
        .next()
        .is_some_and(|segment| segment.ident == "pin")
        && segments
            .next()
            .is_some_and(|segment| segment.ident == "Box")
}

/// Recognizes `if let Some(__ret) = None::<…> { return __ret; }`, which `async_trait` uses to fix
/// the type of an async block.
fn is_return_edge(statement: &Stmt) -> bool {
    let Stmt::Expr(Expr::If(condition), _) = statement else {
        return false;
    };
    let Expr::Let(matched) = &*condition.cond else {
        return false;
    };
    match &*matched.pat {
        Pat::TupleStruct(some) => some.elems.len() == 1 && is_returned(&some.elems[0]),
        _ => false,
    }
}

/// Recognizes the variable of `async_trait` that holds the return value of the method.
fn is_returned(pattern: &Pat) -> bool {
    matches!(pattern, Pat::Ident(variable) if variable.ident == "__ret")
}

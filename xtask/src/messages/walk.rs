//! Goes through a file, and lists its messages.

use super::Source;
use super::forms::Message;
use super::index::{
    Index, TYPES, attributes, holes, is_test, params, path_of, pattern_name, type_name,
};
use super::text::{Reader, UNSEEN};
use std::collections::BTreeSet;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Expr, Ident, Item, LitStr, Local, Macro, Pat, ReturnType, Signature, Stmt,
    Token,
};

/// The functions that hold the words of operations and settings.
const WORDS: [&str; 3] = ["in_code", "operation", "setting"];

/// The package that makes no errors: what it refuses is a text, of which others make one.
const GRAMMAR: &str = "crates/grammar";

/// A text of fewer words is a part of others.
const SHORTEST: usize = 3;

/// All messages of a file, in its order.
pub(super) fn messages(index: &Index, source: &Source, file: &syn::File) -> Vec<Message> {
    let mut reader = Reader::new(index, &source.file, &source.package);
    reader.visit_file(file);
    reader.found
}

impl Reader<'_> {
    /// Adds a row, unless what it says is listed elsewhere.
    fn list(&mut self, message: Message) {
        let is_passed_on = self
            .holes
            .iter()
            .any(|hole| message.what == format!("{{{hole}}}"));
        let is_part = TYPES.contains(&&*self.of) && message.what == UNSEEN;
        let is_known = is_part || self.found.contains(&message);
        if message.is_new && !is_known && !(is_passed_on && message.advice.is_empty()) {
            self.found.push(message);
        }
    }

    /// Reads what is inside a message: its arguments.
    fn visit_inside(&mut self, expr: &Expr) {
        match expr {
            Expr::Paren(it) => self.visit_inside(&it.expr),
            Expr::MethodCall(it) => {
                self.visit_inside(&it.receiver);
                it.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::Call(it) if self.message(expr).is_some() => {
                it.args.iter().for_each(|arg| self.visit_expr(arg))
            }
            Expr::Path(_) => {}
            other => self.visit_expr(other),
        }
    }

    fn visit_function(&mut self, sig: &Signature, visit: impl FnOnce(&mut Self)) {
        let locals = std::mem::take(&mut self.locals);
        let made = self.returned(sig);
        let holes = std::mem::replace(&mut self.holes, made);
        visit(self);
        self.locals = locals;
        self.holes = holes;
    }

    /// The parameters that a function makes a message of.
    fn returned(&self, sig: &Signature) -> BTreeSet<String> {
        let ReturnType::Type(_, returned) = &sig.output else {
            return BTreeSet::new();
        };
        let returned = type_name(returned);
        let returned = if returned == "Self" {
            self.of.clone()
        } else {
            returned
        };
        if TYPES.contains(&&*returned) {
            holes(&params(sig))
        } else {
            BTreeSet::new()
        }
    }

    /// Lists a text of the grammar, if it is long enough to be one that a user sees.
    fn list_text(&mut self, expr: &Expr) {
        let text = self.text(expr);
        let words = text.split_whitespace();
        let words = words.filter(|word| word.contains(|char: char| char.is_ascii_alphabetic()));
        if words.count() >= SHORTEST {
            self.list(Message::new("text", text));
        }
    }

    /// The words of an operation or a setting: one for each arm.
    fn list_words(&mut self, block: &Block) {
        let Some(Stmt::Expr(Expr::Match(words), None)) = block.stmts.last() else {
            return;
        };
        for arm in &words.arms {
            let text = self.text(&arm.body);
            if let (Pat::Path(it), false) = (&arm.pat, text == UNSEEN) {
                let name = it.path.segments.last().map(|it| it.ident.to_string());
                self.list(Message::new(
                    format!("words of {{{}}}", name.unwrap_or_default()),
                    text,
                ));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    /// Documentation is a text to the parser.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, it: &'ast syn::ItemImpl) {
        let of = std::mem::replace(&mut self.of, type_name(&it.self_ty));
        visit::visit_item_impl(self, it);
        self.of = of;
    }

    fn visit_item_const(&mut self, it: &'ast syn::ItemConst) {
        self.locals.insert(it.ident.to_string(), (*it.expr).clone());
        visit::visit_item_const(self, it);
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.visit_function(&it.sig, |reader| visit::visit_item_fn(reader, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        if is_test(&it.attrs) {
            return;
        }
        if WORDS.iter().any(|name| it.sig.ident == name) {
            self.list_words(&it.block);
            return;
        }
        self.visit_function(&it.sig, |reader| visit::visit_impl_item_fn(reader, it));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let params = match local.init.as_ref().map(|init| &*init.expr) {
            Some(Expr::Closure(it)) => it.inputs.iter().filter_map(pattern_name).collect(),
            _ => BTreeSet::new(),
        };
        let added: Vec<_> = params.difference(&self.holes).cloned().collect();
        self.holes.extend(params);
        visit::visit_local(self, local);
        for name in &added {
            self.holes.remove(name);
        }
        self.add_local(local);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.package == GRAMMAR && matches!(expr, Expr::Lit(_) | Expr::Macro(_)) {
            return self.list_text(expr);
        }
        // A name alone was listed where it was made.
        match self
            .message(expr)
            .filter(|_| !matches!(expr, Expr::Path(_)))
        {
            Some(message) => {
                self.list(message);
                self.visit_inside(expr);
            }
            None => visit::visit_expr(self, expr),
        }
    }

    fn visit_expr_tuple(&mut self, it: &'ast syn::ExprTuple) {
        let level = it.elems.first().and_then(path_of);
        if let (Some((of, level)), Some(said)) = (level, it.elems.get(1)) {
            let text = self.text(said);
            if of == "Level" && text != UNSEEN {
                self.list(Message::new(level, text));
            }
        }
        visit::visit_expr_tuple(self, it);
    }

    fn visit_macro(&mut self, it: &'ast Macro) {
        let name = it.path.segments.last().map(|it| it.ident.to_string());
        if let Some(level @ ("error" | "warn" | "info")) = name.as_deref() {
            let words = it.tokens.clone().into_iter().map(|it| it.to_string());
            let texts = words.filter_map(|word| syn::parse_str::<LitStr>(&word).ok());
            if let Some(said) = texts.last() {
                let said = self.filled(&said.value());
                self.list(Message::new(format!("log {level}"), said));
            }
        }
        // What is parsed here does not live as long as the file.
        let mut inside = self.copied();
        inside.depth = self.depth;
        if let Ok(args) = it.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            args.iter().for_each(|arg| inside.visit_expr(arg));
        } else if let Ok(statements) = it.parse_body_with(Block::parse_within) {
            statements.iter().for_each(|it| inside.visit_stmt(it));
        } else if let Ok(parts) = it.parse_body_with(selected) {
            parts.iter().for_each(|part| inside.visit_expr(part));
        }
        inside
            .found
            .into_iter()
            .for_each(|message| self.list(message));
    }
}

/// The expressions of `select!`.
fn selected(input: ParseStream<'_>) -> syn::Result<Vec<Expr>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        if input.peek(Ident) && input.peek2(Token![;]) {
            input.parse::<Ident>()?;
            input.parse::<Token![;]>()?;
        }
        if input.parse::<Option<Token![else]>>()?.is_none() {
            Pat::parse_multi(input)?;
            input.parse::<Token![=]>()?;
            found.push(input.parse()?);
            if input.parse::<Option<Token![,]>>()?.is_some() {
                input.parse::<Token![if]>()?;
                input.parse::<Expr>()?;
            }
        }
        input.parse::<Token![=>]>()?;
        found.push(Expr::parse_with_earlier_boundary_rule(input)?);
        input.parse::<Option<Token![,]>>()?;
    }
    Ok(found)
}

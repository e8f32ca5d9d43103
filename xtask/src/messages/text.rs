//! The texts in a file, as far as their form shows them. No types are known here.

use super::forms::Message;
use super::index::{Index, Key, path_of, pattern_name};
use std::collections::{BTreeSet, HashMap};
use syn::punctuated::Punctuated;
use syn::{Block, Expr, ExprPath, Lit, Local, Macro, Stmt, Token};

/// Methods that return their receiver's text as another type.
const CONVERTING: [&str; 6] = [
    "as_str",
    "clone",
    "into",
    "into_owned",
    "to_owned",
    "to_string",
];

/// A part that the sources do not have as a text.
pub(super) const UNSEEN: &str = "…";

/// What is known at a place of a file.
pub(super) struct Reader<'a> {
    pub(super) index: &'a Index,
    pub(super) file: &'a str,
    pub(super) package: &'a str,
    /// The type whose methods are read.
    pub(super) of: String,
    /// The variables of the function, and the parameters of the functions that make messages.
    pub(super) locals: HashMap<String, Expr>,
    pub(super) holes: BTreeSet<String>,
    pub(super) depth: usize,
    pub(super) found: Vec<Message>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(index: &'a Index, file: &'a str, package: &'a str) -> Self {
        Self {
            index,
            file,
            package,
            of: String::new(),
            locals: HashMap::new(),
            holes: BTreeSet::new(),
            depth: 0,
            found: Vec::new(),
        }
    }

    pub(super) fn find<'m, T>(&self, map: &'m HashMap<Key, T>, name: &str) -> Option<&'m T> {
        let is_store = self.package.starts_with("stores/");
        let toolkit = if is_store {
            "stores/common"
        } else {
            self.package
        };
        let mut places = [self.file, self.package, toolkit, "crates/core"].into_iter();
        places.find_map(|place| map.get(&(place.to_owned(), name.to_owned())))
    }

    /// The text of an expression. `UNSEEN` stands for its unknown parts.
    pub(super) fn text(&self, expr: &Expr) -> String {
        let unseen = || UNSEEN.to_owned();
        match expr {
            Expr::Lit(it) => match &it.lit {
                Lit::Str(text) => self.filled(&text.value()),
                _ => unseen(),
            },
            Expr::Reference(it) => self.text(&it.expr),
            Expr::Paren(it) => self.text(&it.expr),
            Expr::Macro(it) => self.macro_text(&it.mac).unwrap_or_else(unseen),
            Expr::MethodCall(it) if CONVERTING.iter().any(|name| it.method == name) => {
                self.text(&it.receiver)
            }
            Expr::Binary(it) if matches!(it.op, syn::BinOp::Add(_)) => {
                self.text(&it.left) + &self.text(&it.right)
            }
            Expr::If(it) => {
                let mut texts = vec![self.block_text(&it.then_branch)];
                texts.extend(it.else_branch.iter().map(|(_, other)| self.text(other)));
                alternatives(texts)
            }
            Expr::Match(it) => {
                alternatives(it.arms.iter().map(|arm| self.text(&arm.body)).collect())
            }
            Expr::Block(it) => self.block_text(&it.block),
            Expr::Path(it) => self.name_text(it).unwrap_or_else(unseen),
            Expr::Call(it) => {
                let Some((_, name)) = path_of(&it.func) else {
                    return unseen();
                };
                if let (Some(first), "from" | "Some" | "Borrowed" | "Owned") =
                    (it.args.first(), &*name)
                {
                    return self.text(first);
                }
                let block = self.index.texts.get(&(self.file.to_owned(), name));
                let reader = self.deeper().map(|reader| Self {
                    locals: HashMap::new(),
                    ..reader
                });
                reader
                    .zip(block)
                    .map_or_else(unseen, |(reader, block)| reader.block_text(block))
            }
            _ => unseen(),
        }
    }

    fn name_text(&self, path: &ExprPath) -> Option<String> {
        let name = path.path.segments.last()?.ident.to_string();
        if self.holes.contains(&name) {
            return Some(format!("{{{name}}}"));
        }
        let local = self.locals.get(&name);
        let value = local.or_else(|| self.find(&self.index.consts, &name))?;
        let mut reader = self.deeper()?;
        reader.locals.remove(&name);
        Some(reader.text(value))
    }

    fn block_text(&self, block: &Block) -> String {
        let Some(Stmt::Expr(value, None)) = block.stmts.last() else {
            return UNSEEN.to_owned();
        };
        self.with_locals(block).text(value)
    }

    /// Another reader with what is known here.
    pub(super) fn copied(&self) -> Self {
        Self {
            of: self.of.clone(),
            locals: self.locals.clone(),
            holes: self.holes.clone(),
            depth: self.depth + 1,
            ..Self::new(self.index, self.file, self.package)
        }
    }

    /// The same, unless it would go on without an end.
    pub(super) fn deeper(&self) -> Option<Self> {
        (self.depth < 8).then(|| self.copied())
    }

    /// This reader after the statements of a block.
    pub(super) fn with_locals(&self, block: &Block) -> Self {
        let mut reader = self.copied();
        for statement in &block.stmts {
            if let Stmt::Local(local) = statement {
                reader.add_local(local);
            }
        }
        reader
    }

    pub(super) fn add_local(&mut self, local: &Local) {
        if let (Some(name), Some(init)) = (pattern_name(&local.pat), &local.init) {
            self.locals.insert(name, (*init.expr).clone());
        }
    }

    /// The template of a macro that formats, with the constants that it names.
    fn macro_text(&self, it: &Macro) -> Option<String> {
        let name = it.path.segments.last()?.ident.to_string();
        let args = it
            .parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)
            .ok()?;
        match &*name {
            "format" | "format_args" => Some(self.text(args.first()?)),
            "concat" => Some(args.iter().map(|arg| self.text(arg)).collect()),
            _ => None,
        }
    }

    /// The text with the constants that it names in braces.
    pub(super) fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for part in text.split('{').skip(1) {
            let name = part.split('}').next().unwrap_or_default();
            let is_const =
                !name.is_empty() && name.chars().all(|it| it.is_ascii_uppercase() || it == '_');
            if let Some(value) = self.find(&self.index.consts, name).filter(|_| is_const) {
                let value = self.text(value);
                if value != UNSEEN {
                    filled = filled.replace(&format!("{{{name}}}"), &value);
                }
            }
        }
        filled
    }
}

/// Texts of which one is used.
fn alternatives(mut texts: Vec<String>) -> String {
    texts.dedup();
    if texts.iter().all(|text| text == UNSEEN) {
        return UNSEEN.to_owned();
    }
    let texts: Vec<_> = texts
        .into_iter()
        .map(|text| {
            if text.is_empty() {
                "(nothing)".to_owned()
            } else {
                text
            }
        })
        .collect();
    texts.join(" / ")
}

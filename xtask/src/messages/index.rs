//! What the files of the product use of each other: constants, and functions that make messages.

use super::Source;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use syn::{
    Attribute, Block, Expr, FnArg, Ident, ImplItem, Item, Macro, Pat, ReturnType, Signature, Type,
};

/// The types that are messages.
pub(super) const TYPES: [&str; 5] = ["Error", "Failure", "Finding", "Told", "Words"];

/// The variants of `ErrorKind`.
pub(super) const KINDS: [&str; 11] = [
    "InvalidInput",
    "Configuration",
    "Unsupported",
    "Unavailable",
    "OutcomeUnknown",
    "Conflict",
    "SlotAhead",
    "NotLocked",
    "Lost",
    "WrongContext",
    "Internal",
];

/// A function that makes a message of its parameters.
pub(super) struct Maker {
    pub(super) file: String,
    pub(super) package: String,
    /// The type that it belongs to.
    pub(super) of: String,
    /// The name of each, and whether it is a text.
    pub(super) params: Vec<(String, bool)>,
    pub(super) body: Option<Expr>,
    pub(super) kind: String,
}

/// A name, in a file or in a package.
pub(super) type Key = (String, String);

/// What the files use of each other.
#[derive(Default)]
pub(super) struct Index {
    pub(super) consts: HashMap<Key, Expr>,
    /// The names of several constants of a package.
    twice: BTreeSet<Key>,
    pub(super) makers: HashMap<Key, Maker>,
    /// The functions that return a text.
    pub(super) texts: HashMap<Key, Block>,
    /// The methods of the types that return them with another part.
    pub(super) passing: BTreeSet<String>,
    /// Modules that are compiled only for tests, as the beginnings of their paths.
    tests: BTreeSet<String>,
}

impl Index {
    pub(super) fn of(parsed: &[(syn::File, Source)]) -> Self {
        let mut index = Self::default();
        for (file, source) in parsed {
            index.add(&file.items, source);
        }
        index
    }

    /// Whether this file is compiled only for tests.
    pub(super) fn is_test(&self, file: &str) -> bool {
        let rest = |test: &String| Some(file.strip_prefix(&**test)?.to_owned());
        let mut rests = self.tests.iter().filter_map(rest);
        rests.any(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    fn add(&mut self, items: &[Item], source: &Source) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Const(it) => self.add_const(source, &it.ident, &it.expr),
                Item::Static(it) => self.add_const(source, &it.ident, &it.expr),
                Item::Fn(it) => self.add_function(source, "", &it.sig, &it.block),
                Item::Impl(it) => {
                    let of = type_name(&it.self_ty);
                    for item in &it.items {
                        match item {
                            ImplItem::Fn(it) => self.add_function(source, &of, &it.sig, &it.block),
                            ImplItem::Const(it) => self.add_const(source, &it.ident, &it.expr),
                            _ => {}
                        }
                    }
                }
                Item::Macro(it) => self.add_made(source, &it.mac),
                Item::Mod(it) => {
                    self.add(it.content.as_ref().map_or(&[], |(_, items)| items), source)
                }
                _ => {}
            }
        }
        for item in items {
            let Item::Mod(it) = item else { continue };
            if is_test(&it.attrs) && it.content.is_none() {
                let path = Path::new(&source.file);
                let stem = path.file_stem().unwrap_or_default();
                let folder = if ["mod", "lib", "main"].iter().any(|name| stem == *name) {
                    path.with_file_name("")
                } else {
                    path.with_extension("")
                };
                let module = folder.join(it.ident.to_string());
                self.tests.insert(module.to_string_lossy().into_owned());
            }
        }
    }

    fn add_const(&mut self, source: &Source, name: &Ident, value: &Expr) {
        let name = name.to_string();
        let of_package = (source.package.clone(), name.clone());
        // Which of two a third file means cannot be seen.
        if self.consts.contains_key(&of_package) {
            self.consts.remove(&of_package);
            self.twice.insert(of_package.clone());
        }
        put(&mut self.consts, source, &name, || value.clone());
        if self.twice.contains(&of_package) {
            self.consts.remove(&of_package);
        }
    }

    fn add_function(&mut self, source: &Source, of: &str, sig: &Signature, block: &Block) {
        let ReturnType::Type(_, returned) = &sig.output else {
            return;
        };
        let name = sig.ident.to_string();
        if is_text(returned) {
            put(&mut self.texts, source, &name, || block.clone());
        }
        let mut returned = type_name(returned);
        if returned == "Self" {
            of.clone_into(&mut returned);
        }
        if !TYPES.contains(&&*returned) {
            return;
        }
        if returned == of && sig.receiver().is_some() {
            self.passing.insert(name);
            return;
        }
        let name = match (TYPES.contains(&of), sig.receiver()) {
            (true, _) => format!("{of}::{name}"),
            (_, Some(_)) => format!(".{name}"),
            _ => name,
        };
        put(&mut self.makers, source, &name, || Maker {
            file: source.file.clone(),
            package: source.package.clone(),
            of: of.to_owned(),
            params: params(sig),
            body: Some(Expr::Block(syn::ExprBlock {
                attrs: Vec::new(),
                label: None,
                block: block.clone(),
            })),
            kind: if returned == "Told" {
                returned.clone()
            } else {
                String::new()
            },
        });
    }

    /// `name = Kind;` in a macro that makes a function of each.
    fn add_made(&mut self, source: &Source, made: &Macro) {
        let words = made.tokens.clone().into_iter().map(|it| it.to_string());
        for part in words.collect::<Vec<_>>().windows(4) {
            let [name, is, kind, end] = part else {
                continue;
            };
            if is == "=" && end == ";" && KINDS.contains(&&**kind) {
                put(&mut self.makers, source, name, || Maker {
                    file: source.file.clone(),
                    package: source.package.clone(),
                    of: String::new(),
                    params: vec![("what".to_owned(), true)],
                    body: None,
                    kind: kind.clone(),
                });
            }
        }
    }
}

/// Adds what has this name in a file, and in its package if none has it yet.
fn put<T>(map: &mut HashMap<Key, T>, source: &Source, name: &str, value: impl Fn() -> T) {
    for place in [&source.file, &source.package] {
        map.entry((place.clone(), name.to_owned()))
            .or_insert_with(&value);
    }
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        _ => &[],
    }
}

pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let is_cfg = it.path().is_ident("cfg");
        is_cfg
            && it
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// The names of the text parameters.
pub(super) fn holes(params: &[(String, bool)]) -> BTreeSet<String> {
    let texts = params.iter().filter(|(_, is_text)| *is_text);
    texts.map(|(name, _)| name.clone()).collect()
}

pub(super) fn params(sig: &Signature) -> Vec<(String, bool)> {
    let params = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(it) => Some((pattern_name(&it.pat).unwrap_or_default(), is_text(&it.ty))),
        FnArg::Receiver(_) => None,
    });
    params.collect()
}

pub(super) fn pattern_name(pattern: &Pat) -> Option<String> {
    match pattern {
        Pat::Ident(it) => Some(it.ident.to_string()),
        Pat::Type(it) => pattern_name(&it.pat),
        _ => None,
    }
}

/// The last name of a type, or of the one inside an `Option`.
pub(super) fn type_name(of: &Type) -> String {
    let Type::Path(it) = of else {
        return String::new();
    };
    let Some(last) = it.path.segments.last() else {
        return String::new();
    };
    match arguments(last).next() {
        Some(inner) if last.ident == "Option" => return type_name(inner),
        _ => {}
    }
    last.ident.to_string()
}

/// Whether a type is a text, or made of one.
fn is_text(of: &Type) -> bool {
    match of {
        Type::Reference(it) => is_text(&it.elem),
        Type::ImplTrait(it) => it.bounds.iter().any(|bound| {
            let syn::TypeParamBound::Trait(it) = bound else {
                return false;
            };
            let last = it.path.segments.last();
            last.is_some_and(|it| it.ident == "Display" || arguments(it).any(is_text))
        }),
        _ => ["str", "String", "Cow"].contains(&&*type_name(of)),
    }
}

/// The types that are arguments of a type or a trait.
fn arguments(of: &syn::PathSegment) -> impl Iterator<Item = &Type> {
    let args = match &of.arguments {
        syn::PathArguments::AngleBracketed(it) => Some(it.args.iter()),
        _ => None,
    };
    args.into_iter().flatten().filter_map(|arg| match arg {
        syn::GenericArgument::Type(it) => Some(it),
        _ => None,
    })
}

/// The last name of a path, and the one before it.
pub(super) fn path_of(expr: &Expr) -> Option<(String, String)> {
    let Expr::Path(it) = expr else {
        return None;
    };
    let mut names = it.path.segments.iter().rev().map(|it| it.ident.to_string());
    let name = names.next()?;
    let of = names.next().filter(|of| of.starts_with(char::is_uppercase));
    Some((of.unwrap_or_default(), name))
}

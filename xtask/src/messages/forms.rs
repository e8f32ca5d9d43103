//! The forms in which messages are made.

use super::index::{KINDS, Maker, TYPES, holes, path_of, pattern_name};
use super::text::{Reader, UNSEEN};
use syn::punctuated::Punctuated;
use syn::{Expr, Stmt, Token};

/// The places of errors that are not ours.
const OTHERS: [&str; 4] = ["io", "syn", "clap", "fmt"];

/// One row of the listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) what: String,
    pub(super) kind: String,
    pub(super) effect: String,
    pub(super) advice: Vec<String>,
    /// Whether it is made here, and not by a function that is listed itself.
    pub(super) is_new: bool,
}

impl Message {
    /// A message that another part of the sources has made.
    fn unseen() -> Self {
        Self {
            what: UNSEEN.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn new(kind: impl Into<String>, what: String) -> Self {
        let kind = kind.into();
        Self {
            what,
            kind,
            is_new: true,
            ..Self::default()
        }
    }

    /// A `Told` has its retry last.
    fn advise(&mut self, step: String) {
        let is_retry = |it: &String| it.starts_with("retry");
        let end = self.advice.len()
            - usize::from(self.kind == "Told" && self.advice.last().is_some_and(is_retry));
        self.advice.insert(end, step);
    }

    /// Whether it is an `Error`.
    pub(super) fn is_error(&self) -> bool {
        KINDS.contains(&&*self.kind)
    }
}

impl<'a> Reader<'a> {
    /// The message that an expression is, if it is one in form.
    pub(super) fn message(&self, expr: &Expr) -> Option<Message> {
        match expr {
            Expr::Paren(it) => self.message(&it.expr),
            Expr::Call(it) => self.called(&it.func, &it.args),
            Expr::Path(it) => {
                let name = it.path.segments.last()?.ident.to_string();
                let local = self.locals.get(&name);
                let value = local.or_else(|| self.find(&self.index.consts, &name))?;
                let mut reader = self.deeper()?;
                reader.locals.remove(&name);
                let message = reader.message(value)?;
                Some(Message {
                    is_new: false,
                    ..message
                })
            }
            Expr::MethodCall(it) => self.method(it),
            _ => None,
        }
    }

    fn method(&self, it: &syn::ExprMethodCall) -> Option<Message> {
        let name = it.method.to_string();
        let receiver = || self.message(&it.receiver);
        let adding = |change: &dyn Fn(&mut Message)| {
            let mut message = receiver().unwrap_or_else(Message::unseen);
            message.is_new = true;
            change(&mut message);
            Some(message)
        };
        match (&*name, it.args.len()) {
            ("advise", 1) => adding(&|message| message.advise(self.advice(&it.args[0]))),
            ("advise_with", 2) => adding(&|message| {
                message.advise(format!(
                    "{} {}",
                    self.text(&it.args[0]),
                    operation(&it.args[1])
                ));
            }),
            ("retry", 0) => adding(&|message| message.advice.push("retry".to_owned())),
            ("retry_later", 0) => adding(&|message| message.advice.push("retry later".to_owned())),
            ("nothing_written", 0) => {
                adding(&|message| "nothing was written".clone_into(&mut message.effect))
            }
            ("may_have_taken_effect", 0) => {
                adding(&|message| "the call may have taken effect".clone_into(&mut message.effect))
            }
            ("error" | "with", 1..) if receiver().is_some_and(|it| it.kind == "Told") => {
                let kind = self.kind(&it.args[0]).unwrap_or_else(|| "Told".to_owned());
                Some(Message {
                    kind,
                    ..receiver()?
                })
            }
            ("warning", 2) if receiver().is_some_and(|it| it.kind == "Told") => {
                let kind = format!("warning of {}", self.text(&it.args[0]));
                Some(Message {
                    kind,
                    ..receiver()?
                })
            }
            ("error" | "notice" | "warning", 1)
                if last_name(&it.receiver).is_some_and(|it| it == "terminal") =>
            {
                Some(Message::new(
                    format!("{name} on the terminal"),
                    self.text(&it.args[0]),
                ))
            }
            (name, _) if name == "into" || self.index.passing.contains(name) => receiver(),
            (name, _) if last_name(&it.receiver).is_some_and(|it| it == "self") => {
                let maker = self
                    .index
                    .makers
                    .get(&(self.file.to_owned(), format!(".{name}")))?;
                Some(self.made(maker, &it.args))
            }
            _ => None,
        }
    }

    fn called(&self, func: &Expr, args: &Punctuated<Expr, Token![,]>) -> Option<Message> {
        let (of, name) = path_of(func)?;
        let of = if of == "Self" { self.of.clone() } else { of };
        let of_check = |level: &str| format!("{level} of {}", self.text(&args[0]));
        match (&*of, &*name, args.len()) {
            ("Error", "new", 2) => {
                if is_in(func, &OTHERS) || is_in(&args[0], &OTHERS) {
                    return None;
                }
                let kind = self.kind(&args[0]).unwrap_or_else(|| UNSEEN.to_owned());
                return Some(Message::new(kind, self.text(&args[1])));
            }
            ("Finding", "ok", 2) => {
                return Some(Message::new(of_check(&name), self.text(&args[1])));
            }
            ("Finding", "warning" | "error", 3) => {
                let mut message = Message::new(of_check(&name), self.text(&args[1]));
                message.advice.push(self.text(&args[2]));
                return Some(message);
            }
            // It has the parts of an error.
            ("Finding", "from_error" | "failed", _) => return None,
            ("Finding", "bare", 3) => {
                let level = path_of(&args[1])
                    .map_or_else(|| UNSEEN.to_owned(), |(_, level)| level.to_lowercase());
                return Some(Message::new(of_check(&level), self.text(&args[2])));
            }
            _ => {}
        }
        if let (true, Some(Expr::Closure(closure))) = (of.is_empty(), self.locals.get(&name)) {
            let params = closure
                .inputs
                .iter()
                .filter_map(|it| Some((pattern_name(it)?, true)));
            let params: Vec<_> = params.collect();
            let mut reader = self.deeper()?;
            reader
                .holes
                .extend(params.iter().map(|(name, _)| name.clone()));
            let own = reader.result(&closure.body)?;
            return Some(self.with_arguments(&params, Some(own), "", args));
        }
        let name = if TYPES.contains(&&*of) {
            format!("{of}::{name}")
        } else {
            name
        };
        let maker = match is_in(func, &["shedlock_store"]) {
            true => self.index.makers.get(&("stores/common".to_owned(), name))?,
            false => self.find(&self.index.makers, &name)?,
        };
        Some(self.made(maker, args))
    }

    /// The message of a function that is called.
    fn made(&self, maker: &'a Maker, args: &Punctuated<Expr, Token![,]>) -> Message {
        let own = self.deeper().and_then(|mut reader| {
            (reader.file, reader.package) = (&maker.file, &maker.package);
            reader.locals.clear();
            reader.of.clone_from(&maker.of);
            reader.holes = holes(&maker.params);
            reader.result(maker.body.as_ref()?)
        });
        self.with_arguments(&maker.params, own, &maker.kind, args)
    }

    /// Puts the arguments of a call into the message that the function makes of them.
    fn with_arguments(
        &self,
        params: &[(String, bool)],
        own: Option<Message>,
        kind: &str,
        args: &Punctuated<Expr, Token![,]>,
    ) -> Message {
        let is_seen = own.is_some();
        let mut message = own.unwrap_or_else(|| Message::new(kind, String::new()));
        message.is_new = false;
        for ((name, is_text), arg) in params.iter().zip(args) {
            let text = if *is_text {
                self.text(arg)
            } else {
                UNSEEN.to_owned()
            };
            if text == UNSEEN && ["", UNSEEN].contains(&&*message.kind) {
                message.kind = self.kind(arg).unwrap_or_default();
            }
            if !is_text {
                continue;
            }
            if !is_seen {
                message.is_new = true;
                if ["", UNSEEN].contains(&&*message.what) {
                    message.what = text;
                }
                continue;
            }
            let hole = format!("{{{name}}}");
            for part in message.advice.iter_mut().chain([&mut message.what]) {
                if part.contains(&hole) {
                    message.is_new = true;
                    *part = part.replace(&hole, &text);
                }
            }
        }
        if message.what.is_empty() {
            UNSEEN.clone_into(&mut message.what);
        }
        if message.kind.is_empty() {
            UNSEEN.clone_into(&mut message.kind);
        }
        message
    }

    /// The message that a function returns.
    fn result(&self, body: &Expr) -> Option<Message> {
        match body {
            Expr::Block(it) => match it.block.stmts.last()? {
                Stmt::Expr(value, None) => self.with_locals(&it.block).result(value),
                _ => None,
            },
            Expr::Call(it) if path_of(&it.func).is_some_and(|(_, name)| name == "Some") => {
                self.result(it.args.first()?)
            }
            value => self.message(value),
        }
    }

    fn kind(&self, expr: &Expr) -> Option<String> {
        let (_, name) = path_of(expr)?;
        let is_const =
            name.len() > 1 && name.chars().all(|it| it.is_ascii_uppercase() || it == '_');
        (is_const || KINDS.contains(&&*name)).then_some(name)
    }

    fn advice(&self, expr: &Expr) -> String {
        match expr {
            Expr::Tuple(it) if it.elems.len() == 2 => {
                format!("{} {}", self.text(&it.elems[0]), operation(&it.elems[1]))
            }
            Expr::Call(it) if path_of(&it.func).is_some_and(|(of, _)| of == "Advice") => {
                let parts = it.args.iter().map(|arg| match self.text(arg) {
                    text if text == UNSEEN => operation(arg),
                    text => text,
                });
                parts.collect::<Vec<_>>().join(" ")
            }
            Expr::Path(_) if path_of(expr).is_some_and(|(of, _)| of == "Advice") => {
                let (_, name) = path_of(expr).unwrap_or_default();
                if name == "Retry" {
                    "retry".to_owned()
                } else {
                    "retry later".to_owned()
                }
            }
            _ => self.text(expr),
        }
    }
}

/// Whether one of these names is in a path.
fn is_in(expr: &Expr, names: &[&str]) -> bool {
    let Expr::Path(it) = expr else {
        return false;
    };
    let mut segments = it.path.segments.iter();
    segments.any(|it| names.iter().any(|name| it.ident == name))
}

/// The name of a variable, or of a field.
fn last_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(it) => it.path.get_ident().map(ToString::to_string),
        Expr::Field(it) => match &it.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        Expr::Reference(it) => last_name(&it.expr),
        _ => None,
    }
}

fn operation(expr: &Expr) -> String {
    path_of(expr).map_or_else(|| UNSEEN.to_owned(), |(_, name)| format!("{{{name}}}"))
}

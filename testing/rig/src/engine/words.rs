//! Placeholders in the texts of definitions.

use std::fmt::Display;

/// What replaces placeholders: several arguments for one that stands alone.
#[derive(Clone, Default)]
pub(crate) struct Words(Vec<(String, Vec<String>)>);

impl Words {
    /// `{name}` is this word from now on. An empty one counts as none.
    pub(crate) fn set(&mut self, name: &str, word: impl Display) {
        self.set_all(name, vec![word.to_string()]);
    }

    /// `{name}` is these words from now on.
    pub(crate) fn set_all(&mut self, name: &str, mut words: Vec<String>) {
        words.retain(|word| !word.is_empty());
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), words));
    }

    /// The arguments without placeholders. One whose placeholder has no value is left out.
    pub(crate) fn arguments(&self, templates: &[&str]) -> Vec<String> {
        templates
            .iter()
            .flat_map(|template| match self.alone(template) {
                Some(words) => words.to_vec(),
                None => self.text(template).into_iter().collect(),
            })
            .collect()
    }

    /// The text without placeholders, or `None` if one has no value.
    pub(crate) fn text(&self, template: &str) -> Option<String> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, name, after)) = placeholder(rest) {
            text += before;
            text += self.get(name).first()?;
            rest = after;
        }
        Some(text + rest)
    }

    /// The values of a placeholder that is the whole argument.
    fn alone(&self, template: &str) -> Option<&[String]> {
        match placeholder(template)? {
            ("", name, "") => Some(self.get(name)),
            _ => None,
        }
    }

    fn get(&self, name: &str) -> &[String] {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(&[], |(_, words)| words)
    }
}

/// The text before the first placeholder, its name, and the text after it. JSON has braces too, but no bare word
/// between them.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in text.match_indices('{') {
        let (name, after) = text[at + 1..].split_once('}')?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !name.is_empty() && name.chars().all(is_name) {
            return Some((&text[..at], name, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_or_leave_their_argument_out() {
        let mut words = Words::default();
        words.set("port", 5);
        words.set("zone", "");
        words.set_all("program", vec!["ld".to_owned(), "d b".to_owned()]);
        let templates = [
            "{program}",
            "-p",
            "{port}",
            "--at=:{port}!",
            "{zone}",
            "--root={root}/x",
        ];
        assert_eq!(
            words.arguments(&templates),
            ["ld", "d b", "-p", "5", "--at=:5!"]
        );
        let json = "{\"a\": {\"b\": {port}}, \"c\": {}}";
        assert_eq!(words.text(json).unwrap(), "{\"a\": {\"b\": 5}, \"c\": {}}");
        assert_eq!(words.text("{other}"), None);
    }
}

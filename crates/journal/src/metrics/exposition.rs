//! Prometheus's text format, as far as these metrics need it: version 0.0.4, which node_exporter's
//! textfile collector reads too. The client crates write OpenMetrics, which it does not read.

use std::fmt::Write as _;

/// A text in the making.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// What a metric does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Gauge,
    Counter,
}

/// A value, and the labels that distinguish it.
pub(super) type Sample<'a> = (Vec<(&'static str, &'a str)>, f64);

impl Exposition {
    /// Adds a metric with its values. A metric without values is left out.
    pub(super) fn add<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = Sample<'a>>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        for (labels, value) in samples {
            let labels: Vec<_> = labels
                .iter()
                .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
                .collect();
            match labels.is_empty() {
                true => self.line(format_args!("{name} {value}")),
                false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
            }
        }
    }

    /// Adds a comment.
    pub(super) fn comment(&mut self, text: &str) {
        for line in text.lines() {
            self.line(format_args!("# {line}"));
        }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// The value of a label between quotes. Every other character may be in one.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_stay_distinct() {
        let mut text = Exposition::default();
        let jobs = ["a", r#"\"#, r#"""#, "\n", r"\n", "ü{x}"];
        let samples = jobs.iter().map(|job| (vec![("job", *job)], 1.5));
        text.add("x", Kind::Gauge, "An x.", samples);
        text.add("y_total", Kind::Counter, "A y.", [(Vec::new(), 2.0)]);
        text.add("z", Kind::Gauge, "None.", []);
        text.comment("two\nlines");
        assert_eq!(
            text.into_text(),
            "# HELP x An x.\n# TYPE x gauge\nx{job=\"a\"} 1.5\nx{job=\"\\\\\"} 1.5\n\
             x{job=\"\\\"\"} 1.5\nx{job=\"\\n\"} 1.5\nx{job=\"\\\\n\"} 1.5\nx{job=\"ü{x}\"} 1.5\n\
             # HELP y_total A y.\n# TYPE y_total counter\ny_total 2\n# two\n# lines\n"
        );
    }
}

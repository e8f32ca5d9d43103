//! The findings of `doctor` for people.

use shedlock::{Finding, Level};

use super::visible;
use shedlock_support::redact;

/// One line per check, what to do below it, and a summary.
pub(super) fn table(findings: &[Finding]) -> String {
    let widest = findings.iter().map(|finding| finding.check.len()).max();
    let width = widest.unwrap_or_default();
    let mut text = String::new();
    for Finding {
        check,
        level,
        message,
        remedy,
        ..
    } in findings
    {
        let message = redact(message);
        text.push_str(&format!(
            "{level:<7}  {check:<width$}  {}\n",
            visible(&message)
        ));
        if let Some(remedy) = remedy.as_deref().map(redact) {
            text.push_str(&format!(
                "         {:<width$}  -> {}\n",
                "",
                visible(&remedy)
            ));
        }
    }
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    text.push_str(&format!(
        "{}: {} ok, {}, {}\n",
        counted(findings.len(), "check"),
        count(Level::Ok),
        counted(count(Level::Warning), "warning"),
        counted(count(Level::Error), "error"),
    ));
    text
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_cannot_forge_another_line() {
        let findings = [
            Finding::ok("clock", "well"),
            Finding::error("names", "\"a\nok b\u{202e}\"", "look"),
        ];
        assert_eq!(
            table(&findings),
            "ok       clock  well\n\
             error    names  \"a\\nok b\\u{202e}\"\n\
             \u{20}               -> look\n\
             2 checks: 1 ok, 0 warnings, 1 error\n"
        );
    }
}

//! The table in `docs/interop.md`, generated from the results of the tests.

use std::fmt::Write as _;

use crate::Fleets;

/// The result of one case on one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// It holds.
    Holds,
    /// It does not hold because of a fault of ShedLock, given by its number in `docs/interop.md`.
    Fault(u8),
    /// ShedLock does not support it there and reports so; given by its number in `docs/interop.md`.
    Lacks(u8),
    /// It is not tried there: the setting exists only to show a fault.
    NotTried,
}

impl Cell {
    fn text(self) -> String {
        match self {
            Self::Holds => "yes".to_owned(),
            Self::Fault(number) => format!("**no** ({number})"),
            Self::Lacks(number) => format!("– ({number})"),
            Self::NotTried => "–".to_owned(),
        }
    }
}

/// The tables of the document: the settings, and the result of each case with each of them.
pub fn table(cases: &[(&str, [Cell; Fleets::ALL.len()])]) -> String {
    let mut text = String::from("| | store | Java | Rust |\n|---|---|---|---|\n");
    let letters = || Fleets::ALL.iter().zip('A'..);
    for (fleet, letter) in letters() {
        let [store, theirs, ours] = fleet.told();
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {letter} | {store} | {theirs} | {ours} |");
    }
    let heads: String = letters()
        .map(|(_, letter)| format!(" {letter} |"))
        .collect();
    let _ = writeln!(
        text,
        "\n| |{heads}\n|---|{}",
        "---|".repeat(Fleets::ALL.len())
    );
    for (says, cells) in cases {
        let cells: String = cells
            .iter()
            .map(|cell| format!(" {} |", cell.text()))
            .collect();
        let _ = writeln!(text, "| {says} |{cells}");
    }
    text
}

//! A table that fits a width.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No cell is wider, so that one long name cannot widen every line of a pipe.
const WIDEST: usize = 255;

const GAP: usize = 2;

/// A column, and how it gives way if the table is too wide.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// It is not cut below this width. `None` if it is never cut.
    pub(super) at_least: Option<usize>,
    /// It is left out if cutting is not enough, the columns with the highest number first.
    pub(super) leaves: u8,
}

/// The lines of a table: two blanks between columns, none at the end of a line.
pub(super) fn lines<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
    width: Option<usize>,
) -> String {
    let natural: Vec<usize> = (0..N)
        .map(|index| {
            let cells = rows.iter().map(|row| row[index].width());
            cells
                .chain([columns[index].title.width()])
                .max()
                .unwrap_or(0)
                .min(WIDEST)
        })
        .collect();
    let widths = fit(columns, &natural, width.unwrap_or(usize::MAX));
    let titles = columns
        .iter()
        .map(|column| column.title)
        .collect::<Vec<_>>();
    let rows = rows
        .iter()
        .map(|row| row.iter().map(String::as_str).collect());
    let mut text = String::new();
    for row in std::iter::once(titles).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.into_iter().zip(&widths) {
            let Some(width) = *width else { continue };
            let cell = cut(cell, width);
            let blanks = (width + GAP).saturating_sub(cell.width());
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', blanks));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The width of each column, `None` if it is left out.
fn fit(columns: &[Column], natural: &[usize], width: usize) -> Vec<Option<usize>> {
    let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
    let excess = |widths: &[Option<usize>]| {
        let all = widths
            .iter()
            .flatten()
            .map(|width| width + GAP)
            .sum::<usize>();
        all.saturating_sub(GAP).saturating_sub(width)
    };
    loop {
        // The widest first, so that one long name cuts nothing else.
        while excess(&widths) > 0 {
            let cuttable = widths
                .iter_mut()
                .zip(columns)
                .filter_map(|(width, column)| {
                    let (width, at_least) = (width.as_mut()?, column.at_least?);
                    (*width > at_least).then_some(width)
                });
            let Some(widest) = cuttable.max() else { break };
            *widest -= 1;
        }
        let shown = columns.iter().enumerate();
        let leaving = shown
            .filter(|(index, column)| column.leaves > 0 && widths[*index].is_some())
            .max_by_key(|(_, column)| column.leaves);
        match leaving {
            Some((leaving, _)) if excess(&widths) > 0 => {
                // What it leaves may be enough for the others uncut.
                for (index, width) in widths.iter_mut().enumerate() {
                    *width = width.map(|_| natural[index]).filter(|_| index != leaving);
                }
            }
            _ => return widths,
        }
    }
}

/// The text in at most this many columns, with an ellipsis in place of the rest.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut left = width.saturating_sub(1);
    let kept = text.chars().take_while(|char| {
        let width = char.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    });
    Cow::Owned(kept.chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_is_never_wider_than_its_column() {
        for (text, width, shown) in [
            ("payroll", 7, "payroll"),
            ("payroll", 6, "payro…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ] {
            assert_eq!(cut(text, width), shown);
        }
    }
}

//! Tables: their columns are straight, however wide the values in them are.

use unicode_width::UnicodeWidthStr as _;

use crate::pattern::GAP;

/// Whether cells that begin in one column of the page begin in one column of the screen, in lines that follow each other.
/// A line without cells ends a table.
pub(crate) fn check(lines: &[Vec<(usize, usize)>]) -> Result<(), String> {
    let mut table: Vec<(usize, usize)> = Vec::new();
    for cells in lines {
        if cells.is_empty() {
            table.clear();
        }
        for (page, screen) in cells {
            let differs = |(other, at): &&(usize, usize)| (other == page) != (at == screen);
            if let Some((other, at)) = table.iter().find(differs) {
                return Err(format!(
                    "cells begin in columns {at} and {screen}, where the page has {other} and {page}"
                ));
            }
            table.push((*page, *screen));
        }
    }
    Ok(())
}

/// The lines of a page in columns that are as wide as they need to be, as those of this screen are straight.
pub(crate) fn straightened(page: &[String], screen: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < page.len() {
        let is_row = |index: &usize| cells(&screen[*index]).len() > 1;
        let rows = (at..page.len()).take_while(is_row).count();
        match rows {
            0 => lines.push(page[at].clone()),
            _ => lines.extend(table(&page[at..at + rows], &screen[at..at + rows])),
        }
        at += rows.max(1);
    }
    lines
}

fn table(page: &[String], screen: &[String]) -> Vec<String> {
    let rows: Vec<Vec<(usize, &str)>> = page
        .iter()
        .zip(screen)
        .map(|(page, screen)| {
            let starts = cells(screen).into_iter().map(|(start, _)| start);
            starts
                .zip(cells(page).into_iter().map(|(_, cell)| cell))
                .collect()
        })
        .collect();
    let mut starts: Vec<usize> = rows.iter().flatten().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    // Where each column of the screen begins in the page.
    let mut columns: Vec<(usize, usize)> = Vec::new();
    for start in starts {
        let ends = rows.iter().filter_map(|row| {
            let index = row.iter().position(|(at, _)| *at == start)?;
            let Some((before, cell)) = index.checked_sub(1).map(|index| row[index]) else {
                return Some(start);
            };
            Some(column(&columns, before) + cell.width() + GAP.len())
        });
        let begin = ends.max().unwrap_or(start);
        columns.push((start, begin));
    }
    rows.iter().map(|row| line(row, &columns)).collect()
}

fn column(columns: &[(usize, usize)], start: usize) -> usize {
    let known = columns.iter().find(|(other, _)| *other == start);
    known.map_or(start, |(_, begin)| *begin)
}

fn line(row: &[(usize, &str)], columns: &[(usize, usize)]) -> String {
    let mut line = String::new();
    for (start, cell) in row {
        let blanks = column(columns, *start).saturating_sub(line.width());
        line.extend(std::iter::repeat_n(' ', blanks));
        line.push_str(cell);
    }
    line
}

/// The cells of a line, and the columns in which they begin.
fn cells(line: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut at = line.len() - line.trim_start_matches(' ').len();
    while at < line.len() {
        let end = line[at..].find(GAP).map_or(line.len(), |end| at + end);
        cells.push((line[..at].width(), &line[at..end]));
        at = end + line[end..].len() - line[end..].trim_start_matches(' ').len();
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::{check, straightened};

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn columns_are_as_wide_as_the_page_needs() {
        let screen = lines(&[
            "a table:",
            "NAME  OWNER                     AGE",
            "a     vm/2241/d0917de04ff626e6  0s",
            "",
            "  -> advice",
        ]);
        let page = lines(&[
            "a table:",
            "NAME  OWNER                     AGE",
            "a     {owner:a}  {duration}",
            "",
            "  -> advice",
        ]);
        let expected = lines(&[
            "a table:",
            "NAME  OWNER      AGE",
            "a     {owner:a}  {duration}",
            "",
            "  -> advice",
        ]);
        assert_eq!(straightened(&page, &screen), expected);
    }

    #[test]
    fn a_column_that_is_not_straight_is_found() {
        check(&[vec![(6, 6), (17, 32)], vec![(6, 6), (17, 32)]]).unwrap();
        check(&[vec![(6, 6), (17, 32)], vec![(6, 6), (17, 31)]]).unwrap_err();
        check(&[vec![(6, 6)], vec![(7, 6)]]).unwrap_err();
        check(&[vec![(6, 6)], vec![], vec![(6, 9)]]).unwrap();
    }
}

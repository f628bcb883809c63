//! Tables that fit the terminal.

use console::{Style, measure_text_width, pad_str, truncate_str};
use samekey::Phase;

/// A column: its head, and how much of the width that is short it gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// The least width, for a column that may be cut; others are shown whole.
    pub(crate) least: Option<usize>,
}

/// The lines of a table no wider than `width`.
pub(crate) fn lines(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let cells = rows.iter().filter_map(|row| row.get(i));
            let widest = cells.map(|cell| measure_text_width(cell)).max();
            widest.unwrap_or(0).max(column.head.len())
        })
        .collect();
    let gaps = 2 * columns.len().saturating_sub(1);
    let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    // The widest of those that may be cut gives first.
    while over > 0 {
        let cuttable = (0..columns.len()).filter(|i| {
            let least = columns[*i].least;
            least.is_some_and(|least| widths[*i] > least)
        });
        let Some(widest) = cuttable.max_by_key(|i| widths[*i]) else {
            break;
        };
        widths[widest] -= 1;
        over -= 1;
    }
    let heads: Vec<String> = columns.iter().map(|c| c.head.to_owned()).collect();
    let head = Style::new()
        .dim()
        .apply_to(line(&heads, &widths))
        .to_string();
    let body = rows.iter().map(|row| line(row, &widths));
    std::iter::once(head).chain(body).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, width)| {
        let cell = truncate_str(cell, *width, "…");
        pad_str(&cell, *width, console::Alignment::Left, None).into_owned()
    });
    let line = cells.collect::<Vec<_>>().join("  ");
    line.trim_end().to_owned()
}

/// A phase in its colour.
pub(crate) fn phase(phase: Phase) -> String {
    let style = match phase {
        Phase::Succeeded => Style::new().green(),
        Phase::Rejected | Phase::Abandoned => Style::new().dim(),
        Phase::Attention(_) => Style::new().red().bold(),
        _ => Style::new().yellow(),
    };
    style.apply_to(phase.name()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_and_cuts_the_widest_column_first() {
        let columns = [
            Column {
                head: "REFERENCE",
                least: None,
            },
            Column {
                head: "INTENT",
                least: Some(6),
            },
            Column {
                head: "REQUEST",
                least: Some(6),
            },
        ];
        let row = [
            "7D3F-92AB-1C4E-7",
            "invoice/42",
            "POST https://a.example/a-long-path",
        ];
        let row = row.map(str::to_owned).to_vec();
        for width in [40, 50, 80] {
            let lines = lines(&columns, std::slice::from_ref(&row), width);
            assert!(
                lines.iter().all(|l| measure_text_width(l) <= width),
                "{lines:?}"
            );
            assert!(
                lines[1].starts_with("7D3F-92AB-1C4E-7  invoice/42"),
                "{lines:?}"
            );
        }
    }
}

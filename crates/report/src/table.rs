//! Tables of plain text.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Row};

/// A table with a line of headings: columns two spaces apart, without frame or colour, never folded, so that it reads the
/// same on a terminal, in a file and for `awk`.
#[derive(Debug, Clone)]
pub struct Table {
    inner: comfy_table::Table,
}

impl Table {
    /// A table with these columns and no rows, everything aligned left.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(comfy_table::presets::NOTHING).force_no_tty();
        inner.set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(Row::from(headings.to_vec()));
        for column in inner.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { inner }
    }

    /// Aligns a column, by index, to the right, as numbers are.
    pub fn right(&mut self, column: usize) -> &mut Self {
        if let Some(column) = self.inner.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self
    }

    /// Adds a row.
    pub fn row<I>(&mut self, cells: I) -> &mut Self
    where
        I: IntoIterator,
        I::Item: fmt::Display,
    {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.to_string()).collect();
        self.inner.add_row(cells);
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.inner.lines().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_do_not_trail() {
        let mut table = Table::new(&["kernel", "gen MB/s", "note"]);
        table.right(1).row(["sse2x1", "11441", ""]).row(["avx2x4", "29847", "fastest"]);
        let expected = "kernel  gen MB/s  note\n\
                        sse2x1     11441\n\
                        avx2x4     29847  fastest";
        assert_eq!(table.to_string(), expected);
    }
}

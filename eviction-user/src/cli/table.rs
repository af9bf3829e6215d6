//! Tables that fit a screen.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use std::io::{self, Write};

/// Wide enough for a ranking, and what a terminal beside an editor still shows.
const WIDTH: u16 = 100;
/// The first column names things, and names should not be broken while others have room.
const NAME_WIDTH: u16 = 42;

pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let longest = table.column_max_content_widths().first().copied();
    if let (Some(longest), Some(names)) = (longest, table.column_mut(0)) {
        let width = Width::Fixed(longest.min(NAME_WIDTH) + 2);
        names.set_constraint(ColumnConstraint::LowerBoundary(width));
    }
    table.trim_fmt()
}

/// Prints a whole answer. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print(text: &str) {
    let mut out = io::stdout();
    let _ = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_screen_and_nothing_is_lost() {
        let words = ["uses less above its request"; 3].join(", ");
        let row = vec![
            "a-long-workload-name.service".to_owned(),
            "12".into(),
            words,
        ];
        let text = table(&["name", "number", "why"], [row.clone(), row]);
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= usize::from(WIDTH)),
            "{text}"
        );
        assert!(text.contains("a-long-workload-name.service"), "{text}");
        assert_eq!(text.matches("request").count(), 6, "{text}");
    }
}

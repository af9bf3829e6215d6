//! Two lists side by side.

/// Of the left column; a longer entry takes the room that it needs.
const WIDTH: usize = 36;
const NOTHING: &str = "-";

/// One line for each pair; an empty side shows that nothing was done.
pub(super) fn lines(left: &[String], right: &[String]) -> Vec<String> {
    let count = left.len().max(right.len()).max(1);
    let cell = |side: &[String], line: usize| -> String {
        let missing = if line == 0 { NOTHING } else { "" };
        side.get(line).map_or(missing, String::as_str).to_owned()
    };
    (0..count)
        .map(|line| {
            let row = format!("{:<WIDTH$}  {}", cell(left, line), cell(right, line));
            row.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn the_shorter_side_is_filled_and_an_empty_one_is_marked() {
        let left = ["evict hog".to_owned(), "MemoryPressure".to_owned()];
        let both = lines(&left, &["evict web".to_owned()]);
        assert_eq!(both[0], format!("{:<36}  evict web", "evict hog"));
        assert_eq!(both[1], "MemoryPressure");
        assert_eq!(lines(&left[..1], &[])[0], format!("{:<36}  -", "evict hog"));
    }
}

//! What the encoder leaves to its caller.

/// A text that is not ours as a label's value: the encoder writes values as they are, and a quote or a line break in one
/// would spoil the whole answer.
pub(super) fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_backslashes_and_line_breaks_are_escaped() {
        assert_eq!(escaped("a \"b\"\\c\nd"), r#"a \"b\"\\c\nd"#);
        assert_eq!(escaped("plain, {x}"), "plain, {x}");
    }
}

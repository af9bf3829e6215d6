//! Quoting of texts in error messages, as two of Go's packages do it.

use std::fmt::Write as _;

/// As package `time` quotes: everything outside printable ASCII becomes bytes in hexadecimal.
pub(crate) fn quote_as_time(text: &str) -> String {
    quote(text, |quoted, c| {
        if c.is_ascii() && c >= ' ' {
            quoted.push(c);
            return;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            push_hex(quoted, byte);
        }
    })
}

/// As package `strconv` quotes: printable text of any script stays, the rest is escaped.
pub(crate) fn quote_as_strconv(text: &str) -> String {
    quote(text, |quoted, c| match c {
        '\x07' => quoted.push_str("\\a"),
        '\x08' => quoted.push_str("\\b"),
        '\x0c' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\x0b' => quoted.push_str("\\v"),
        ' '..='~' => quoted.push(c),
        '\0'..='\x7f' => push_hex(quoted, c as u8),
        c if c.escape_debug().len() == 1 => quoted.push(c),
        c if u32::from(c) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
    })
}

fn quote(text: &str, push_plain: impl Fn(&mut String, char)) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if c == '"' || c == '\\' {
            quoted.push('\\');
            quoted.push(c);
        } else {
            push_plain(&mut quoted, c);
        }
    }
    quoted.push('"');
    quoted
}

fn push_hex(quoted: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(quoted, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_time_escapes_all_but_ascii() {
        assert_eq!(quote_as_time("1\u{e9}\n\"\\"), r#""1\xc3\xa9\x0a\"\\""#);
    }

    #[test]
    fn package_strconv_keeps_printable_text() {
        assert_eq!(
            quote_as_strconv("\u{e9}\n\x01\u{200b}"),
            "\"\u{e9}\\n\\x01\\u200b\""
        );
        assert_eq!(quote_as_strconv("\"\\"), r#""\"\\""#);
    }
}

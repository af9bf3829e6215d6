//! Lines of a file that another process is still writing.

use std::fs::File;
use std::io::Read;
use std::path::Path;

#[derive(Debug)]
pub(super) struct Tail {
    file: File,
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            rest: Vec::new(),
        })
    }

    /// The complete lines that came since the last call; with `last` also one without an end.
    pub(super) fn lines(&mut self, last: bool) -> std::io::Result<Vec<String>> {
        self.file.read_to_end(&mut self.rest)?;
        let end = if last {
            self.rest.len()
        } else {
            self.rest
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1)
        };
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        Ok(String::from_utf8_lossy(&whole)
            .lines()
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_is_given_when_it_is_whole_and_the_last_one_at_the_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut tail = Tail::open(file.path()).unwrap();
        file.write_all(b"one\r\ntw").unwrap();
        assert_eq!(tail.lines(false).unwrap(), ["one"]);
        file.write_all(b"o\nthree").unwrap();
        assert_eq!(tail.lines(false).unwrap(), ["two"]);
        assert_eq!(tail.lines(true).unwrap(), ["three"]);
    }
}

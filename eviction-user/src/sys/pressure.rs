//! Pressure stall information (PSI, `Documentation/accounting/psi.rst`).

use super::reader::{ReadError, Reader};
use procfs::{FromRead, MemoryPressure};
use std::path::Path;

/// The node's memory stall: how much of the time some task waited for memory.
#[derive(Debug)]
pub struct MemoryStall(Reader);

impl MemoryStall {
    /// Also reads once: where PSI is compiled in but off, the file is there and cannot be read
    /// (EOPNOTSUPP, user case 72).
    pub fn open() -> Result<Self, ReadError> {
        Self::open_at("/proc/pressure/memory".as_ref())
    }

    fn open_at(path: &Path) -> Result<Self, ReadError> {
        let stall = Self(Reader::open(path)?);
        stall.some_percent()?;
        Ok(stall)
    }

    /// `some avg10`: percent of the last ten seconds.
    pub fn some_percent(&self) -> Result<f32, ReadError> {
        self.0.read("is no pressure stall information", |content| {
            let pressure = MemoryPressure::from_read(content).ok()?;
            Some(pressure.some.avg10)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_last_ten_seconds_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let recorded = "some avg10=12.34 avg60=0.50 avg300=0.00 total=19950995\n\
                        full avg10=1.00 avg60=0.00 avg300=0.00 total=8943000\n";
        std::fs::write(&path, recorded).unwrap();
        let stall = MemoryStall::open_at(&path).unwrap();
        assert_eq!(stall.some_percent().unwrap(), 12.34);
    }

    #[test]
    fn case_72_a_file_that_is_there_but_has_nothing_to_say_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        std::fs::write(&path, "").unwrap();
        let error = MemoryStall::open_at(&path).unwrap_err().to_string();
        assert!(
            error.contains("is no pressure stall information"),
            "{error}"
        );
    }
}

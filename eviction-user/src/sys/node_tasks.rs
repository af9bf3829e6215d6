//! How many tasks the node has and may have, as the kubelet sees it for `pid.available`. Threads count: the running ones
//! are all that exist, the limit is on their ids.

use super::clock;
use super::reader::{ReadError, Reader};
use crate::model::Rlimit;
use std::path::Path;

#[derive(Debug)]
pub struct NodeTasksReader {
    pid_max: Reader,
    threads_max: Reader,
    loadavg: Reader,
}

impl NodeTasksReader {
    pub fn open() -> Result<Self, ReadError> {
        Self::open_in("/proc".as_ref())
    }

    fn open_in(proc: &Path) -> Result<Self, ReadError> {
        let file = |name| Reader::open(&proc.join(name));
        Ok(Self {
            pid_max: file("sys/kernel/pid_max")?,
            threads_max: file("sys/kernel/threads-max")?,
            loadavg: file("loadavg")?,
        })
    }

    /// The time is the moment of reading: the kubelet takes this figure for new at every look.
    pub fn read(&self) -> Result<Rlimit, ReadError> {
        let limit = |reader: &Reader| reader.read("expected one number", number);
        let running = self
            .loadavg
            .read("has no running/existing tasks field", existing_tasks)?;
        Ok(Rlimit {
            time: Some(clock::now()),
            max_pid: Some(limit(&self.pid_max)?.min(limit(&self.threads_max)?)),
            running: Some(running),
        })
    }
}

fn number(content: &[u8]) -> Option<i64> {
    std::str::from_utf8(content).ok()?.trim().parse().ok()
}

/// The fourth field of /proc/loadavg is "runnable/existing"; the kubelet takes the second number.
fn existing_tasks(content: &[u8]) -> Option<i64> {
    let field = content.split(|&b| b == b' ').nth(3)?;
    let slash = field.iter().position(|&b| b == b'/')?;
    number(&field[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_smaller_of_two_and_every_existing_task_counts() {
        // Recorded: the guests (1 GiB of memory) and the build machine (24 GiB).
        for (name, max_pid, running) in [
            ("guest-5.10", 7_752, 49),
            ("guest-7.3", 7_617, 64),
            ("host-6.18", 32_768, 120),
        ] {
            let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("fixtures/tasks")
                .join(name);
            let read = NodeTasksReader::open_in(&fixture).unwrap().read().unwrap();
            assert_eq!(
                (read.max_pid, read.running),
                (Some(max_pid), Some(running)),
                "{name}"
            );
            assert!(read.time.is_some());
        }
    }

    #[test]
    fn a_line_without_the_field_is_not_understood() {
        let table: [(&[u8], Option<i64>); 5] = [
            (b"0.00 0.01 0.05 1/94 1234\n", Some(94)),
            (b"0.00 0.01 0.05 94 1234\n", None),
            (b"0.00 0.01 0.05 1/x 1234\n", None),
            (b"0.00 0.01", None),
            (b"", None),
        ];
        for (line, expected) in table {
            assert_eq!(existing_tasks(line), expected, "{line:?}");
        }
    }

    #[test]
    fn this_node_has_tasks_and_a_limit() {
        let read = NodeTasksReader::open().unwrap().read().unwrap();
        assert!(
            read.running.unwrap() > 0 && read.max_pid > read.running,
            "{read:?}"
        );
    }
}

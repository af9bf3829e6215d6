//! What is left without any notification: reading the counter each millisecond, on an ordinary thread.

use super::LISTENING;
use super::listener::Ears;
use crate::bench::BenchError;
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Version, usage_file};
use crate::sys::clock;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(1);

pub(super) fn start(ears: Ears, group: &CgroupDir, version: Version) -> Result<(), BenchError> {
    let memory = GroupMemoryReader::open(group, version)?;
    ears.listen_on_thread(
        move || Ok(usage_file(version)),
        move |line, armed| {
            armed();
            let began = clock::now();
            while clock::elapsed_since(began) < LISTENING {
                std::thread::sleep(PERIOD);
                let at = clock::now();
                if memory.usage()? >= line {
                    return Ok(vec![at]);
                }
            }
            Ok(Vec::new())
        },
    )
}

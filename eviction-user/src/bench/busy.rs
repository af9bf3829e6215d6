//! Load that keeps every CPU busy.

use super::helper::{Helper, Task};
use super::{BenchError, cpus};

/// Enough that each CPU always has another one waiting.
const PER_CPU: usize = 2;

/// Spinning processes; ended when this is dropped.
pub(super) struct Busy {
    _spinning: Vec<Helper>,
}

impl Busy {
    pub(super) fn start() -> Result<Self, BenchError> {
        let cpus = cpus::allowed().map_err(BenchError::system("list the CPUs"))?;
        let spinning = (0..cpus.len() * PER_CPU).map(|_| {
            let mut helper = Helper::start(&[])?;
            helper.tell(&Task::Spin)?;
            Ok(helper)
        });
        Ok(Self {
            _spinning: spinning.collect::<Result<_, BenchError>>()?,
        })
    }
}

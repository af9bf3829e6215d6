//! Memory must not only be low: work must be stalling for it too (requirement 3 of the user cases:
//! stall alone never evicts, and with this guard lowness alone does not either).

use crate::model::{Hold, Resource, Summary};

/// Why a memory eviction is held back, if it is. A stall that could not be read is no stall: who
/// switches the guard on asks for both.
pub fn hold(min_percent: Option<f32>, resource: Resource, summary: &Summary) -> Option<Hold> {
    let required = min_percent?;
    if resource != Resource::Memory {
        return None;
    }
    let stall = summary.memory_stall_percent;
    let is_stalled = stall.is_some_and(|stall| stall >= required);
    (!is_stalled).then_some(Hold::NoStall { required, stall })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(stall: Option<f32>) -> Summary {
        Summary {
            memory_stall_percent: stall,
            ..Summary::default()
        }
    }

    #[test]
    fn holds_memory_evictions_below_the_required_stall_or_without_a_reading() {
        let held = |stall| hold(Some(10.0), Resource::Memory, &summary(stall)).is_some();
        assert!(held(Some(9.9)));
        assert!(held(None));
        assert!(!held(Some(10.0)));
    }

    #[test]
    fn leaves_other_resources_alone_and_is_off_by_default() {
        assert_eq!(hold(Some(10.0), Resource::Pids, &summary(None)), None);
        assert_eq!(hold(None, Resource::Memory, &summary(None)), None);
    }
}

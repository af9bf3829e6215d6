//! Which rung speaks for which signal.

use crate::model::Signal;
use crate::ports::Started;

/// The rungs in use, each with every watched signal of what it sees being used up.
pub(super) fn pairs_in_use(how: &Started, watched: &[Signal]) -> Vec<(&'static str, Signal)> {
    let used = how.ladder.iter().filter(|step| step.is_used());
    used.flat_map(|step| {
        let signals = watched
            .iter()
            .filter(|signal| Some(signal.resource()) == step.resource);
        signals.map(|signal| (step.name, *signal))
    })
    .collect()
}

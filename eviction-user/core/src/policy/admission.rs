//! Whether a node under pressure takes a new pod.

use super::critical::is_critical;
use super::message::POD_REASON;
use super::qos::is_best_effort;
use crate::model::{Condition, Pod, Toleration};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    Admit,
    Reject {
        reason: &'static str,
        message: String,
    },
}

/// Decides on the *reported* conditions, so pods are turned away for the whole transition period.
pub fn admit(pod: &Pod, conditions: &[Condition]) -> Admission {
    if conditions.is_empty() || is_critical(pod) {
        return Admission::Admit;
    }
    // Under memory pressure alone, a pod with a request has a claim; a best-effort one needs to
    // tolerate the taint. Disk and PID pressure turn everyone away, tolerations or not.
    if conditions == [Condition::MemoryPressure]
        && (!is_best_effort(pod) || pod.tolerations.iter().any(tolerates_memory_pressure))
    {
        return Admission::Admit;
    }
    let names: Vec<_> = conditions
        .iter()
        .map(|condition| condition.name())
        .collect();
    Admission::Reject {
        reason: POD_REASON,
        message: format!("The node had condition: [{}]. ", names.join(" ")),
    }
}

const TAINT_KEY: &str = "node.kubernetes.io/memory-pressure";
const TAINT_EFFECT: &str = "NoSchedule";

/// Kubernetes' matching of a toleration with the taint `memory-pressure:NoSchedule`, whose value is
/// empty. Comparison operators are behind a gate that is off in v1.36.
fn tolerates_memory_pressure(toleration: &Toleration) -> bool {
    let matches_or_any = |text: &str, wanted: &str| text.is_empty() || text == wanted;
    matches_or_any(&toleration.effect, TAINT_EFFECT)
        && matches_or_any(&toleration.key, TAINT_KEY)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value.is_empty(),
            "Exists" => true,
            _ => false,
        }
}

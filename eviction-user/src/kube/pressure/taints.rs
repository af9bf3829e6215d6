//! The node's taints are one list, which a merge would replace as a whole: it is changed only as it was read. Pure.

use super::super::names::is_ours;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A JSON patch that leaves of our taints those with `wanted` keys, and all others as they are; `None`: so it is already. Refused
/// (422) if the list is another one by then.
pub(super) fn patch(node: &Value, wanted: &BTreeSet<String>) -> Option<Value> {
    let read = node.pointer("/spec/taints").and_then(Value::as_array);
    let mut taints = read.cloned().unwrap_or_default();
    let key = |taint: &Value| taint["key"].as_str().unwrap_or_default().to_owned();
    taints.retain(|taint| {
        let key = key(taint);
        !is_ours(&key) || wanted.contains(&key)
    });
    let there: BTreeSet<String> = taints.iter().map(key).collect();
    let missing = wanted.difference(&there);
    taints.extend(missing.map(|key| json!({"key": key, "effect": "NoSchedule"})));
    if taints == read.cloned().unwrap_or_default() {
        return None;
    }
    let guard = match read {
        Some(read) => json!({"op": "test", "path": "/spec/taints", "value": read}),
        // What is not there cannot be named.
        None => json!({
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": node.pointer("/metadata/resourceVersion"),
        }),
    };
    let change = if taints.is_empty() {
        json!({"op": "remove", "path": "/spec/taints"})
    } else {
        json!({"op": "add", "path": "/spec/taints", "value": taints})
    };
    Some(json!([guard, change]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    fn node(taints: &Value) -> Value {
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}})
    }

    const MEMORY: &str = "eviction.dev/memory-pressure";

    #[test]
    fn others_taints_stay_as_they_are_whatever_becomes_of_ours() {
        let others = json!([
            {"key": "a", "effect": "NoExecute", "value": "1", "timeAdded": "2026-01-01T00:00:00Z"},
            {"key": "b", "effect": "NoSchedule"},
        ]);
        let mut both = others.clone();
        let ours = json!({"key": MEMORY, "effect": "NoSchedule"});
        both.as_array_mut().unwrap().push(ours);
        let test = |list: &Value| json!({"op": "test", "path": "/spec/taints", "value": list});
        let to = |list: &Value| json!({"op": "add", "path": "/spec/taints", "value": list});
        assert_eq!(
            patch(&node(&others), &wanted(&[MEMORY])),
            Some(json!([test(&others), to(&both)]))
        );
        assert_eq!(
            patch(&node(&both), &wanted(&[])),
            Some(json!([test(&both), to(&others)]))
        );
        assert_eq!(patch(&node(&both), &wanted(&[MEMORY])), None);
        assert_eq!(patch(&node(&others), &wanted(&[])), None);
    }

    #[test]
    fn the_first_and_the_last_taint_of_a_node_are_ours() {
        let bare = json!({"metadata": {"resourceVersion": "7"}, "spec": {}});
        let guard = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let ours = json!([{"key": MEMORY, "effect": "NoSchedule"}]);
        assert_eq!(
            patch(&bare, &wanted(&[MEMORY])),
            Some(json!([guard, {"op": "add", "path": "/spec/taints", "value": ours}]))
        );
        assert_eq!(patch(&bare, &wanted(&[])), None);
        let removed = patch(&node(&ours), &wanted(&[])).unwrap();
        assert_eq!(removed[1], json!({"op": "remove", "path": "/spec/taints"}));
    }
}

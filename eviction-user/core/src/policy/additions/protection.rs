//! Pods that are never chosen: our own, always, and those that the configuration names.

use std::collections::BTreeSet;

use crate::model::{Pod, Protection, Uid};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProtectionRules {
    /// The pod we run in.
    pub own_pod: Option<Uid>,
    pub namespaces: BTreeSet<String>,
    pub labels: BTreeSet<LabelRule>,
}

/// A label by key, or by key and value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LabelRule {
    pub key: String,
    pub value: Option<String>,
}

impl LabelRule {
    fn matches(&self, pod: &Pod) -> bool {
        match (pod.labels.get(&self.key), &self.value) {
            (Some(have), Some(wanted)) => have == wanted,
            (have, None) => have.is_some(),
            (None, Some(_)) => false,
        }
    }
}

impl ProtectionRules {
    /// Why the pod must not be chosen: by what the inventory says of it, else by these rules.
    pub fn of(&self, pod: &Pod) -> Option<Protection> {
        if self.own_pod.as_ref() == Some(&pod.uid) {
            return Some(Protection::OwnPod);
        }
        if let Some(protection) = &pod.protection {
            return Some(protection.clone());
        }
        if self.namespaces.contains(&pod.namespace) {
            return Some(Protection::Configured(format!(
                "namespace {}",
                pod.namespace
            )));
        }
        let rule = self.labels.iter().find(|rule| rule.matches(pod))?;
        Some(Protection::Configured(match &rule.value {
            Some(value) => format!("label {}={value}", rule.key),
            None => format!("label {}", rule.key),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> ProtectionRules {
        let rule = |key: &str, value: Option<&str>| LabelRule {
            key: key.into(),
            value: value.map(str::to_owned),
        };
        ProtectionRules {
            own_pod: Some(Uid::new("me")),
            namespaces: ["kube-system".to_owned()].into(),
            labels: [rule("keep", None), rule("tier", Some("db"))].into(),
        }
    }

    fn pod(uid: &str, namespace: &str, label: (&str, &str)) -> Pod {
        let labels = [(label.0.to_owned(), label.1.to_owned())].into();
        Pod {
            labels,
            ..Pod::new(Uid::new(uid), namespace, uid)
        }
    }

    #[test]
    fn own_pod_namespaces_and_labels_protect_and_say_which() {
        let table = [
            (pod("me", "kube-system", ("", "")), Some("our own pod")),
            (
                pod("a", "kube-system", ("", "")),
                Some("protected by namespace kube-system"),
            ),
            (
                pod("b", "x", ("keep", "anything")),
                Some("protected by label keep"),
            ),
            (
                pod("c", "x", ("tier", "db")),
                Some("protected by label tier=db"),
            ),
            (pod("d", "x", ("tier", "web")), None),
        ];
        for (pod, expected) in table {
            let protection = rules().of(&pod).map(|protection| protection.to_string());
            assert_eq!(protection.as_deref(), expected, "{}", pod.uid);
        }
    }

    #[test]
    fn case_69_an_unmapped_cgroup_is_protected_without_any_rule() {
        let unmapped = Pod {
            protection: Some(Protection::Unmapped),
            ..pod("a", "x", ("", ""))
        };
        assert_eq!(
            ProtectionRules::default().of(&unmapped),
            Some(Protection::Unmapped)
        );
    }
}

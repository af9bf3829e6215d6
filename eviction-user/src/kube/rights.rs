//! What the API server has to allow us. It is asked before anybody is killed: a victim that cannot be put on record is started
//! again by its kubelet, to be killed again, for ever.

use super::cluster::{AfterEviction, ClusterConfig};
use super::pressure::PressureUse;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use std::fmt;

/// One verb on one kind of thing, in all namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: Option<&'static str>,
}

impl Right {
    const fn new(verb: &'static str, resource: &'static str) -> Self {
        Self {
            verb,
            group: "",
            resource,
            subresource: None,
        }
    }

    /// `node`: of all nodes only this one is asked for, so a role may name it (resourceNames).
    fn review(self, node: &str) -> SelfSubjectAccessReview {
        let attributes = ResourceAttributes {
            name: (self.resource == NODES).then(|| node.to_owned()),
            verb: Some(self.verb.to_owned()),
            group: Some(self.group.to_owned()),
            resource: Some(self.resource.to_owned()),
            subresource: self.subresource.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

const NODES: &str = "nodes";

/// Without these nobody is evicted.
pub(super) fn needed(config: &ClusterConfig) -> Vec<Right> {
    let mut needed = vec![
        Right::new("list", "pods"),
        Right::new("watch", "pods"),
        Right::new("list", NODES),
        Right::new("watch", NODES),
        Right {
            subresource: Some("status"),
            ..Right::new("patch", "pods")
        },
    ];
    if config.after == AfterEviction::Delete {
        needed.push(Right::new("delete", "pods"));
    }
    if config.asks {
        needed.push(Right {
            subresource: Some("eviction"),
            ..Right::new("create", "pods")
        });
    }
    needed
}

/// What goes on without its rights, each with what is missing then.
pub(super) fn wished(pressure: PressureUse) -> Vec<(&'static str, Vec<Right>)> {
    let mut wished = vec![("evictions are not told as events", EVENTS.to_vec())];
    if pressure.conditions {
        let status = Right {
            subresource: Some("status"),
            ..Right::new("patch", NODES)
        };
        wished.push(("the node's conditions are not written", vec![status]));
    }
    if pressure.taint {
        let taints = vec![Right::new("get", NODES), Right::new("patch", NODES)];
        wished.push(("the node is not tainted", taints));
    }
    wished
}

const EVENTS: [Right; 2] = [
    Right {
        group: "events.k8s.io",
        ..Right::new("create", "events")
    },
    Right {
        group: "events.k8s.io",
        ..Right::new("patch", "events")
    },
];

/// Those of `rights` that we do not have.
pub(super) async fn lacking(
    client: &Client,
    node: &str,
    rights: &[Right],
) -> Result<Vec<Right>, Error> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut lacking = Vec::new();
    for right in rights {
        let answer = api
            .create(&PostParams::default(), &right.review(node))
            .await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            lacking.push(*right);
        }
    }
    Ok(lacking)
}

/// For people: what is missing, and where it is written down.
pub(super) fn told(lacking: &[Right]) -> String {
    let names: Vec<_> = lacking.iter().map(ToString::to_string).collect();
    format!(
        "the rights to {} are missing: bind the ClusterRole of rbac.yaml, which comes with the manifests, to this account",
        names.join(" and to ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::cluster::HardPolicy;
    use serde_json::json;

    #[test]
    fn a_right_is_asked_for_and_named_as_in_rbac() {
        let config = ClusterConfig {
            node: "n".into(),
            kubeconfig: None,
            evicts: true,
            honors_annotations: false,
            after: AfterEviction::Delete,
            pressure: PressureUse::default(),
            hard: HardPolicy::Kill,
            asks: true,
        };
        let all = needed(&config);
        let [list, _, nodes, _, status, delete, evict] = all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(evict.to_string(), "create pods/eviction");
        let without = ClusterConfig {
            asks: false,
            ..config
        };
        assert!(!needed(&without).contains(&evict));
        assert_eq!(delete.to_string(), "delete pods");
        assert_eq!(
            json!(status.review("n").spec.resource_attributes),
            json!({"verb": "patch", "group": "", "resource": "pods", "subresource": "status"})
        );
        assert_eq!(
            json!(nodes.review("n").spec.resource_attributes),
            json!({"verb": "list", "group": "", "resource": "nodes", "name": "n"})
        );
        let names = |pressure| -> Vec<String> {
            let wished = wished(pressure);
            let rights = wished.iter().flat_map(|(_, rights)| rights);
            rights.map(ToString::to_string).collect()
        };
        let events = ["create events.events.k8s.io", "patch events.events.k8s.io"];
        assert_eq!(names(PressureUse::default()), events);
        let all = PressureUse {
            conditions: true,
            taint: true,
            admission: true,
        };
        let of_nodes = ["patch nodes/status", "get nodes", "patch nodes"];
        assert_eq!(names(all)[2..], of_nodes);
        let told = told(&[list, status]);
        assert!(
            told.starts_with("the rights to list pods and to patch pods/status are missing"),
            "{told}"
        );
    }
}

//! This node's own object in the API: whether there is one of the name that we were given, and what it says of itself. Pure.

use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct OwnNode {
    /// In a list that is not complete yet.
    listed: Option<Node>,
    was_told: bool,
}

/// What is to be done about what was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing, or not all yet.
    Nothing,
    There,
    Missing,
    Failed(watcher::Error),
}

impl OwnNode {
    pub(super) fn hear(&mut self, event: watcher::Result<Event<Node>>) -> Heard {
        match event {
            Ok(Event::Init) => {
                self.listed = None;
                Heard::Nothing
            }
            Ok(Event::InitApply(node)) => {
                self.listed = Some(node);
                Heard::Nothing
            }
            Ok(Event::InitDone) => match self.listed.take() {
                Some(node) => self.is_there(&node),
                None => Heard::Missing,
            },
            Ok(Event::Apply(node)) => self.is_there(&node),
            Ok(Event::Delete(_)) => Heard::Missing,
            Err(error) => Heard::Failed(error),
        }
    }

    fn is_there(&mut self, node: &Node) -> Heard {
        let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
        // It comes with the kubelet's first status.
        if let Some(info) = info.filter(|_| !self.was_told) {
            self.was_told = true;
            tracing::info!(
                node = node.metadata.name,
                kubelet = info.kubelet_version,
                runtime = info.container_runtime_version,
                kernel = info.kernel_version,
                "this node is known to the API server"
            );
        }
        Heard::There
    }
}

/// Why nobody is evicted.
pub(super) fn missing(name: &str) -> String {
    format!("there is no node {name}: is NODE_NAME set from spec.nodeName?")
}

/// Who may only look at pods need not know.
pub(super) fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error;
    let (Error::InitialListFailed(error) | Error::WatchStartFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(answer) if answer.is_forbidden())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_missing_when_a_whole_list_has_none_or_it_is_deleted() {
        let mut own = OwnNode::default();
        let missing = |heard| matches!(heard, Heard::Missing);
        let there = |heard| matches!(heard, Heard::There);
        let nothing = |heard| matches!(heard, Heard::Nothing);
        assert!(nothing(own.hear(Ok(Event::Init))));
        assert!(missing(own.hear(Ok(Event::InitDone))));
        assert!(there(own.hear(Ok(Event::Apply(Node::default())))));
        assert!(missing(own.hear(Ok(Event::Delete(Node::default())))));
        // The watch was cut off, and the list is asked for anew.
        let lost = own.hear(Err(watcher::Error::NoResourceVersion));
        assert!(matches!(lost, Heard::Failed(_)));
        assert!(nothing(own.hear(Ok(Event::Init))));
        assert!(nothing(own.hear(Ok(Event::InitApply(Node::default())))));
        assert!(there(own.hear(Ok(Event::InitDone))));
    }
}

//! Follows this node and its pods in the API.

use super::cluster::ClusterConfig;
use super::complaints::Complaints;
use super::known::Listed;
use super::own_node::{self, Heard, OwnNode};
use super::pressure::Ours;
use super::refusal::Gate;
use super::rights::{self, Right};
use crate::sys::causes::causes;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// While a right is missing, or the server does not say.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The rights that are asked after.
pub(super) struct Asked {
    /// `None`: nobody is to be evicted.
    pub(super) needed: Option<Vec<Right>>,
    /// What is missing without which.
    pub(super) wished: Vec<(&'static str, Vec<Right>)>,
}

/// Lists them, then watches; lists anew where that is cut off or the server has forgotten where we were (410). `needed`: once
/// these rights are there. Nothing is told of pods before the node itself is known: whoever has a wrong name must hear of that.
pub(super) async fn node(
    client: Client,
    config: &ClusterConfig,
    asked: Asked,
    told: &watch::Sender<Arc<Listed>>,
    marks: &watch::Sender<Option<Ours>>,
    gate: Option<Gate>,
) {
    let node = config.node.as_str();
    let Asked { needed, wished } = asked;
    let api: Api<Pod> = Api::all(client.clone());
    let of_this_node = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut pods = pin!(watcher(api, of_this_node).default_backoff());
    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let api: Api<Node> = Api::all(client.clone());
    let mut own = pin!(watcher(api, own).default_backoff());
    let mut follower = Follower {
        node,
        told,
        marks,
        gate,
        newly_listed: Vec::new(),
        listing: Listed::default(),
        own: OwnNode::default(),
        is_known: false,
        complaints: config.honors_annotations.then(Complaints::default),
    };
    if let Some(needed) = &needed {
        follower.wait_for_rights(&client, needed, &wished).await;
    }
    follower.wait_for_node(&mut own, needed.is_some()).await;
    loop {
        tokio::select! {
            Some(event) = pods.next() => follower.hear(event),
            Some(event) = own.next() => follower.hear_node(event),
            else => break,
        }
    }
}

/// Takes in what the API server says, and tells whoever listens.
struct Follower<'a> {
    node: &'a str,
    told: &'a watch::Sender<Arc<Listed>>,
    /// What the node's object has of ours; `None`: there is none.
    marks: &'a watch::Sender<Option<Ours>>,
    /// Who turns new pods away.
    gate: Option<Gate>,
    /// Those of the list to be looked at when it is complete.
    newly_listed: Vec<Pod>,
    /// A list that is not complete yet.
    listing: Listed,
    own: OwnNode,
    /// That there is a node of this name.
    is_known: bool,
    /// Where annotations are honoured.
    complaints: Option<Complaints>,
}

impl Follower<'_> {
    /// `evicts`: else whoever may not read nodes gets along without.
    async fn wait_for_node(
        &mut self,
        own: &mut (impl Stream<Item = watcher::Result<Event<Node>>> + Unpin),
        evicts: bool,
    ) {
        while let Some(event) = own.next().await {
            self.hear_marks(&event);
            match self.own.hear(event) {
                Heard::Nothing => {}
                Heard::There => {
                    self.is_known = true;
                    return;
                }
                Heard::Missing => self.lost(own_node::missing(self.node)),
                Heard::Failed(error) if !evicts && own_node::is_forbidden(&error) => {
                    let why = causes(&error);
                    tracing::warn!("whether there is a node {} is not told: {why}", self.node);
                    return;
                }
                Heard::Failed(error) => self.lost(causes(&error)),
            }
        }
    }

    fn hear_marks(&self, event: &watcher::Result<Event<Node>>) {
        match event {
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                self.marks.send_replace(Some(Ours::of(node)));
            }
            Ok(Event::Delete(_)) => {
                self.marks.send_replace(None);
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }

    fn hear_node(&mut self, event: watcher::Result<Event<Node>>) {
        self.hear_marks(&event);
        let missing = match self.own.hear(event) {
            // That the server does not answer is told of the pods.
            Heard::Nothing | Heard::Failed(_) => return,
            Heard::There => None,
            Heard::Missing => Some(own_node::missing(self.node)),
        };
        let before = self.told.borrow().no_node.clone();
        if missing == before {
            return;
        }
        match &missing {
            Some(why) => tracing::warn!("no pod is evicted: {why}"),
            None => tracing::info!(node = self.node, "the node is there again"),
        }
        self.told
            .send_modify(|listed| Arc::make_mut(listed).no_node = missing);
    }

    async fn wait_for_rights(
        &self,
        client: &Client,
        needed: &[Right],
        wished: &[(&str, Vec<Right>)],
    ) {
        loop {
            match rights::lacking(client, self.node, needed).await {
                Ok(lacking) if lacking.is_empty() => break,
                Ok(lacking) => self.lost(rights::told(&lacking)),
                // It answers, and does not let itself be asked: what is missing will show.
                Err(kube::Error::Api(answer)) if answer.is_forbidden() => {
                    let why = causes(&kube::Error::Api(answer));
                    tracing::warn!("whether the rights suffice cannot be told: {why}");
                    break;
                }
                Err(error) => self.lost(causes(&error)),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        for (missing, rights) in wished {
            if let Ok(lacking) = rights::lacking(client, self.node, rights).await
                && !lacking.is_empty()
            {
                let why = rights::told(&lacking);
                tracing::warn!("{missing}: {why}");
            }
        }
    }

    fn hear(&mut self, event: watcher::Result<Event<Pod>>) {
        self.complain(&event);
        match event {
            Ok(Event::Init) => {
                self.listing = Listed::default();
                self.newly_listed.clear();
            }
            Ok(Event::InitApply(pod)) => {
                self.listing.put(&pod);
                if self.gate.is_some() {
                    self.newly_listed.push(pod);
                }
            }
            Ok(Event::InitDone) => {
                self.has_listed();
                let listed = std::mem::take(&mut self.newly_listed);
                if let Some(gate) = &mut self.gate {
                    gate.see_all(&listed);
                }
            }
            Ok(Event::Apply(pod)) => {
                // Listed first: whoever hears of the refusal looks there.
                self.change(|listed| listed.put(&pod));
                if let Some(gate) = &mut self.gate {
                    gate.see(&pod);
                }
            }
            Ok(Event::Delete(pod)) => {
                self.change(|listed| listed.remove(&pod));
                if let Some(gate) = &mut self.gate {
                    gate.forget(&pod);
                }
            }
            Err(error) => self.lost(causes(&error)),
        }
    }

    fn complain(&mut self, event: &watcher::Result<Event<Pod>>) {
        let Some(complaints) = &mut self.complaints else {
            return;
        };
        match event {
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                for malformed in complaints.about(pod) {
                    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                    let (namespace, pod) = (namespace.as_deref(), name.as_deref());
                    tracing::warn!(namespace, pod, "annotation {malformed}");
                }
            }
            Ok(Event::Delete(pod)) => complaints.forget(pod),
            Ok(Event::InitDone) => {
                let pods = self.listing.pods.values();
                let uids: BTreeSet<&str> = pods.map(|known| known.pod.uid.as_str()).collect();
                complaints.keep(|uid| uids.contains(uid));
            }
            Ok(Event::Init) | Err(_) => {}
        }
    }

    fn has_listed(&mut self) {
        let node = self.node;
        self.listing.is_complete = true;
        match self.listing.pods.len() {
            0 if !self.is_known => tracing::warn!(
                node,
                "the API has no pod on this node: is --node-name right?"
            ),
            pods => tracing::info!(node, pods, "the pods of this node are known"),
        }
        let mut listed = std::mem::take(&mut self.listing);
        listed.no_node.clone_from(&self.told.borrow().no_node);
        self.told.send_replace(Arc::new(listed));
    }

    /// Whoever is told of a change is heard.
    fn change(&self, change: impl FnOnce(&mut Listed)) {
        self.told.send_modify(|listed| {
            let listed = Arc::make_mut(listed);
            listed.trouble = None;
            change(listed);
        });
    }

    /// Told once for each time that it is lost.
    fn lost(&self, why: String) {
        let (is_news, is_complete) = {
            let listed = self.told.borrow();
            let is_other = listed.trouble.as_ref() != Some(&why);
            // Before the list, each cause may want something else of whoever reads it.
            let is_news = listed.trouble.is_none() || (is_other && !listed.is_complete);
            (is_news, listed.is_complete)
        };
        if is_news {
            let node = self.node;
            if is_complete {
                tracing::warn!(
                    node,
                    "the API server does not tell of pods; going on with the last list: {why}"
                );
            } else {
                tracing::warn!(
                    node,
                    "no pod is evicted until the API server tells of them: {why}"
                );
            }
        }
        self.told
            .send_modify(|listed| Arc::make_mut(listed).trouble = Some(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap()
    }

    fn lost() -> watcher::Result<Event<Pod>> {
        Err(watcher::Error::NoResourceVersion)
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_the_last_one_stays_while_the_server_is_away() {
        let (told, heard) = watch::channel(Arc::new(Listed::default()));
        let marks = watch::channel(None).0;
        let mut follower = follower(&told, &marks);
        let uids = || heard.borrow().pods.keys().cloned().collect::<Vec<_>>();
        let trouble = || heard.borrow().trouble.clone();

        follower.hear(lost());
        assert!(trouble().unwrap().contains("resourceVersion"));
        assert!(heard.borrow().state().is_err());
        for event in [Event::Init, Event::InitApply(pod("a"))] {
            follower.hear(Ok(event));
        }
        assert!(!heard.borrow().is_complete, "half a list is none");
        follower.hear(Ok(Event::InitDone));
        assert_eq!((uids(), trouble()), (vec!["a".to_owned()], None));
        follower.hear(Ok(Event::Apply(pod("b"))));
        follower.hear(Ok(Event::Delete(pod("a"))));
        assert_eq!(uids(), ["b"]);

        // Cut off, and another list begun.
        follower.hear(lost());
        for event in [Event::Init, Event::InitApply(pod("c"))] {
            follower.hear(Ok(event));
        }
        assert_eq!(uids(), ["b"]);
        assert!(heard.borrow().state().unwrap().contains("by the last list"));
        follower.hear(Ok(Event::InitDone));
        assert_eq!((uids(), trouble()), (vec!["c".to_owned()], None));
        follower.hear(lost());
        follower.hear(Ok(Event::Apply(pod("d"))));
        assert_eq!(trouble(), None, "it is heard again");

        // The node's object goes, and is made anew; a list in between changes nothing.
        follower.hear_node(Ok(Event::Delete(Node::default())));
        let why = || heard.borrow().state().unwrap_err();
        let said = "no pod is evicted: there is no node n: is NODE_NAME set from spec.nodeName?";
        assert!(why().starts_with(said), "{}", why());
        for event in [Event::Init, Event::InitDone] {
            follower.hear(Ok(event));
        }
        assert!(why().starts_with(said), "{}", why());
        follower.hear_node(lost_node());
        assert!(why().starts_with(said), "{}", why());
        follower.hear_node(Ok(Event::Apply(Node::default())));
        assert!(heard.borrow().state().is_ok());
    }

    fn follower<'a>(
        told: &'a watch::Sender<Arc<Listed>>,
        marks: &'a watch::Sender<Option<Ours>>,
    ) -> Follower<'a> {
        Follower {
            node: "n",
            told,
            marks,
            gate: None,
            newly_listed: Vec::new(),
            listing: Listed::default(),
            own: OwnNode::default(),
            is_known: false,
            complaints: None,
        }
    }

    #[tokio::test]
    async fn who_only_looks_gets_along_without_the_right_to_read_nodes() {
        let forbidden = || {
            let answer = kube::core::Status::failure("no", "Forbidden").with_code(403);
            let error = kube::Error::Api(Box::new(answer));
            Err(watcher::Error::InitialListFailed(error))
        };
        for evicts in [false, true] {
            let (told, heard) = watch::channel(Arc::new(Listed::default()));
            let marks = watch::channel(None).0;
            let mut follower = follower(&told, &marks);
            let events = vec![
                forbidden(),
                Ok(Event::Init),
                Ok(Event::InitDone),
                Ok(Event::Apply(Node::default())),
            ];
            let mut own = futures_util::stream::iter(events);
            follower.wait_for_node(&mut own, evicts).await;
            assert_eq!(follower.is_known, evicts);
            let why = heard.borrow().state().unwrap_err();
            assert_eq!(why.contains("there is no node n"), evicts, "{why}");
        }
    }

    fn lost_node() -> watcher::Result<Event<Node>> {
        Err(watcher::Error::NoResourceVersion)
    }
}

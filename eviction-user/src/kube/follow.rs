//! Follows this node's pods in the API.

use super::known::Listed;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;

/// Lists them, then watches; lists anew where that is cut off or the server has forgotten where we were (410).
pub(super) async fn pods(client: Client, node: &str, told: &watch::Sender<Arc<Listed>>) {
    let api: Api<Pod> = Api::all(client);
    let of_this_node = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher(api, of_this_node).default_backoff());
    let mut listing = Listed::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing = Listed::default(),
            Ok(Event::InitApply(pod)) => listing.put(&pod),
            Ok(Event::InitDone) => {
                listing.is_complete = true;
                let pods = listing.pods.len();
                if pods == 0 {
                    tracing::warn!(
                        node,
                        "the API has no pod on this node: is --node-name right?"
                    );
                } else {
                    tracing::info!(node, pods, "the pods of this node are known");
                }
                told.send_replace(Arc::new(std::mem::take(&mut listing)));
            }
            Ok(Event::Apply(pod)) => change(told, |listed| listed.put(&pod)),
            Ok(Event::Delete(pod)) => change(told, |listed| listed.remove(&pod)),
            Err(error) => {
                // Told once for each time that it is lost.
                if told.borrow().trouble.is_none() {
                    let known = if told.borrow().is_complete {
                        "going on with the last list"
                    } else {
                        "no pod is evicted until it answers"
                    };
                    tracing::warn!(
                        node,
                        "the API server does not tell of pods; {known}: {error}"
                    );
                }
            }
        }
    }
}

/// Whoever is told of a change is heard.
fn change(told: &watch::Sender<Arc<Listed>>, change: impl FnOnce(&mut Listed)) {
    told.send_modify(|listed| {
        let listed = Arc::make_mut(listed);
        listed.trouble = None;
        change(listed);
    });
}

//! The connection with the API server, on a thread of its own: nothing of it can delay a decision.

use super::disk::{self, PodPlaces};
use super::follow;
use super::groups::PodGroups;
use super::known::Listed;
use super::limits::{self, LimitsOf};
use super::owner::PodOwner;
use super::record::Kept;
use super::reports::{Desk, Report};
use super::rights;
use crate::host::{LimitedNow, Targets};
use crate::model::{NodeEvent, Uid};
use crate::sys::cgroup::{CgroupDir, Hierarchy};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How to reach it, and who we are.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// This node, as the API knows it.
    pub node: String,
    /// `None`: as a pod does, by its service account.
    pub kubeconfig: Option<PathBuf>,
    /// Pods are to be evicted, not only looked at: that takes more rights.
    pub evicts: bool,
    pub after: AfterEviction,
}

/// What becomes of an evicted pod's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEviction {
    /// It stays and tells what has happened, as the kubelet leaves it; so do its containers' writable layers.
    Keep,
    /// It is deleted once its containers have ended.
    Delete,
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("{}: {error}", path.display())]
    Kubeconfig {
        path: PathBuf,
        error: Box<kube::config::KubeconfigError>,
    },
    #[error(
        "no service account: {0}; this works inside of a pod that has one, elsewhere give --kubeconfig FILE"
    )]
    ServiceAccount(kube::config::InClusterError),
    #[error("the API server's address or certificates: {0}")]
    Client(Box<kube::Error>),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the API server has not told of this node's pods within {} s: see the warning above; check the address and the rights (get, list, watch pods)",
    .0.as_secs()
)]
pub struct NotListed(Duration);

pub struct Cluster {
    listed: watch::Receiver<Arc<Listed>>,
    reports: mpsc::UnboundedSender<Report>,
    /// Pods that an earlier process has begun to evict: uid and name.
    left: BTreeMap<String, String>,
    after: AfterEviction,
    thread: JoinHandle<()>,
}

impl Cluster {
    /// Checks what is given, and begins to follow the pods. `state`: where records that are not written yet are kept.
    pub fn start(config: ClusterConfig, state: Option<&Path>) -> Result<Self, ClusterError> {
        let kept = Kept::below(state)?;
        let begun = kept.read();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(connect(config.kubeconfig.as_deref()))?;
        let (told, listed) = watch::channel(Arc::new(Listed::default()));
        let (reports, inbox) = mpsc::unbounded_channel();
        let left = begun
            .iter()
            .map(|record| (record.uid.clone(), record.name.clone()));
        let left = left.collect();
        let desk = Desk::new(
            client.clone(),
            config.node.clone(),
            listed.clone(),
            kept,
            config.after,
        );
        let needed = config.evicts.then(|| rights::needed(config.after));
        let thread = std::thread::Builder::new()
            .name("eviction-api".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = follow::node(client, &config.node, needed, &told) => {}
                        () = desk.serve(begun, inbox) => {}
                    }
                });
            })?;
        Ok(Self {
            listed,
            reports,
            left,
            after: config.after,
            thread,
        })
    }

    /// Until the pods of this node are known.
    pub fn wait_until_listed(&self, patience: Duration) -> Result<(), NotListed> {
        let mut listed = self.listed.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let waiting = async {
            let known = listed.wait_for(|listed| listed.is_complete);
            tokio::time::timeout(patience, known).await.is_ok()
        };
        match runtime.map(|runtime| runtime.block_on(waiting)) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(NotListed(patience)),
        }
    }

    /// Finds the pods below the cgroup that holds them all.
    pub fn workloads(&self, root: CgroupDir, hierarchy: Hierarchy) -> PodGroups {
        PodGroups::new(root, hierarchy, self.listed.clone())
    }

    /// Says where the pods' files lie.
    pub fn scan_targets(&self, places: PodPlaces) -> Targets {
        disk::targets(self.listed.clone(), places)
    }

    /// Says which pods have limits of their own on what they hold on disks.
    pub fn limited(&self, places: PodPlaces, limits_of: LimitsOf) -> LimitedNow {
        limits::limited(self.listed.clone(), places, limits_of)
    }

    pub fn owner(&self, root: CgroupDir, places: PodPlaces) -> PodOwner {
        let (listed, reports) = (self.listed.clone(), self.reports.clone());
        let left = self.left.keys().cloned().collect();
        PodOwner::new(root, listed, reports, left, places, self.after)
    }

    /// What is known of the pods, whenever it is asked; `Err`: nothing yet.
    pub fn listing(&self) -> impl Fn() -> Result<String, String> + Send + Sync + 'static {
        let listed = self.listed.clone();
        move || listed.borrow().state()
    }

    /// Pods that an earlier process has begun to evict: uid and name.
    pub fn left(&self) -> impl Iterator<Item = (Uid, String)> {
        let left = self.left.iter();
        left.map(|(uid, name)| (Uid::new(uid.as_str()), name.clone()))
    }

    /// Where the node's events go.
    pub fn node_events(&self) -> NodeEvents {
        NodeEvents(self.reports.clone())
    }

    /// Waits until what was decided is written, but not for long. Owners and node events must be gone by then.
    pub fn end(self) {
        drop(self.reports);
        // Its panic has been told by itself.
        let _ = self.thread.join();
    }
}

pub struct NodeEvents(mpsc::UnboundedSender<Report>);

impl NodeEvents {
    pub fn tell(&self, event: &NodeEvent) {
        // The other end lives as long as the process.
        let _ = self.0.send(Report::Node(event.clone()));
    }
}

async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClusterError> {
    let config = config(kubeconfig).await?;
    Client::try_from(config).map_err(|error| ClusterError::Client(Box::new(error)))
}

/// Where the API server is, and who we are.
pub(super) async fn config(kubeconfig: Option<&Path>) -> Result<kube::Config, ClusterError> {
    match kubeconfig {
        Some(path) => {
            let wrong = |error| ClusterError::Kubeconfig {
                path: path.to_owned(),
                error: Box::new(error),
            };
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            config.map_err(wrong)
        }
        None => kube::Config::incluster().map_err(ClusterError::ServiceAccount),
    }
}

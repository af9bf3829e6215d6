//! The connection with the API server, on a thread of its own: nothing of it can delay a decision.

use super::asks::{AnswerTo, Asking};
use super::disk::{self, PodPlaces};
use super::follow::{self, Asked};
use super::groups::PodGroups;
use super::known::Listed;
use super::limits::{self, LimitsOf};
use super::owner::PodOwner;
use super::pending::Asks;
use super::pressure::{self, Pressure, PressureUse, Writer};
use super::record::{Kept, Record};
use super::refusal::Gate;
use super::reports::{Desk, Report};
use super::rights;
use crate::host::{LimitedNow, Targets};
use crate::model::{Condition, NodeEvent, Uid};
use crate::ports::PodFate;
use crate::sys::cgroup::{CgroupDir, Hierarchy};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
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
    /// What pods ask for by annotations counts; then what is wrong with it is told.
    pub honors_annotations: bool,
    pub after: AfterEviction,
    pub pressure: PressureUse,
    pub hard: HardPolicy,
    /// The Eviction API is to be asked, for soft thresholds or by [`Self::hard`].
    pub asks: bool,
}

/// How whoever has no time to leave is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardPolicy {
    /// Killed at once, whatever its disruption budget says.
    Kill,
    /// By the Eviction API, with a second of grace; who is refused stays.
    Api,
    /// Killed as soon as the Eviction API has granted it; who is refused stays. Without an answer within 2 s it is killed all the same.
    KillApi,
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
    conditions: watch::Sender<Vec<Condition>>,
    refused: Arc<AtomicU64>,
    /// Pods that an earlier process has begun to evict, by uid.
    left: BTreeMap<String, Record>,
    after: AfterEviction,
    hard: HardPolicy,
    /// For the owner, of whom there is one.
    answers: Mutex<Option<mpsc::UnboundedReceiver<AnswerTo>>>,
    thread: JoinHandle<()>,
}

impl Cluster {
    /// Checks what is given, and begins to follow the pods. `state`: where records that are not written yet are kept.
    pub fn start(
        config: ClusterConfig,
        state: Option<&Path>,
        pressure: Option<Pressure>,
    ) -> Result<Self, ClusterError> {
        let kept = Kept::below(state)?;
        let begun = kept.read();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (client, once) = runtime.block_on(connect(config.kubeconfig.as_deref()))?;
        let (told, listed) = watch::channel(Arc::new(Listed::default()));
        let (reports, inbox) = mpsc::unbounded_channel();
        let (conditions, reported) = watch::channel(Vec::new());
        let refused = Arc::new(AtomicU64::new(0));
        // Who was asked for and then killed counts as killed.
        let (asked, killed): (Vec<_>, Vec<_>) = begun
            .iter()
            .filter(|record| !record.refused)
            .partition(|record| record.ask.is_some());
        let left = asked.into_iter().chain(killed);
        let left = left.map(|record| (record.uid.clone(), record.clone()));
        let left = left.collect();
        let (answers, answered) = mpsc::unbounded_channel();
        let desk = Desk::new(
            client.clone(),
            config.node.clone(),
            listed.clone(),
            kept,
            config.after,
            Asking::new(once, answers),
            pressure.clone(),
        );
        let (after, hard) = (config.after, config.hard);
        let how = pressure.as_ref().map(|pressure| pressure.how);
        let asked = Asked {
            needed: config.evicts.then(|| rights::needed(&config)),
            wished: rights::wished(how.unwrap_or_default()),
        };
        let (told_in_force, in_force) = watch::channel(Vec::new());
        let (marks, node) = watch::channel(None);
        let gate = pressure.as_ref().filter(|pressure| pressure.how.admission);
        let gate = gate.map(|pressure| {
            let reports = reports.downgrade();
            Gate::new(pressure, in_force.clone(), reports, Arc::clone(&refused))
        });
        let writer = pressure
            .clone()
            .map(|pressure| Writer::new(pressure, client.clone(), config.node.clone()));
        let telling = async move {
            let (Some(pressure), Some(writer)) = (pressure, writer) else {
                return std::future::pending().await;
            };
            tokio::join!(
                pressure::in_force(&pressure, reported, node.clone(), &told_in_force),
                writer.serve(in_force, node),
            );
        };
        let thread = std::thread::Builder::new()
            .name("eviction-api".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = follow::node(client, &config, asked, &told, &marks, gate) => {}
                        () = telling => {}
                        () = desk.serve(begun, inbox) => {}
                    }
                });
            })?;
        Ok(Self {
            listed,
            reports,
            conditions,
            refused,
            left,
            after,
            hard,
            answers: Mutex::new(Some(answered)),
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

    /// Whoever asks first has the answers of the Eviction API.
    pub fn owner(&self, root: CgroupDir, places: PodPlaces) -> PodOwner {
        let answers = self.answers.lock();
        let answers = answers.unwrap_or_else(PoisonError::into_inner).take();
        let answers = answers.unwrap_or_else(|| mpsc::unbounded_channel().1);
        let asks = Asks::new(self.reports.clone(), answers, self.hard, &self.left);
        let begun = self.left.keys().cloned().collect();
        PodOwner::new(root, self.listed.clone(), begun, places, self.after, asks)
    }

    /// What is known of the pods, whenever it is asked; `Err`: nothing yet.
    pub fn listing(&self) -> impl Fn() -> Result<String, String> + Send + Sync + 'static {
        let listed = self.listed.clone();
        move || listed.borrow().state()
    }

    /// Says what has become of a pod, by the uid that kubelet and runtime know it by.
    pub fn fates(&self) -> impl Fn(&str) -> PodFate + Send + use<> {
        let listed = self.listed.clone();
        move |uid| listed.borrow().fate(uid)
    }

    /// Pods that an earlier process has begun to evict: uid, name, and when whoever was not killed is to be.
    pub fn left(&self) -> impl Iterator<Item = (Uid, String, Option<SystemTime>)> {
        let left = self.left.iter();
        left.map(|(uid, record)| {
            let until = record.leaves_until();
            (Uid::new(uid.as_str()), record.name.clone(), until)
        })
    }

    /// Where the node's events go.
    pub fn node_events(&self) -> NodeEvents {
        NodeEvents(self.reports.clone(), self.conditions.clone())
    }

    /// How many pods were turned away.
    pub fn refused(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.refused)
    }

    /// Waits until what was decided is written, but not for long. Owners and node events must be gone by then.
    pub fn end(self) {
        drop(self.reports);
        // Its panic has been told by itself.
        let _ = self.thread.join();
    }
}

pub struct NodeEvents(mpsc::UnboundedSender<Report>, watch::Sender<Vec<Condition>>);

impl NodeEvents {
    pub fn tell(&self, event: &NodeEvent) {
        // The other end lives as long as the process.
        let _ = self.0.send(Report::Node(event.clone()));
    }

    /// Those that the engine reports from now on.
    pub fn report(&self, conditions: &[Condition]) {
        self.1.send_replace(conditions.to_vec());
    }
}

/// The usual client, and one that sends each request once.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> Result<(Client, Client), ClusterError> {
    let config = config(kubeconfig).await?;
    let mut once = config.clone();
    once.default_retry = false;
    let client =
        |config| Client::try_from(config).map_err(|error| ClusterError::Client(Box::new(error)));
    Ok((client(config)?, client(once)?))
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

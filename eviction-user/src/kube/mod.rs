//! Kubernetes: which pod a cgroup is, what the API says of it, and what it is told of an eviction.

mod answers;
mod asks;
mod cluster;
mod complaints;
mod configz;
mod convert;
mod disk;
mod follow;
mod groups;
mod identity;
mod known;
mod kubelet;
mod limits;
mod member;
mod names;
mod own_node;
mod owner;
mod pending;
mod pressure;
mod record;
mod refusal;
mod reports;
mod rights;
mod root;
mod unmapped;

pub use cluster::{
    AfterEviction, Cluster, ClusterConfig, ClusterError, HardPolicy, NodeEvents, NotListed,
};
pub use configz::{ConfigzError, KubeletServer, configz};
pub use disk::PodPlaces;
pub use groups::PodGroups;
pub use identity::PodCgroup;
pub use kubelet::{KubeletFlags, NoKubelet, RunningKubelet};
pub use limits::LimitsOf;
pub use names::RECORD;
pub use owner::PodOwner;
pub use pressure::{CleanError, Cleaned, Nodes, Pressure, PressureUse, Refuses, clean};
pub use root::pods_root;

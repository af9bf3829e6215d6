//! A node of 1000 bytes of memory and of disk, with pods of a few bytes: small numbers read well.

use std::sync::Arc;

use eviction_core::model::{
    Action, ContainerStats, EmptyDir, Eviction, FsLayout, FsStats, Limit, MemoryStats, ObservedPod,
    Pod, PodStats, Quantity, Rlimit, Signal, Snapshot, Span, Summary, Threshold, Timestamp, Uid,
    Volume, VolumeSource, VolumeStats,
};
use eviction_core::policy::thresholds::parse::{ThresholdTexts, parse};
use eviction_core::policy::{Engine, EngineConfig, Input, Settings};

pub(crate) const CAPACITY: u64 = 1_000;

/// A pod that requests and uses this much memory.
pub(crate) fn pod(uid: &str, request: i64, working_set: u64) -> ObservedPod {
    observed(Pod::workload(Uid::new(uid), uid, request), working_set)
}

pub(crate) fn observed(pod: Pod, working_set: u64) -> ObservedPod {
    let memory = MemoryStats {
        working_set: Some(working_set),
        ..MemoryStats::default()
    };
    let stats = PodStats {
        memory: Some(memory),
        ..PodStats::default()
    };
    ObservedPod {
        pod: Arc::new(pod),
        stats: Some(stats),
    }
}

/// The same pod, changed.
pub(crate) fn with(mut observed: ObservedPod, change: impl FnOnce(&mut Pod)) -> ObservedPod {
    let mut pod = observed.pod.as_ref().clone();
    change(&mut pod);
    observed.pod = Arc::new(pod);
    observed
}

/// A pod whose one container has written this much on the root file system.
pub(crate) fn disk_pod(uid: &str, bytes: u64, inodes: u64) -> ObservedPod {
    let rootfs = FsStats {
        used: Some(bytes),
        inodes_used: Some(inodes),
        ..FsStats::default()
    };
    let container = ContainerStats {
        name: uid.to_owned(),
        rootfs: Some(rootfs),
        ..ContainerStats::default()
    };
    let stats = PodStats {
        containers: vec![container],
        ..PodStats::default()
    };
    ObservedPod {
        pod: Arc::new(Pod::workload(Uid::new(uid), uid, 0)),
        stats: Some(stats),
    }
}

/// A pod with more in an emptyDir than the dir's limit.
pub(crate) fn over_its_own_limit(uid: &str) -> ObservedPod {
    let dir = EmptyDir {
        size_limit: Some(Quantity::binary(10)),
        ..EmptyDir::default()
    };
    let volume = Volume {
        name: "v".to_owned(),
        source: VolumeSource::EmptyDir(dir),
    };
    let pod = Pod {
        volumes: vec![volume],
        ..Pod::new(Uid::new(uid), "default", uid)
    };
    let fs = FsStats {
        used: Some(11),
        ..FsStats::default()
    };
    let stats = PodStats {
        volumes: vec![VolumeStats {
            name: "v".to_owned(),
            fs,
        }],
        ..PodStats::default()
    };
    ObservedPod {
        pod: Arc::new(pod),
        stats: Some(stats),
    }
}

/// How much is left on the node; everything else is plenty.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    pub(crate) inodes: u64,
    pub(crate) images: u64,
    pub(crate) pids: i64,
}

pub(crate) const PLENTY: Left = Left {
    memory: 900,
    disk: 900,
    inodes: 900,
    images: 900,
    pids: 900,
};

pub(crate) fn memory(left: u64) -> Left {
    Left {
        memory: left,
        ..PLENTY
    }
}

/// The node's statistics at a time.
pub(crate) fn summary(at: i64, left: Left) -> Summary {
    let time = Some(Timestamp::from_secs(at));
    let fs = |available: u64, inodes: u64| FsStats {
        time,
        available: Some(available),
        capacity: Some(CAPACITY),
        inodes_free: Some(inodes),
        inodes: Some(CAPACITY),
        ..FsStats::default()
    };
    Summary {
        memory: Some(MemoryStats {
            time,
            available: Some(left.memory),
            working_set: Some(CAPACITY - left.memory),
            ..MemoryStats::default()
        }),
        nodefs: Some(fs(left.disk, left.inodes)),
        imagefs: Some(fs(left.images, 900)),
        containerfs: Some(fs(left.images, 900)),
        rlimit: Some(Rlimit {
            time,
            max_pid: Some(1_000),
            running: Some(1_000 - left.pids),
        }),
        ..Summary::default()
    }
}

pub(crate) fn snapshot(at: i64, left: Left, pods: &[ObservedPod]) -> Snapshot {
    Snapshot {
        taken: Timestamp::from_secs(at),
        summary: summary(at, left),
        pods: pods.to_vec(),
        layout: Some(FsLayout::default()),
    }
}

pub(crate) fn hard(signal: Signal, limit: &str) -> Threshold {
    Threshold::hard(signal, Limit::Quantity(limit.parse().unwrap()))
}

pub(crate) fn soft(signal: Signal, limit: &str, grace_secs: i64) -> Threshold {
    Threshold {
        grace: Span::from_secs(grace_secs),
        ..hard(signal, limit)
    }
}

/// Thresholds from texts, as a configuration file has them.
pub(crate) fn parsed(hard: &[(&str, &str)], min_reclaim: &[(&str, &str)]) -> Vec<Threshold> {
    let texts = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let texts = ThresholdTexts {
        hard: texts(hard),
        min_reclaim: texts(min_reclaim),
        ..ThresholdTexts::default()
    };
    parse(&texts).unwrap()
}

/// An engine and its clock in seconds.
pub(crate) struct Story {
    pub(crate) engine: Engine,
    pub(crate) now: i64,
}

impl Story {
    pub(crate) fn new(thresholds: Vec<Threshold>) -> Self {
        Self::with(EngineConfig::with_thresholds(thresholds))
    }

    pub(crate) fn with(config: EngineConfig) -> Self {
        Self {
            engine: Engine::new(config),
            now: 0,
        }
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        Self::with(EngineConfig::new(settings))
    }

    pub(crate) fn input(&mut self, input: Input) -> Vec<Action> {
        self.engine
            .handle(Timestamp::from_secs(self.now), input)
            .unwrap()
    }

    /// Lets the time come and looks at the node.
    pub(crate) fn look(&mut self, at: i64, left: Left, pods: &[ObservedPod]) -> Vec<Action> {
        self.look_at(at, snapshot(at, left, pods))
    }

    pub(crate) fn look_at(&mut self, at: i64, snapshot: Snapshot) -> Vec<Action> {
        self.now = at;
        self.input(Input::Cycle(Arc::new(snapshot)))
    }

    /// Who goes at this look.
    pub(crate) fn victims(&mut self, at: i64, left: Left, pods: &[ObservedPod]) -> Vec<String> {
        victims(&self.look(at, left, pods))
    }

    pub(crate) fn gone(&mut self, at: i64, uid: &str) -> Vec<Action> {
        self.now = at;
        self.input(Input::Evicted { uid: Uid::new(uid) })
    }

    pub(crate) fn failed(&mut self, at: i64, uid: &str) -> Vec<Action> {
        self.now = at;
        self.input(Input::EvictionFailed {
            uid: Uid::new(uid),
            again: None,
        })
    }

    /// `again`: seconds.
    pub(crate) fn refused(&mut self, at: i64, uid: &str, again: i64) -> Vec<Action> {
        self.now = at;
        self.input(Input::EvictionFailed {
            uid: Uid::new(uid),
            again: Some(Span::from_secs(again)),
        })
    }

    pub(crate) fn reclaimed(&mut self, at: i64, left: Option<Left>) -> Vec<Action> {
        self.now = at;
        self.input(Input::Reclaimed(
            left.map(|left| Arc::new(summary(at, left))),
        ))
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        self.engine
            .deadline()
            .map(|at| at.as_nanos() / 1_000_000_000)
    }
}

pub(crate) fn evictions(actions: &[Action]) -> Vec<&Eviction> {
    fn eviction(action: &Action) -> Option<&Eviction> {
        if let Action::Evict(eviction) = action {
            Some(eviction)
        } else {
            None
        }
    }
    actions.iter().filter_map(eviction).collect()
}

pub(crate) fn victims(actions: &[Action]) -> Vec<String> {
    evictions(actions)
        .iter()
        .map(|eviction| eviction.uid().to_string())
        .collect()
}

//! Recorded scenarios of the kubelet as recordings of ours: each is lived by an engine, written as
//! `eviction run --record` would, stripped of its decisions, and replayed.
//!
//! A test of package `eviction-user`, which has the recordings; the suite `vectors` knows the core alone,
//! so that it is built in seconds. `EVICTION_EXPORT=DIR` keeps the recordings in a new directory, one directory for each
//! scenario, for `eviction replay DIR/scenario-N`.

mod files;
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with the suite `vectors`, which uses the rest"
)]
mod shape;

use anyhow::{Result, bail};
use eviction_core::model::{Action, FsLayout, Snapshot, Span, Timestamp};
use eviction_core::policy::thresholds::parse::{ThresholdTexts, parse};
use eviction_core::policy::{Engine, EngineConfig, Input, Settings};
use eviction_user::record::{
    self, Frame, Limits, Platform, Player, Reader, RunFacts, Store, Told, Writer, codec,
};
use serde::Deserialize;
use shape::{NodeSummary, PodShape, null_is_default, observed_pods};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Deserialize)]
struct Scenario {
    config: Config,
    pods: Vec<PodShape>,
    steps: Vec<Step>,
}

type Texts = BTreeMap<String, String>;

#[derive(Deserialize)]
struct Config {
    #[serde(deserialize_with = "null_is_default")]
    enforce_node_allocatable: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    hard: Texts,
    #[serde(deserialize_with = "null_is_default")]
    soft: Texts,
    #[serde(deserialize_with = "null_is_default")]
    soft_grace_period: Texts,
    #[serde(deserialize_with = "null_is_default")]
    minimum_reclaim: Texts,
    pressure_transition_ms: i64,
    max_pod_grace_s: i64,
    local_storage_capacity_isolation: bool,
    dedicated_imagefs: bool,
    split_containerfs: bool,
}

#[derive(Deserialize)]
struct Step {
    advance_ms: i64,
    #[serde(default)]
    active: Vec<usize>,
    summary: Option<NodeSummary>,
    #[serde(default)]
    summary_error: bool,
    summary_after_reclaim: Option<NodeSummary>,
    #[serde(default)]
    summary_after_reclaim_error: bool,
    #[serde(default)]
    disk_info_error: bool,
}

/// One input, and what the engine said to it.
struct Lived {
    told: Told,
    actions: Option<Vec<Action>>,
}

impl Config {
    fn engine(&self) -> Result<EngineConfig> {
        let texts = ThresholdTexts {
            hard: self.hard.clone(),
            soft: self.soft.clone(),
            soft_grace: self.soft_grace_period.clone(),
            min_reclaim: self.minimum_reclaim.clone(),
            enforce_pods_allocatable: self.enforce_node_allocatable.iter().any(|n| n == "pods"),
        };
        Ok(EngineConfig::new(Settings {
            transition_period: Span::from_millis(self.pressure_transition_ms),
            max_pod_grace_secs: self.max_pod_grace_s,
            local_storage_isolation: self.local_storage_capacity_isolation,
            ..Settings::with_thresholds(parse(&texts)?)
        }))
    }

    fn layout(&self) -> FsLayout {
        FsLayout {
            dedicated_imagefs: self.dedicated_imagefs,
            split_containerfs: self.split_containerfs,
        }
    }
}

/// The whole scenario as the agent would feed it: a reclaim is answered, a victim is gone at once.
fn live(scenario: &Scenario) -> Result<Vec<Lived>> {
    let mut engine = Engine::new(scenario.config.engine()?);
    let pods: Vec<_> = scenario.pods.iter().map(|p| Arc::new(p.pod())).collect();
    let mut lived = Vec::new();
    let mut now_ms = 0;
    for step in &scenario.steps {
        now_ms += step.advance_ms;
        let now = Timestamp::from_millis(now_ms);
        let layout = (!step.disk_info_error).then(|| scenario.config.layout());
        let summary = step.summary.as_ref().filter(|_| !step.summary_error);
        let first = summary.map_or(Input::SampleFailed { layout }, |shape| {
            let active = step.active.iter().map(|pod| pods[*pod].clone());
            Input::Cycle(Arc::new(Snapshot {
                taken: now,
                summary: shape.summary(),
                pods: observed_pods(active, &shape.pods),
                layout,
            }))
        });
        let mut due = vec![first];
        while let Some(input) = due.pop() {
            let actions = engine.handle(now, input.clone()).ok();
            for action in actions.iter().flatten() {
                match action {
                    Action::ReclaimNode { .. } => {
                        let after = step.summary_after_reclaim.as_ref().or(summary);
                        let after = after.filter(|_| !step.summary_after_reclaim_error);
                        due.push(Input::Reclaimed(after.map(|s| Arc::new(s.summary()))));
                    }
                    Action::Evict(eviction) => due.push(Input::Evicted {
                        uid: eviction.uid().clone(),
                    }),
                    _ => {}
                }
            }
            let told = Told {
                at: now,
                wake: "scenario".into(),
                input,
            };
            lived.push(Lived { told, actions });
        }
    }
    Ok(lived)
}

/// Writes a life as a recording.
fn export(directory: &Path, config: EngineConfig, lived: &[Lived]) -> Result<()> {
    let limits = Limits {
        bytes: 1 << 30,
        files: 2,
    };
    let facts = RunFacts {
        run: "scenario".to_owned(),
        epoch_nanos: 0,
        platform: Platform::Kubernetes,
        dry_run: false,
        config,
    };
    let mut writer = Writer::create(Store::open(directory, limits)?, facts)?;
    for one in lived {
        let input = Frame::Input(Box::new(one.told.clone()));
        let frames = [input, Frame::Decisions(one.actions.clone())];
        writer.append(&frames)?;
    }
    Ok(())
}

fn replay(directory: &Path) -> Result<Vec<Option<Vec<Action>>>> {
    let mut player = Player::as_recorded();
    let mut said = Vec::new();
    for file in record::files(directory)? {
        let mut reader = Reader::open(&file)?;
        player.start(reader.head())?;
        while let Some(frame) = reader.next_frame()? {
            match frame {
                Frame::Input(told) => said.push(player.decide(&told)?.actions),
                other => bail!("not stripped: {other:?}"),
            }
        }
    }
    Ok(said)
}

#[test]
fn every_scenario_of_the_kubelet_replays_as_it_was_lived() {
    let vectors = std::env::var_os("EVICTION_VECTORS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/dev")),
        PathBuf::from,
    );
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("EVICTION_EXPORT").map(PathBuf::from);
    let exported = kept.as_deref().unwrap_or(scratch.path());
    let mut families = files::read(&vectors).unwrap();
    let scenarios = families.remove("scenario").expect("a family of scenarios");
    assert!(!scenarios.cases.is_empty());
    assert_eq!(scenarios.cases.len(), scenarios.announced);
    let mut evictions = 0;
    for case in &scenarios.cases {
        let id = &case.id;
        assert!(case.output.get("steps").is_some(), "{id}: no outcome");
        let scenario: Scenario = serde_json::from_value(case.input.clone()).unwrap();
        let lived = live(&scenario).unwrap();
        let name = id.replace('/', "-");
        let whole = exported.join(&name);
        export(&whole, scenario.config.engine().unwrap(), &lived).unwrap();
        let stripped = scratch.path().join(format!("{name}-stripped"));
        record::strip(&whole, &stripped).unwrap();
        let said = replay(&stripped).unwrap();
        assert_eq!(said.len(), lived.len(), "{id}");
        for (said, lived) in said.iter().zip(&lived) {
            assert!(
                codec::is_same(said, &lived.actions).unwrap(),
                "{id} at {:?}: {:?}, lived {:?}",
                lived.told.at,
                said,
                lived.actions
            );
            let is_eviction = |action: &&Action| matches!(action, Action::Evict(_));
            evictions += said.iter().flatten().filter(is_eviction).count();
        }
    }
    assert!(
        evictions > scenarios.cases.len() / 10,
        "{evictions} evictions"
    );
}

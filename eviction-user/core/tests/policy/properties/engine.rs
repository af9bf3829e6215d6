//! Laws of the engine, over sequences of any looks and outcomes.

use std::sync::Arc;

use eviction_core::model::{Action, EvictionCause, Pod, Snapshot, Span, Summary, Timestamp, Uid};
use eviction_core::policy::additions::Additions;
use eviction_core::policy::additions::memory_figure::MemoryFigure;
use eviction_core::policy::additions::protection::ProtectionRules;
use eviction_core::policy::cycle::LayoutUnknown;
use eviction_core::policy::engine::Waiting;
use eviction_core::policy::{Engine, EngineConfig, Input, Settings, critical};
use proptest::collection::vec;
use proptest::prelude::*;

use super::generate::{snapshot, thresholds};

/// The pod that every engine here takes for its own.
const OWN: &str = "0";

fn config() -> impl Strategy<Value = EngineConfig> {
    let additions = (
        prop::option::weighted(0.3, 0i64..100),
        prop::option::weighted(0.3, 0u32..4),
        prop::option::weighted(0.3, any::<u64>()),
    )
        .prop_map(|(cool_down, max_per_hour, max_dying_cgroups)| Additions {
            max_dying_cgroups,
            cool_down: cool_down.map(Span::from_secs),
            max_per_hour,
            protection: ProtectionRules {
                own_pod: Some(Uid::new(OWN)),
                ..ProtectionRules::default()
            },
            ..Additions::default()
        });
    (
        thresholds(),
        additions,
        any::<[bool; 2]>(),
        any::<i64>(),
        0i64..120,
    )
        .prop_map(
            |(
                thresholds,
                additions,
                [local_storage_isolation, with_reclaimable_cache],
                max_pod_grace_secs,
                period,
            )| {
                let settings = Settings {
                    transition_period: Span::from_secs(period),
                    max_pod_grace_secs,
                    local_storage_isolation,
                    memory_figure: MemoryFigure {
                        with_reclaimable_cache,
                        with_free_swap: with_reclaimable_cache,
                    },
                    thresholds,
                };
                EngineConfig {
                    additions,
                    ..EngineConfig::new(settings)
                }
            },
        )
}

/// What happens next, without the clock.
#[derive(Debug, Clone)]
enum Step {
    Look(Box<Snapshot>),
    SampleFailed,
    /// The answer to a reclaim, with the statistics of a look.
    Reclaimed(Option<Box<Snapshot>>),
    /// How the removal of whoever is waited for ends.
    Outcome {
        gone: bool,
    },
    CleanupTimeout,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => snapshot().prop_map(|snapshot| Step::Look(Box::new(snapshot))),
        1 => Just(Step::SampleFailed),
        1 => prop::option::of(snapshot()).prop_map(|snapshot| Step::Reclaimed(snapshot.map(Box::new))),
        4 => any::<bool>().prop_map(|gone| Step::Outcome { gone }),
        1 => Just(Step::CleanupTimeout),
    ]
}

fn timeline() -> impl Strategy<Value = Vec<(i64, Step)>> {
    vec((0i64..100, step()), 1..6)
}

type Taken = Result<Vec<Action>, LayoutUnknown>;

/// Runs a timeline that starts at a time; all instants in the looks are moved along.
fn run(config: &EngineConfig, timeline: &[(i64, Step)], start: i64) -> (Engine, Vec<Taken>) {
    let mut engine = Engine::new(config.clone());
    let mut now = Timestamp::from_secs(start);
    let mut taken = Vec::new();
    for (advance, step) in timeline {
        now = now.plus(Span::from_secs(*advance));
        let input = match step {
            Step::Look(snapshot) => Input::Cycle(Arc::new(moved(snapshot, start))),
            Step::SampleFailed => Input::SampleFailed { layout: None },
            Step::Reclaimed(second) => Input::Reclaimed(
                second
                    .as_ref()
                    .map(|second| Arc::new(moved(second, start).summary)),
            ),
            Step::Outcome { gone } => {
                let Some(uid) = engine.waiting().map(|waiting| waiting.victims[0].clone()) else {
                    continue;
                };
                if *gone {
                    Input::Evicted { uid }
                } else {
                    Input::EvictionFailed { uid, again: None }
                }
            }
            Step::CleanupTimeout => Input::CleanupTimeout,
        };
        taken.push(engine.handle(now, input));
    }
    (engine, taken)
}

fn moved(snapshot: &Snapshot, by: i64) -> Snapshot {
    fn shift(time: &mut Option<Timestamp>, by: i64) {
        *time = time.map(|time| time.plus(Span::from_secs(by)));
    }
    let mut snapshot = snapshot.clone();
    let Summary {
        memory,
        nodefs,
        imagefs,
        containerfs,
        rlimit,
        system_containers,
        ..
    } = &mut snapshot.summary;
    memory
        .iter_mut()
        .for_each(|memory| shift(&mut memory.time, by));
    [nodefs, imagefs, containerfs]
        .into_iter()
        .flatten()
        .for_each(|fs| shift(&mut fs.time, by));
    rlimit
        .iter_mut()
        .for_each(|rlimit| shift(&mut rlimit.time, by));
    let containers = system_containers
        .iter_mut()
        .filter_map(|container| container.memory.as_mut());
    containers.for_each(|memory| shift(&mut memory.time, by));
    snapshot
}

/// Observations carry instants; for comparing decisions they are taken out.
fn without_times(mut taken: Vec<Taken>) -> Vec<Taken> {
    for action in taken.iter_mut().flatten().flatten() {
        if let Action::Evict(eviction) = action
            && let EvictionCause::Pressure {
                observed: Some(observed),
                ..
            } = &mut eviction.cause
        {
            observed.time = None;
        }
    }
    taken
}

fn may_go(pod: &Pod) -> bool {
    !critical::is_critical(pod) && pod.uid.as_str() != OWN
}

proptest! {
    // A case is a whole timeline.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn thresholds_take_one_pod_at_a_time_and_nobody_else_goes_meanwhile(config in config(), timeline in timeline()) {
        let mut engine = Engine::new(config.clone());
        let mut now = Timestamp::from_secs(0);
        for (advance, step) in &timeline {
            let Step::Look(snapshot) = step else { continue };
            now = now.plus(Span::from_secs(*advance));
            let was_waiting = engine.waiting().cloned();
            let Ok(actions) = engine.handle(now, Input::Cycle(Arc::new(snapshot.as_ref().clone()))) else { continue };
            let overdue = actions.iter().any(|action| matches!(action, Action::CleanupTimedOut(_)));
            let causes: Vec<_> = actions
                .iter()
                .filter_map(|action| if let Action::Evict(eviction) = action { Some(&eviction.cause) } else { None })
                .collect();
            if causes.iter().any(|cause| matches!(cause, EvictionCause::Pressure { .. })) {
                prop_assert_eq!(causes.len(), 1);
            }
            if was_waiting.is_some() && !overdue {
                prop_assert!(causes.is_empty());
                // A hard threshold that is met meanwhile ends the grace of those who are on their way; nobody else goes.
                let no_grace = actions.iter().any(|action| matches!(action, Action::EndGrace(_)));
                let expected = was_waiting.map(|waiting| match no_grace {
                    true => Waiting { since: now, grace: Span::ZERO, ..waiting },
                    false => waiting,
                });
                prop_assert_eq!(engine.waiting(), expected.as_ref());
            } else {
                prop_assert_eq!(engine.waiting().map_or(0, |waiting| waiting.victims.len()), causes.len());
            }
        }
    }

    #[test]
    fn no_critical_mirror_or_own_pod_is_ever_evicted(config in config(), timeline in timeline()) {
        let (_, taken) = run(&config, &timeline, 0);
        for action in taken.iter().flatten().flatten() {
            if let Action::Evict(eviction) = action {
                prop_assert!(may_go(&eviction.pod), "{:?}", eviction.pod);
            }
        }
    }

    #[test]
    fn decisions_do_not_depend_on_when_the_clock_started(
        config in config(),
        timeline in timeline(),
        shift in -1_000_000i64..1_000_000,
    ) {
        let (engine, taken) = run(&config, &timeline, 0);
        let (moved_engine, moved) = run(&config, &timeline, shift);
        // As text, because a limit may be NaN, which equals nothing.
        prop_assert_eq!(format!("{:?}", without_times(taken)), format!("{:?}", without_times(moved)));
        let deadline = engine.deadline().map(|at| at.plus(Span::from_secs(shift)));
        prop_assert_eq!(deadline, moved_engine.deadline());
    }

    #[test]
    fn no_clock_however_extreme_makes_it_panic(
        config in config(),
        timeline in timeline(),
        clock in vec(any::<i64>(), 6),
    ) {
        let mut engine = Engine::new(config);
        for ((_, step), now) in timeline.iter().zip(clock) {
            let now = Timestamp::from_nanos(now);
            if let Step::Look(snapshot) = step {
                let looked = engine.handle(now, Input::Cycle(Arc::new(snapshot.as_ref().clone())));
                prop_assert!(looked.is_ok() || snapshot.layout.is_none());
            }
            // Only has to return.
            let _ = engine.deadline();
        }
    }

    #[test]
    fn the_same_timeline_gives_the_same_decisions(config in config(), timeline in timeline()) {
        // As text, because a limit may be NaN, which equals nothing.
        let decisions = || format!("{:?}", run(&config, &timeline, 0).1);
        prop_assert_eq!(decisions(), decisions());
    }
}

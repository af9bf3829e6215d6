//! Memory hooks.

use std::time::Duration;

use eviction_user::bpf::{
    Armed, Attached, Credit, Event, Events, Facts, Family, Kind, Rung, SlotHandle,
};
use libtest_mimic::Failed;

use crate::{
    Outcome, Verdict, attach, collect,
    load::Load,
    not_attached, runtime,
    scratch::{Cgroup, Mount},
};

pub(crate) const MIB: u64 = 256;
/// Long enough for a guest under emulation.
pub(crate) const COMES: Duration = Duration::from_secs(20);
const STAYS_AWAY: Duration = Duration::from_millis(300);

/// An armed scope with a load in it. Fields are dropped in this order.
pub(crate) struct Scene {
    pub(crate) load: Load,
    slot: SlotHandle,
    pub(crate) events: Events,
    attached: Attached,
    cgroup: Cgroup,
}

impl Scene {
    pub(crate) fn new(mut attached: Attached, cgroup: Cgroup) -> Result<Self, Failed> {
        let slot = attached.memory_slot(Some(Cgroup::id(&cgroup.path)?))?;
        let events = attached.take_events()?;
        Ok(Self {
            load: Load::start(&cgroup.inner())?,
            slot,
            events,
            attached,
            cgroup,
        })
    }

    /// Looks and arms until nothing happened during the look, as an agent does. Returns the threshold in pages.
    pub(crate) fn arm(&mut self, distance: u64, levels: bool) -> Result<u64, Failed> {
        for _ in 0..10 {
            let mark = self.slot.begin();
            let threshold = self.cgroup.usage_pages()? + distance;
            let credit = Credit {
                units: distance,
                level: levels.then_some(threshold),
            };
            let usage = || self.cgroup.usage_pages().ok();
            if self.slot.arm_checking(mark, credit, usage) == Armed::Armed {
                return Ok(threshold);
            }
        }
        Err("ten looks in a row were overtaken although the load was at rest".into())
    }

    fn check(&self, event: &Event, rung: Rung) -> Result<(), Failed> {
        let inner = Cgroup::id(&self.cgroup.inner())?;
        let expected = (
            inner,
            self.slot.index(),
            Kind::Memory as u8,
            rung as u8,
            self.load.id(),
        );
        let found = (
            event.cgroup_id,
            event.slot,
            event.kind,
            event.rung,
            event.tgid,
        );
        if found != expected {
            return Err(format!(
                "event {event:?}: (cgroup, slot, kind, rung, tgid) {found:?}, expected {expected:?}"
            )
            .into());
        }
        Ok(())
    }
}

fn scene(facts: &Facts, allow: &[Rung], name: &str) -> Result<Result<Scene, Outcome>, Failed> {
    let attached = match attach(facts, allow, false) {
        Ok(attached) => attached,
        Err(reason) => return Ok(Err(not_attached(reason))),
    };
    match Cgroup::new(facts, name) {
        Ok(cgroup) => Ok(Ok(Scene::new(attached, cgroup)?)),
        Err(reason) => Ok(Err(Ok(Verdict::Skipped(reason)))),
    }
}

pub(crate) fn one_event_per_arming(facts: &Facts, rung: Rung, levels: bool) -> Outcome {
    let runtime = runtime()?;
    let guard = runtime.enter();
    let mut scene = match scene(facts, &[rung], "arming")? {
        Ok(scene) => scene,
        Err(outcome) => return outcome,
    };
    drop(guard);
    runtime.block_on(async {
        // The load's own start (its stack, its loader) is not part of the story.
        scene.load.command("touch 1")?;
        let mut words = Vec::new();
        for _ in 0..3 {
            let threshold = scene.arm(16 * MIB, levels)?;
            let elsewhere = vec![1_u8; 8 << 20];
            assert!(elsewhere.iter().step_by(4096).all(|byte| *byte == 1));
            if levels {
                scene.load.command("touch 8")?;
                let early = collect(&mut scene.events, STAYS_AWAY, 1).await?;
                if !early.is_empty() {
                    let usage = scene.cgroup.usage_pages()?;
                    return Err(
                        format!("at {usage} of {threshold} pages already: {early:?}").into(),
                    );
                }
                scene.load.command("touch 12")?;
            } else {
                scene.load.command("touch 20")?;
            }
            let events = collect(&mut scene.events, COMES, 1).await?;
            let [event] = events.as_slice() else {
                let spent = scene.slot.spent_since(scene.slot.begin());
                return Err(format!(
                    "no event at {} of {threshold} pages ({spent})",
                    scene.cgroup.usage_pages()?
                )
                .into());
            };
            scene.check(event, rung)?;
            if levels && !(threshold - 4 * MIB..=threshold).contains(&event.usage) {
                return Err(
                    format!("usage {} at the event, threshold {threshold}", event.usage).into(),
                );
            }
            scene.load.command("touch 8")?;
            let more = collect(&mut scene.events, STAYS_AWAY, 1).await?;
            if !more.is_empty() {
                return Err(format!("one arming, a second event: {event:?}, {more:?}").into());
            }
            words.push(event.limit_word);
        }
        words.dedup();
        if words.len() != 3 || scene.attached.drops()?.memory != 0 {
            return Err(format!(
                "limit words {words:x?}, drops {:?}",
                scene.attached.drops()?
            )
            .into());
        }
        Ok(Verdict::Passed)
    })
}

/// The page cache enters by write(2), which does not fault.
pub(crate) fn reading_and_writing_files_counts(facts: &Facts) -> Outcome {
    let runtime = runtime()?;
    let guard = runtime.enter();
    let mut scene = match scene(facts, &[Rung::PerfFaults, Rung::TraceFilemap], "filemap")? {
        Ok(scene) => scene,
        Err(outcome) => return outcome,
    };
    drop(guard);
    let mount = match Mount::ext4() {
        Ok(mount) => mount,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let path = |number: u32| mount.path().join(number.to_string()).display().to_string();
    runtime.block_on(async {
        scene.load.command(&format!("write {} 1", path(0)))?;
        scene.arm(16 * MIB, true)?;
        scene.load.command(&format!("write {} 8", path(1)))?;
        let early = collect(&mut scene.events, STAYS_AWAY, 1).await?;
        if !early.is_empty() {
            return Err(format!("8 MiB written, 16 MiB from the threshold: {early:?}").into());
        }
        scene.load.command(&format!("write {} 12", path(2)))?;
        let events = collect(&mut scene.events, COMES, 1).await?;
        let [event] = events.as_slice() else {
            let usage = scene.cgroup.usage_pages()?;
            return Err(format!(
                "20 MiB written, 16 MiB from the threshold, no event; usage {usage} pages"
            )
            .into());
        };
        scene.check(event, Rung::TraceFilemap)?;
        Ok(Verdict::Passed)
    })
}

/// Far from the threshold one sample stands for 64 faults; coming near, the agent is told to look again and then every
/// fault counts.
pub(crate) fn faults_are_sampled_while_far_away(facts: &Facts) -> Outcome {
    let runtime = runtime()?;
    let guard = runtime.enter();
    let mut scene = match scene(facts, &[Rung::PerfFaults], "batches")? {
        Ok(scene) => scene,
        Err(outcome) => return outcome,
    };
    drop(guard);
    let per_fault = u64::from(facts.pages_per_fault());
    let far = 64 * per_fault * u64::from(facts.cpus) * 16;
    runtime.block_on(async {
        scene.load.command("touch 1")?;
        scene.arm(far, true)?;
        let mark = scene.slot.begin();
        scene.load.command("touch 16")?;
        let spent = scene.slot.spent_since(mark);
        if spent % (64 * per_fault) != 0 || spent == 0 {
            return Err(format!(
                "{spent} pages spent in batches of 64 faults of {per_fault} pages"
            )
            .into());
        }
        let early = collect(&mut scene.events, STAYS_AWAY, 1).await?;
        if !early.is_empty() {
            return Err(format!("{far} pages from the threshold: {early:?}").into());
        }
        let mark = scene.slot.begin();
        let threshold = scene.cgroup.usage_pages()? + 8 * MIB;
        let armed = scene.slot.arm(
            mark,
            Credit {
                units: 8 * MIB,
                level: Some(threshold),
            },
        );
        if armed != Armed::AlreadyCrossed {
            return Err("the period became shorter, but the look counts as whole".into());
        }
        scene.arm(8 * MIB, true)?;
        scene.load.command("touch 12")?;
        let events = collect(&mut scene.events, COMES, 1).await?;
        let [event] = events.as_slice() else {
            return Err("no event after the change of period".into());
        };
        scene.check(event, Rung::PerfFaults)?;
        Ok(Verdict::Passed)
    })
}

pub(crate) fn the_plan_attaches_something(facts: &Facts) -> Outcome {
    let attached = Attached::attach(facts, &eviction_user::bpf::plan(facts), &Default::default());
    if !eviction_user::bpf::BUILT || !facts.capabilities.may_trace() {
        return Ok(Verdict::Skipped(
            "built without eBPF, or no privilege".into(),
        ));
    }
    let attached_to = |family| attached.report().of(family).is_attached();
    if !attached_to(Family::Memory) || !attached_to(Family::Inodes) {
        return Err(format!("{:?}", attached.report()).into());
    }
    Ok(Verdict::Passed)
}

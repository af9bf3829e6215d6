//! Tasks: every process and thread counts, for the node as a whole. Others make tasks too while these run: figures are
//! lower bounds.

use std::time::Duration;

use eviction_user::bpf::{Armed, Credit, Facts, Kind, Rung};

use crate::{
    Outcome, Verdict, attach, collect, load::Load, not_attached, runtime, scratch::Cgroup,
};

const COMES: Duration = Duration::from_secs(20);
const STAYS_AWAY: Duration = Duration::from_millis(200);
/// Most of the tasks made meanwhile are the load's, so that one of these crossings is very likely to be its.
const ARMINGS: u32 = 10;

const fn credit(units: u64) -> Credit {
    Credit { units, level: None }
}

pub(crate) fn a_storm_is_one_event_per_arming(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceNewTask], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let cgroup = match Cgroup::new(facts, "tasks") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let id = Cgroup::id(&cgroup.inner())?;
    runtime()?.block_on(async {
        let mut events = attached.take_events()?;
        let mut slot = attached.forks_slot()?;
        let mut load = Load::start(&cgroup.inner())?;
        let mut ours = 0;
        for _ in 0..ARMINGS {
            let mark = slot.begin();
            if slot.arm(mark, credit(50)) != Armed::Armed {
                continue;
            }
            load.command("threads 500")?;
            if slot.spent_since(mark) < 500 {
                return Err(format!("500 threads, {} counted", slot.spent_since(mark)).into());
            }
            let found = collect(&mut events, COMES, 1).await?;
            let [event] = found.as_slice() else {
                return Err("no event after 500 threads of 50".into());
            };
            if (event.kind, event.rung, event.slot)
                != (Kind::Forks as u8, Rung::TraceNewTask as u8, slot.index())
            {
                return Err(format!("{event:?}").into());
            }
            ours += u32::from((event.cgroup_id, event.tgid) == (id, load.id()));
            let more = collect(&mut events, STAYS_AWAY, 1).await?;
            if !more.is_empty() {
                return Err(format!("one arming, a second event: {more:?}").into());
            }
        }
        if ours == 0 {
            return Err(
                "no event named the cgroup and the process that made nearly all tasks".into(),
            );
        }
        let mark = slot.begin();
        load.command("processes 20")?;
        if slot.spent_since(mark) < 20 {
            return Err(format!("20 processes, {} counted", slot.spent_since(mark)).into());
        }
        Ok(Verdict::Passed)
    })
}

//! Disk space that a CPU keeps for itself before it spends it.

use std::{fs::File, io::Write, os::unix::fs::MetadataExt, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use eviction_user::bpf::{Armed, Credit, Facts, Family, Rung};

use crate::{Failed, Outcome, Verdict, attach, collect, not_attached, runtime, scratch::Mount};

const BLOCK: u64 = 4096;
const COMES: Duration = Duration::from_secs(20);
const STAYS_AWAY: Duration = Duration::from_millis(300);
/// As many blocks as a CPU keeps fewer than while the line is far (`credit::BYTES_BATCH`).
const BATCH: u64 = 64;
const NEAR: Credit = Credit {
    units: 16 * BLOCK,
    level: None,
};

pub(crate) fn kept_while_the_line_is_far_and_spent_when_it_is_near(
    facts: &Facts,
    rung: Rung,
) -> Outcome {
    let mut attached = match attach(facts, &[rung], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let mount = match Mount::ext4() {
        Ok(mount) => mount,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let device = mount.path().metadata()?.dev();
    let mut slot = attached.device_slot(Family::Ext4Bytes, device)?;
    let everywhere = sched_getaffinity(Pid::from_raw(0))?;
    let mut one = CpuSet::new();
    one.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    let told = runtime()?.block_on(async {
        let mut events = attached.take_events()?;
        let mut file = File::create(mount.path().join(rung.name().replace('/', "-")))?;
        let mut write = |blocks: u64| blocks_to(&mut file, blocks);
        // The first one that a CPU sees is spent at once; those that follow are its run.
        write(1)?;
        let mark = slot.begin();
        let far = Credit {
            units: 1 << 40,
            level: None,
        };
        if slot.arm(mark, far) != Armed::Armed {
            return Err("crossed before anything was written".into());
        }
        write(BATCH / 2)?;
        let spent = slot.spent_since(mark);
        if spent != 0 {
            return Err(format!("{spent} bytes are spent that a CPU could keep").into());
        }
        write(BATCH / 2)?;
        let spent = slot.spent_since(mark);
        if spent != BATCH * BLOCK {
            return Err(format!("a batch is full, and {spent} bytes are spent").into());
        }
        write(BATCH / 4)?;
        let grown: i64 = attached.growth().map(|(_, _, grown)| grown.net).sum();
        let written = (1 + BATCH + BATCH / 4) * BLOCK;
        if grown != written.cast_signed() {
            return Err(format!("{written} bytes written, {grown} counted as somebody's").into());
        }
        // What a CPU kept under the longer batch is not reckoned with: it has to be looked again.
        if slot.arm(slot.begin(), NEAR) != Armed::AlreadyCrossed {
            return Err("a batch became shorter, and no look was asked for".into());
        }
        // The next block brings all that was kept along.
        let mark = slot.begin();
        write(1)?;
        let spent = slot.spent_since(mark);
        if spent != (BATCH / 4 + 1) * BLOCK {
            return Err(format!("{spent} bytes are spent with what was kept").into());
        }
        collect(&mut events, COMES, 1).await?;
        let mark = slot.begin();
        if slot.arm(mark, NEAR) != Armed::Armed {
            return Err("crossed before anything more was written".into());
        }
        // Half of the distance is given, near the line.
        write(7)?;
        let early = collect(&mut events, STAYS_AWAY, 1).await?;
        if !early.is_empty() {
            return Err(format!("7 of 8 blocks: {early:?}").into());
        }
        write(1)?;
        let found = collect(&mut events, COMES, 1).await?;
        let amounts: Vec<u64> = found.iter().map(|event| event.amount).collect();
        if amounts != [8 * BLOCK] {
            return Err(format!("8 of 8 blocks: {found:?}").into());
        }
        Ok(Verdict::Passed)
    });
    sched_setaffinity(Pid::from_raw(0), &everywhere)?;
    told
}

fn blocks_to(file: &mut File, blocks: u64) -> Result<(), Failed> {
    for _ in 0..blocks {
        file.write_all(&[1; BLOCK as usize])?;
    }
    Ok(())
}

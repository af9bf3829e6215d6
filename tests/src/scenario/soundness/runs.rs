//! How often the kernel side works, and how often it wakes user space, for what is charged: counts, which mean the same under
//! emulation.

use super::looks::Looks;
use super::stage::Stage;
use super::{Line, Settings, arguments, mem_total};
use crate::load::worker::Command;
use crate::scenario::Programs;
use anyhow::{Context, Result};
use eviction_user::bpf::RunStats;
use serde::Serialize;

const MIB: u64 = 1 << 20;
const PAGE_KIB: u64 = 4;
/// A worker takes so much and gives it back, again and again: as a compiler does.
const BREATH_KIB: u64 = 32 * 1024;

#[derive(Clone, Debug, Serialize)]
pub struct ChargeRuns {
    pub line: Line,
    pub source: String,
    /// Pages that the load took, all of them charged.
    pub pages: u64,
    /// Runs of the attached programs meanwhile.
    pub program_runs: u64,
    /// Looks that an event led to.
    pub event_looks: u64,
    pub timed_looks: u64,
    pub event_looks_per_gib: f64,
}

/// Lets a load take `mib` in all and give it back in between, `distance_mib` below the line. No such look can find the line
/// crossed: each is wasted.
pub fn charge_runs(
    programs: &Programs,
    settings: &Settings,
    mib: u64,
    distance_mib: u64,
) -> Result<ChargeRuns> {
    let mut settings = settings.clone();
    settings.limit = (distance_mib + 256) * MIB;
    let mut stage = Stage::set(programs, &settings)?;
    let figure = super::oracle::Figure::of(settings.line, &stage.tree)?;
    let base = figure.read()? + BREATH_KIB * 1024;
    let whole = match settings.line {
        Line::Node => mem_total()?,
        Line::Group => settings.limit,
    };
    let left = whole
        .checked_sub(base + distance_mib * MIB)
        .context("this machine has too little memory for that distance")?;
    let args = arguments(
        &settings,
        &stage.tree,
        &format!("{}<{left}", settings.line.signal()),
    );
    let _counting = RunStats::enable().context("the kernel does not count program runs")?;
    let mut looks = Looks::start(programs, &args, settings.line.signal())?;
    looks.settle()?;
    let before = runs(looks.pid())?;
    let (mut event_looks, mut timed_looks, mut taken_kib) = (0, 0, 0);
    while taken_kib < mib * 1024 {
        let kib = BREATH_KIB.min(mib * 1024 - taken_kib);
        stage.workers[0].tell(&Command::Touch { kib: kib as usize })?;
        stage.workers[0].tell(&Command::Release {
            kib: BREATH_KIB as usize,
        })?;
        taken_kib += kib;
        for look in looks.settle()? {
            if look.is_timed() {
                timed_looks += 1;
            } else {
                event_looks += 1;
            }
        }
    }
    Ok(ChargeRuns {
        line: settings.line,
        source: looks.source(),
        pages: taken_kib / PAGE_KIB,
        program_runs: runs(looks.pid())? - before,
        event_looks,
        timed_looks,
        event_looks_per_gib: event_looks as f64 * 1024.0 / mib as f64,
    })
}

/// Runs of all programs that the process holds, as their descriptors tell (`bpf_prog_show_fdinfo()`, 5.1 and later).
fn runs(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/fdinfo");
    let mut sum = 0;
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        // A descriptor may be closed while the list is read.
        let info = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        let count = info
            .lines()
            .find_map(|line| line.strip_prefix("run_cnt:")?.trim().parse::<u64>().ok());
        sum += count.unwrap_or(0);
    }
    Ok(sum)
}

//! The demo: the three stories in a row, told as a timeline, judged by figures.

use super::{Events, InodeOutcome, InodeStory, MemoryOutcome, MemoryStory, Programs, Record};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

const EVENT_TO_KILL_LIMIT_US: u64 = 20_000;
const OVERSHOOT_LIMIT: u64 = 16 << 20;

#[derive(Debug, Serialize)]
pub struct Demo {
    pub memory: MemoryOutcome,
    pub control: MemoryOutcome,
    pub inodes: InodeOutcome,
}

impl Demo {
    /// Runs all three; `say` is called with each line for people as it is known.
    pub fn run(programs: &Programs, say: &mut dyn FnMut(&str)) -> Result<Self> {
        let story = MemoryStory::native(Events::Auto);
        say(&format!(
            "1. memory: a cgroup with a limit of {} MiB, evict when less than {} MiB are available in it",
            story.limit, story.threshold
        ));
        say(&format!(
            "   important holds {} MiB (request {} MiB), calm holds {} MiB, hog takes {} MiB/s without end",
            story.important, story.important_request, story.calm, story.rate
        ));
        let memory = story.run(programs)?;
        memory_timeline(&memory).iter().for_each(|line| say(line));

        say("");
        say("2. control: the same without events, looking every 10 s as the kubelet does");
        let control = MemoryStory::native(Events::None).run(programs)?;
        say(&format!(
            "   OOM kills: {}; evicted in time: {}",
            control.oom_kills,
            if control.victim.is_empty() {
                "nobody"
            } else {
                &control.victim
            }
        ));

        say("");
        let story = InodeStory::native(Events::Auto);
        say(&format!(
            "3. inodes: an ext4 with {} inodes, evict when less than {} % are free; hog makes files as fast as it can",
            story.inodes, story.percent
        ));
        let inodes = story.run(programs)?;
        inode_timeline(&inodes).iter().for_each(|line| say(line));
        Ok(Self {
            memory,
            control,
            inodes,
        })
    }

    /// What is not as it should be; empty: all is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = memory_faults(&self.memory);
        if self.control.oom_kills == 0 {
            faults.push("control: no OOM kill, so it shows nothing".to_owned());
        }
        faults.extend(inode_faults(&self.inodes));
        faults
    }

    pub fn json(&self) -> Value {
        json!({
            "memory": self.memory,
            "control": { "victim": self.control.victim, "oom_kills": self.control.oom_kills },
            "inodes": self.inodes,
        })
    }
}

/// The figures that a native run must show for memory.
pub fn memory_faults(outcome: &MemoryOutcome) -> Vec<String> {
    let mut faults = right_victim("memory", &outcome.victim, outcome.siblings_alive);
    if !is_ebpf_rung(&outcome.source) {
        faults.push(format!(
            "memory: the decision was woken by {:?}, not by an eBPF program",
            outcome.source
        ));
    }
    match outcome.event_to_kill_us {
        Some(us) if us <= EVENT_TO_KILL_LIMIT_US => {}
        Some(us) => faults.push(format!(
            "memory: {us} us from the event to SIGKILL, the limit is {EVENT_TO_KILL_LIMIT_US}"
        )),
        None => faults.push("memory: no kill that followed an event".to_owned()),
    }
    if outcome.overshoot_bytes >= OVERSHOOT_LIMIT {
        faults.push(format!(
            "memory: {} past the line, the limit is {OVERSHOOT_LIMIT} bytes",
            outcome.overshoot_bytes
        ));
    }
    if outcome.oom_kills > 0 {
        faults.push(format!(
            "memory: the OOM killer struck {} times",
            outcome.oom_kills
        ));
    }
    if outcome.sample_age_us.is_none_or(|age| age >= 50_000) {
        faults.push(format!(
            "memory: the sample was {:?} us old at the decision",
            outcome.sample_age_us
        ));
    }
    faults
}

/// The figures that a native run must show for inodes.
pub fn inode_faults(outcome: &InodeOutcome) -> Vec<String> {
    let mut faults = right_victim("inodes", &outcome.victim, outcome.siblings_alive);
    if !is_ebpf_rung(&outcome.source) {
        faults.push(format!(
            "inodes: the decision was woken by {:?}, not by an eBPF program",
            outcome.source
        ));
    }
    if outcome.enospc {
        faults.push("inodes: the file system was full (ENOSPC)".to_owned());
    }
    faults
}

/// What must hold on every machine: the hog went and nobody else.
pub fn right_victim(story: &str, victim: &str, siblings_alive: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if victim != "hog" {
        faults.push(format!("{story}: the victim was {victim:?}, not the hog"));
    }
    if !siblings_alive {
        faults.push(format!("{story}: a sibling of the hog died"));
    }
    faults
}

/// Without events a look comes from the timer; once in ten seconds the cycle's own look may be the one.
pub fn is_timer(source: &str) -> bool {
    matches!(source, "timer" | "interval")
}

/// A rung is named `mechanism/hook`; timers are single words.
pub fn is_ebpf_rung(source: &str) -> bool {
    source.contains('/')
}

fn memory_timeline(outcome: &MemoryOutcome) -> Vec<String> {
    let mut lines = timeline(&outcome.records, outcome.crossing_ns);
    lines.push(format!(
        "   overshoot past the line: {:.1} MiB; event to SIGKILL: {}; OOM kills: {}; siblings alive: {}",
        outcome.overshoot_bytes as f64 / f64::from(1 << 20),
        micros(outcome.event_to_kill_us),
        outcome.oom_kills,
        yes(outcome.siblings_alive),
    ));
    lines
}

fn inode_timeline(outcome: &InodeOutcome) -> Vec<String> {
    let mut lines = timeline(&outcome.records, outcome.crossing_ns);
    lines.push(format!(
        "   inodes free when the hog was gone: {} (line: {}); event to SIGKILL: {}; ENOSPC: {}; siblings alive: {}",
        outcome.inodes_free,
        outcome.threshold,
        micros(outcome.event_to_kill_us),
        yes(outcome.enospc),
        yes(outcome.siblings_alive),
    ));
    lines
}

/// The crossing, the last event before the decision, and all that follows.
fn timeline(all: &[Record], crossing_ns: Option<u64>) -> Vec<String> {
    let Some(decision) = all.iter().position(|r| r.kind() == "decision") else {
        return Vec::new();
    };
    let event = all[..decision]
        .iter()
        .rposition(|r| r.kind() == "event")
        .unwrap_or(decision);
    let zero = crossing_ns.unwrap_or_else(|| all[event].t_ns());
    let crossing = match crossing_ns {
        Some(_) => "the hog's own count is at the line",
        // Page tables and what a CPU charges ahead belong to the cgroup too, so it crosses a little earlier.
        None => "seen by the kernel before the hog's own count came to the line",
    };
    let mut lines = vec![at(zero, zero, "crossing", crossing)];
    lines.extend(all[event..].iter().flat_map(|record| told(record, zero)));
    lines
}

fn micros(us: Option<u64>) -> String {
    us.map_or("none".to_owned(), |us| format!("{us} us"))
}

fn told(record: &Record, zero: u64) -> Vec<String> {
    let line = |what: &str, text: String| at(record.t_ns(), zero, what, &text);
    match record.kind() {
        "event" if record.0["while_arming"] == true => {
            vec![line(
                "event",
                format!("{}, found while arming", record.text("rung")),
            )]
        }
        "event" => vec![line(
            "event",
            format!("{} in {}", record.text("rung"), record.text("cgroup")),
        )],
        "decision" => {
            let looked = record.number("looked_ns").unwrap_or(0);
            let available = record.number("available").unwrap_or(0);
            let mut lines = vec![
                at(
                    looked,
                    zero,
                    "look",
                    &format!(
                        "{} available, {}",
                        amount(record, available),
                        record.text("signal")
                    ),
                ),
                line(
                    "victim",
                    format!("{}: {}", record.text("victim"), record.text("message")),
                ),
            ];
            let candidates = record.0["ranking"]["candidates"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            lines.extend(candidates.iter().filter_map(|candidate| {
                let why = candidate["why_not"].as_str()?;
                let usage = amount(record, candidate["usage"].as_u64().unwrap_or(0));
                Some(format!(
                    "{:36}spared: {} (uses {usage}): {why}",
                    "",
                    candidate["name"].as_str().unwrap_or("")
                ))
            }));
            lines
        }
        "kill" => vec![line(
            "kill",
            format!(
                "{} processes by {}",
                record.number("processes").unwrap_or(0),
                record.text("method")
            ),
        )],
        "gone" => vec![line(
            "empty",
            "no process is left in the victim's cgroup".to_owned(),
        )],
        _ => Vec::new(),
    }
}

fn amount(decision: &Record, n: u64) -> String {
    if decision.text("signal").contains("emory") {
        format!("{:.1} MiB", n as f64 / f64::from(1 << 20))
    } else {
        format!("{n} inodes")
    }
}

fn at(t_ns: u64, zero: u64, what: &str, text: &str) -> String {
    let ms = (i128::from(t_ns) - i128::from(zero)) as f64 / 1e6;
    format!("   {ms:+10.3} ms  {what:<10} {text}")
}

fn yes(answer: bool) -> &'static str {
    if answer { "yes" } else { "no" }
}

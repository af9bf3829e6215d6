//! `cargo xtask bench cluster`: one hog on one node, past one line, evicted by the kubelet as it polls, by the kubelet with its
//! memcg notifier, and by the chart's pod beside it; in turns, so that what drifts hits all alike.

mod in_guest;
mod pairing;
mod round;
mod told;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use eviction_user::sys::cgroup::Hierarchy;
use eviction_user::sys::node_memory::NodeMemoryReader;
use serde::Serialize;
use xtask::cluster::Disks;

use crate::node::Node;
use pairing::Paired;
use round::Round;

const NAME: &str = "evbench";
const MIB: u64 = 1 << 20;
/// Left for all pods together when the line is crossed: more than the hog takes while a kubelet sleeps.
const LINE_MIB: u64 = 5_632;
/// Taken before that.
const BEFORE_MIB: u64 = 512;
const RATE_MIB: u64 = 500;

#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Bench {
    /// Runs of each mode.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Instead: so many hogs one after the other, beside a kubelet that evicts, too.
    #[arg(long, value_name = "HOGS", conflicts_with = "runs")]
    pairing: Option<u32>,
    /// In a guest instead: on cgroup v2.
    #[arg(long, conflicts_with = "pairing")]
    guest: bool,
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Who evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    KubeletPoll,
    KubeletMemcg,
    Eviction,
}

impl Mode {
    const ALL: [Self; 3] = [Self::KubeletPoll, Self::KubeletMemcg, Self::Eviction];

    fn is_kubelet(self) -> bool {
        self != Self::Eviction
    }
}

/// The arguments, if the program was called for this.
pub(crate) fn asked() -> Option<Bench> {
    let mut arguments = std::env::args().skip(1).peekable();
    (arguments.peek()? == "bench").then(|| Bench::parse_from(arguments))
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    if bench.guest {
        return run_in_guest(bench);
    }
    enough_memory()?;
    let pods = LINE_MIB + BEFORE_MIB;
    let node = Node::up(NAME, pods, Disks::default())?;
    if let Some(hogs) = bench.pairing {
        let paired = Paired::all(&node, hogs);
        node.cluster.down()?;
        match bench.output {
            Output::Text => pairing::table(&paired?),
            Output::Json => pairing::json(&paired?),
        }
        return Ok(());
    }
    let runs = in_turns(&Mode::ALL, bench, |mode, name| {
        Round::run(&node, mode, name)
    });
    node.cluster.down()?;
    bench.tell(&runs?, RATE_MIB);
    Ok(())
}

fn run_in_guest(bench: &Bench) -> Result<()> {
    let node = Node::up(NAME, 1024, Disks::default())?;
    let runs = in_guest::Bed::make(&node)
        .and_then(|bed| in_turns(&in_guest::MODES, bench, |mode, _| bed.round(&node, mode)));
    node.cluster.down()?;
    bench.tell(&runs?, in_guest::RATE_MIB);
    Ok(())
}

impl Bench {
    fn tell(&self, runs: &[Round], rate_mib: u64) {
        match self.output {
            Output::Text => told::table(runs, rate_mib),
            Output::Json => println!("{}", serde_json::json!({"runs": runs})),
        }
    }
}

fn in_turns(
    modes: &[Mode],
    bench: &Bench,
    round: impl Fn(Mode, &str) -> Result<Round>,
) -> Result<Vec<Round>> {
    let mut runs = Vec::new();
    for number in 0..bench.runs {
        for &mode in modes {
            let name = format!("{mode:?}-{number}").to_lowercase();
            let round = round(mode, &name)?;
            eprintln!("  {}", told::line(&round));
            runs.push(round);
        }
    }
    Ok(runs)
}

/// The kubelet's line counts for the node, too, and must not be crossed there first.
fn enough_memory() -> Result<()> {
    let hierarchy = Hierarchy::detect()?;
    let available = NodeMemoryReader::open(&hierarchy)?.read()?.available() / MIB;
    let needed = 2 * LINE_MIB + BEFORE_MIB + 512;
    ensure!(
        available > needed,
        "this takes {needed} MiB of memory.available on the node, there are {available}: end what uses it, or try again when \
         its page cache has become inactive"
    );
    Ok(())
}

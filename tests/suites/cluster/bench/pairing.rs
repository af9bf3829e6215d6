//! Beside a kubelet that evicts, too: does one hog cost one pod, however close the two lines are?

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use super::round::set_kubelet;
use super::{LINE_MIB, RATE_MIB};
use crate::api::{record, text};
use crate::node::Node;
use crate::pods::Wish;

/// Far over its request: the next one to go, and to whoever ranks by stale figures the first. Less than the hog has at the line.
const SIBLING_MIB: u64 = 150;
/// The kubelet looks this often: the hog has to come at any moment of that alike.
const BETWEEN_LOOKS: u64 = 10_000;

/// How a kubelet is set up beside us.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Pairing {
    /// How far its line lies below ours.
    below_mib: u64,
    /// `kernelMemcgNotification`
    notifier: bool,
}

/// The recommended one first.
const PAIRINGS: [Pairing; 3] = [
    Pairing {
        below_mib: 100,
        notifier: true,
    },
    Pairing {
        below_mib: 0,
        notifier: true,
    },
    Pairing {
        below_mib: 0,
        notifier: false,
    },
];

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Paired {
    #[serde(flatten)]
    pairing: Pairing,
    hogs: u32,
    /// Of these the hog went, and went by our hand.
    ours: u32,
    /// Of these another pod went, too.
    second_victims: u32,
}

impl Paired {
    pub(super) fn all(node: &Node, repeats: u32) -> Result<Vec<Self>> {
        let paired = PAIRINGS.map(|pairing| {
            let paired = Self::run(node, pairing, repeats);
            if let Ok(paired) = &paired {
                eprintln!("  {}", paired.line());
            }
            paired
        });
        paired.into_iter().collect()
    }

    fn run(node: &Node, pairing: Pairing, repeats: u32) -> Result<Self> {
        set_kubelet(node, LINE_MIB - pairing.below_mib, pairing.notifier)?;
        let state = tempfile::tempdir()?;
        let line = format!("allocatableMemory.available<{LINE_MIB}Mi");
        let _evictor = node.evictor_as(&node.kubeconfig, &line, state.path())?;
        let mut paired = Self {
            pairing,
            hogs: 0,
            ours: 0,
            second_victims: 0,
        };
        for number in 0..repeats {
            paired.repeat(node, number)?;
            node.clean()?;
        }
        Ok(paired)
    }

    fn repeat(&mut self, node: &Node, number: u32) -> Result<()> {
        let sibling = Wish {
            request: Some("16Mi"),
            ..Wish::holding("sibling", SIBLING_MIB)
        };
        node.apply(&sibling.pod())?;
        node.until_running("default", "sibling")?;
        std::thread::sleep(Duration::from_millis(fastrand::u64(..BETWEEN_LOOKS)));
        let hog = Wish {
            restart: "Never",
            ..Wish::hog("hog", RATE_MIB)
        };
        node.apply(&hog.pod())?;
        let hog = node.until_torn_down("default", "hog")?;
        // A kubelet that was woken has decided by then; one that polls has looked.
        std::thread::sleep(Duration::from_millis(BETWEEN_LOOKS / 4));
        let sibling = node.pod("default", "sibling")?;
        self.hogs += 1;
        self.ours += u32::from(!record(&hog).is_empty());
        let went = text(&sibling, "/status/phase") != "Running";
        self.second_victims += u32::from(went);
        if went {
            eprintln!(
                "  hog {number}: the sibling went, too: {}",
                sibling["status"]["message"]
            );
        }
        Ok(())
    }

    fn line(&self) -> String {
        let Pairing {
            below_mib,
            notifier,
        } = self.pairing;
        let notifier = if notifier { "on" } else { "off" };
        format!(
            "kubelet {below_mib:>3} MiB below, notifier {notifier:<3}  {:>3} hogs, {:>3} ours, {:>3} second victims",
            self.hogs, self.ours, self.second_victims
        )
    }
}

pub(super) fn table(all: &[Paired]) {
    println!("one hog at a time, {RATE_MIB} MiB/s, beside a pod that is far over its request");
    for paired in all {
        println!("{}", paired.line());
    }
}

pub(super) fn json(all: &[Paired]) {
    println!("{}", json!({"pairings": all}));
}

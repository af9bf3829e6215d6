//! Disk use by workload, kept current without walking trees when a decision is due: a scan gives the base,
//! and what the kernel has counted since the scan began is added. Both are read together, so the two parts
//! meet without a gap; what is made while the scan is under way may be counted in both.

use super::scan::{ScanResult, ScanTarget, Scanned, Scanner};
use crate::model::{DiskBase, DiskGrowth, DiskUse, Resource, Timestamp};
use crate::ports::{Consumer, Grown, Growth};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Rest between two rounds. With the kernel's counters a scan only mends what they cannot see (files of
/// others that were deleted, restarts); without them it is all that is known.
const REST_WITH_COUNTERS: Duration = Duration::from_secs(60);
const REST_WITHOUT: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct DiskUses {
    scanner: Option<Scanner>,
    found: ScanResult,
    /// The kernel's counters as they are, and as they were when a round began.
    now: Growth,
    at_round: BTreeMap<u64, Growth>,
    /// The next round is not to wait until the last one is old.
    is_due: bool,
}

impl DiskUses {
    pub(super) fn new(scanner: Option<Scanner>) -> Self {
        Self {
            scanner,
            ..Self::default()
        }
    }

    /// With figures that are known already and will not change.
    pub(super) fn of_scan(found: ScanResult) -> Self {
        Self {
            found,
            ..Self::default()
        }
    }

    /// Takes in the counters as they are now.
    pub(super) fn update(&mut self, growth: &Growth) {
        self.now.clone_from(growth);
        if let Some(found) = self.scanner.as_ref().and_then(Scanner::found) {
            self.found = found;
        }
        let oldest = self.found.values().map(|scanned| scanned.round).min();
        self.at_round
            .retain(|round, _| oldest.is_none_or(|oldest| *round >= oldest));
        self.begin_round();
    }

    /// A scan is all there is where nobody counts: then it goes on without being asked by a decision. Only with counters that are
    /// read at that moment: what had grown before is found by the scan, and would count twice.
    pub(super) fn wants_round(&self) -> bool {
        let is_ready = |scanner: &Scanner| scanner.is_ready(self.rest());
        (self.is_due || !self.is_counted()) && self.scanner.as_ref().is_some_and(is_ready)
    }

    /// The directories lie elsewhere by now.
    pub(super) fn scan_anew(&mut self) {
        self.is_due = true;
    }

    fn is_counted(&self) -> bool {
        let counts = !self.now.inodes.is_empty() || !self.now.bytes.is_empty();
        counts && !self.now.uncounted_bytes
    }

    /// Has the kernel counted anything of this cgroup?
    pub(super) fn counts(&self, device: u64, cgroup: u64) -> bool {
        let consumer = Consumer { device, cgroup };
        self.now.inodes.contains_key(&consumer) || self.now.bytes.contains_key(&consumer)
    }

    fn rest(&self) -> Duration {
        match (self.is_due, self.is_counted()) {
            (true, _) => Duration::ZERO,
            (false, true) => REST_WITH_COUNTERS,
            (false, false) => REST_WITHOUT,
        }
    }

    fn begin_round(&mut self) {
        let rest = self.rest();
        if let Some(round) = self.scanner.as_ref().and_then(|s| s.begin(rest)) {
            self.is_due = false;
            self.at_round.insert(round, self.now.clone());
        }
    }

    /// `cgroups`: all that ever were seen below the workload's own, and that.
    pub(super) fn of(&self, workload: &str, cgroups: &BTreeSet<u64>, device: u64) -> DiskUse {
        let scanned = self.scanned(workload, device);
        let anchor = scanned.and_then(|s| Some((self.at_round.get(&s.round)?, s.began)));
        let grown = |resource| {
            let then = anchor.map(|(growth, began)| (growth.of(resource), began));
            grown(self.now.of(resource)?, then, cgroups, device)
        };
        DiskUse {
            device,
            base: scanned.map(|scanned| DiskBase {
                bytes: scanned.bytes,
                inodes: scanned.inodes,
                began: scanned.began,
            }),
            grown_bytes: grown(Resource::EphemeralStorage),
            grown_inodes: grown(Resource::Inodes),
        }
    }
}

impl DiskUses {
    /// All its directories together, as old as the oldest of them.
    fn scanned(&self, workload: &str, device: u64) -> Option<Scanned> {
        let first = ScanTarget {
            workload: workload.to_owned(),
            dir: PathBuf::new(),
        };
        let own = self
            .found
            .range(first..)
            .take_while(|(target, _)| target.workload == workload)
            .map(|(_, scanned)| *scanned);
        own.filter(|scanned| scanned.device == device)
            .reduce(Scanned::and)
    }
}

type Counters = BTreeMap<Consumer, Grown>;

/// The sum over the cgroups, from when a scan began if one did; `None`: none of them was counted.
fn grown(
    now: &Counters,
    then: Option<(Option<&Counters>, Timestamp)>,
    cgroups: &BTreeSet<u64>,
    device: u64,
) -> Option<DiskGrowth> {
    let parts = cgroups.iter().filter_map(|&cgroup| {
        let consumer = Consumer { device, cgroup };
        let now = now.get(&consumer)?;
        let Some((counters, began)) = then else {
            return Some((now.net, now.since));
        };
        match counters.and_then(|counters| counters.get(&consumer)) {
            Some(before) if before.since == now.since => {
                Some((now.net.saturating_sub(before.net), began))
            }
            // Its counting began anew in between: what came before that is lost, and the age says so.
            Some(_) => Some((now.net, now.since)),
            // It had used up nothing until then.
            None => Some((now.net, began)),
        }
    });
    parts.fold(None, |sum: Option<DiskGrowth>, (net, since)| {
        let so_far = sum.map_or(0, |sum| sum.net);
        Some(DiskGrowth {
            net: so_far.saturating_add(net),
            since: sum.map_or(since, |sum| sum.since.max(since)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::scan::Share;
    use super::*;

    const DISK: u64 = 8;
    const ATTACHED: Timestamp = Timestamp::from_secs(1);
    const SCAN: Timestamp = Timestamp::from_secs(50);

    fn growth(inodes: &[(u64, u64, i64, Timestamp)]) -> Growth {
        let counted = inodes.iter().map(|&(device, cgroup, net, since)| {
            (Consumer { device, cgroup }, Grown { net, since })
        });
        Growth {
            inodes: counted.collect(),
            ..Growth::default()
        }
    }

    fn scanned(round: u64) -> ScanResult {
        let found = Scanned {
            bytes: 4096,
            inodes: 100,
            device: DISK,
            unreadable: 0,
            began: SCAN,
            round,
        };
        [(target("web", "/a"), found)].into()
    }

    fn target(workload: &str, dir: &str) -> ScanTarget {
        ScanTarget {
            workload: workload.to_owned(),
            dir: dir.into(),
        }
    }

    fn uses(now: Growth, at_round: &[(u64, Growth)], found: ScanResult) -> DiskUses {
        DiskUses {
            scanner: None,
            found,
            now,
            at_round: at_round.iter().cloned().collect(),
            is_due: false,
        }
    }

    #[test]
    fn growth_counts_from_the_beginning_of_the_scan_for_all_cgroups_of_the_workload() {
        let before = growth(&[(DISK, 10, 7, ATTACHED)]);
        let now = growth(&[
            (DISK, 10, 30, ATTACHED),
            (DISK, 11, 5, SCAN),
            (DISK, 99, 1_000, ATTACHED),
            (DISK + 1, 10, 1_000, ATTACHED),
        ]);
        let uses = uses(now, &[(3, before)], scanned(3));
        let found = uses.of("web", &[10, 11].into(), DISK);
        let expected = DiskGrowth {
            net: 23 + 5,
            since: SCAN,
        };
        assert_eq!(found.grown_inodes, Some(expected));
        assert_eq!(found.inodes(), Some(128));
        assert_eq!((found.bytes(), found.grown_bytes), (Some(4096), None));
    }

    #[test]
    fn the_directories_of_a_workload_add_up_and_growth_counts_from_the_oldest_of_them() {
        let later = Timestamp::from_secs(70);
        let mut found = scanned(3);
        let other = Scanned {
            inodes: 7,
            began: later,
            round: 4,
            ..found[&target("web", "/a")]
        };
        let elsewhere = Scanned {
            device: DISK + 1,
            ..other
        };
        found.extend([
            (target("web", "/b"), other),
            (target("web", "/c"), elsewhere),
            (target("web2", "/d"), other),
        ]);
        let at = |net| growth(&[(DISK, 10, net, ATTACHED)]);
        let uses = uses(at(30), &[(3, at(10)), (4, at(25))], found);
        let found = uses.of("web", &[10].into(), DISK);
        let base = found.base.unwrap();
        assert_eq!((base.inodes, base.bytes, base.began), (107, 8192, SCAN));
        let expected = DiskGrowth {
            net: 20,
            since: SCAN,
        };
        assert_eq!(found.grown_inodes, Some(expected));
        let elsewhere = uses.of("web", &[10].into(), DISK + 1);
        assert_eq!(elsewhere.inodes(), Some(7));
    }

    #[test]
    fn without_a_scan_the_growth_is_all_that_is_known_and_its_age_is_that_of_the_counters() {
        let uses = uses(growth(&[(DISK, 10, 30, ATTACHED)]), &[], ScanResult::new());
        let found = uses.of("web", &[10].into(), DISK);
        assert_eq!(found.inodes(), Some(30));
        assert_eq!(found.grown_inodes.map(|g| g.since), Some(ATTACHED));
        assert_eq!(found.base, None);
    }

    #[test]
    fn after_a_restart_the_last_base_and_the_whole_new_growth_count() {
        let uses = uses(growth(&[(DISK, 10, 30, ATTACHED)]), &[], scanned(0));
        let found = uses.of("web", &[10].into(), DISK);
        assert_eq!(found.inodes(), Some(130));
        assert_eq!(found.grown_inodes.map(|g| g.since), Some(ATTACHED));
    }

    #[test]
    fn counters_that_began_anew_after_the_scan_are_not_compared_with_the_old_ones() {
        let later = Timestamp::from_secs(70);
        let before = growth(&[(DISK, 10, 500, ATTACHED)]);
        let uses = uses(growth(&[(DISK, 10, 4, later)]), &[(3, before)], scanned(3));
        let found = uses.of("web", &[10].into(), DISK);
        let expected = DiskGrowth {
            net: 4,
            since: later,
        };
        assert_eq!(found.grown_inodes, Some(expected));
    }

    #[test]
    fn a_round_goes_by_the_counters_of_the_moment_in_which_it_begins() {
        let dir = tempfile::tempdir().unwrap();
        let targets = vec![target("web", dir.path().to_str().unwrap())];
        let scanner =
            Scanner::start(Box::new(move || targets.clone()), Share::Tenth, None).unwrap();
        let mut uses = DiskUses::new(Some(scanner));
        // Nobody knows yet what was counted before.
        assert!(uses.wants_round() && uses.at_round.is_empty());
        let counted = growth(&[(DISK, 10, 7, ATTACHED)]);
        uses.update(&counted);
        assert_eq!(uses.at_round, [(1, counted.clone())].into());
        // From then on a decision begins it, when the last one is old.
        while uses.found.is_empty() {
            uses.update(&counted);
            std::thread::yield_now();
        }
        assert!(!uses.wants_round());
        uses.scan_anew();
        while !uses.wants_round() {
            std::thread::yield_now();
        }
        let more = growth(&[(DISK, 10, 9, ATTACHED)]);
        uses.update(&more);
        assert_eq!(uses.at_round.get(&2), Some(&more));
    }

    #[test]
    fn where_some_space_is_in_no_counter_the_scans_go_on_as_if_nobody_counted() {
        let counted = growth(&[(DISK, 10, 30, ATTACHED)]);
        let partly = Growth {
            uncounted_bytes: true,
            ..counted.clone()
        };
        let is_counted = |now| uses(now, &[], ScanResult::new()).is_counted();
        assert_eq!(
            [counted, partly, Growth::default()].map(is_counted),
            [true, false, false]
        );
    }

    #[test]
    fn what_was_scanned_on_another_file_system_says_nothing_about_this_one() {
        let uses = uses(Growth::default(), &[], scanned(1));
        assert_eq!(uses.of("web", &[10].into(), DISK + 1).inodes(), None);
        assert_eq!(uses.of("other", &[10].into(), DISK).inodes(), None);
    }
}

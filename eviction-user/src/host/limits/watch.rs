//! When to measure, and how near the nearest limit is.

use super::super::disk_use::grown;
use super::super::file_systems::Devices;
use super::meter::{Answer, Meter, Request};
use super::part::{self, MeasuredPart};
use crate::model::{FsLayout, ObservedPod, Timestamp};
use crate::ports::{Growth, LimitsLook};
use crate::sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two checks, also where somebody writes and writes just below a limit.
const PACE: Duration = Duration::from_millis(50);
/// A check takes no more of the deciding thread than a twentieth.
const REST: u32 = 19;
/// Who is new is found so soon.
const DISCOVERY: Duration = Duration::from_secs(1);
/// All are measured again so often: with the kernel's counters, for what they do not tell of a pod (the runtime writes its logs);
/// without them, because nothing else tells.
const SWEEP_WITH_COUNTERS: Duration = Duration::from_secs(10);
const SWEEP_WITHOUT: Duration = Duration::from_secs(1);
/// So much may be used up past a limit before it is noticed, rather than a look for every block near it.
const LEAST: u64 = 1 << 20;

#[derive(Debug)]
pub struct LimitWatch {
    meter: Meter,
    found: BTreeMap<String, Found>,
    /// The kernel's counters when a round was asked for.
    at_round: BTreeMap<u64, Growth>,
    round: u64,
    is_measuring: bool,
    asked: Option<Timestamp>,
    swept: Option<Timestamp>,
    next_check: Timestamp,
    /// Who was found to break a limit, and was told.
    told: BTreeSet<String>,
}

#[derive(Debug)]
struct Found {
    parts: Vec<MeasuredPart>,
    round: u64,
}

impl Found {
    /// Bytes to the nearest limit; negative: it is broken.
    fn left(&self, layout: FsLayout) -> i64 {
        let parts = self.parts.iter().map(|part| part.left(layout));
        parts.min().unwrap_or(i64::MAX)
    }
}

/// Whose growth it is.
pub(in super::super) struct LimitPlace<'a> {
    pub(in super::super) layout: FsLayout,
    pub(in super::super) devices: Devices,
    /// Of a workload.
    pub(in super::super) cgroups: &'a mut dyn FnMut(&str) -> BTreeSet<u64>,
}

impl LimitWatch {
    pub fn new(meter: Meter) -> Self {
        Self {
            meter,
            found: BTreeMap::new(),
            at_round: BTreeMap::new(),
            round: 0,
            is_measuring: false,
            asked: None,
            swept: None,
            next_check: clock::now(),
            told: BTreeSet::new(),
        }
    }

    /// When the next check makes sense.
    pub(in super::super) fn due_in(&self) -> Duration {
        clock::between(clock::now(), self.next_check)
    }

    pub(in super::super) fn check(
        &mut self,
        growth: &Growth,
        place: &mut LimitPlace<'_>,
    ) -> LimitsLook {
        let began = clock::now();
        self.take_answers();
        let mut left = None::<u64>;
        let (mut broken, mut suspects) = (BTreeSet::new(), BTreeSet::new());
        for (workload, found) in &self.found {
            let Ok(room) = u64::try_from(found.left(place.layout)) else {
                broken.insert(workload.clone());
                continue;
            };
            let grown = self.grown(found.round, growth, workload, place);
            if grown > room {
                suspects.insert(workload.clone());
            }
            let room = room.saturating_sub(grown).max(LEAST);
            left = Some(left.map_or(room, |nearest| nearest.min(room)));
        }
        let newly_broken = broken.iter().any(|workload| !self.told.contains(workload));
        self.told = broken;
        self.ask(growth, suspects);
        let took = clock::elapsed_since(began);
        let pace = PACE.max(took * REST);
        self.next_check = clock::later(clock::now(), pace);
        LimitsLook {
            newly_broken,
            left,
            again: if self.is_measuring { pace } else { DISCOVERY },
        }
    }

    /// What it was found to hold is what the policy judges it by.
    pub(in super::super) fn tell(&self, observed: &mut ObservedPod) {
        if let Some(found) = self.found.get(observed.pod.uid.as_str()) {
            part::tell(observed, &found.parts);
        }
    }

    fn take_answers(&mut self) {
        for answer in self.meter.answers() {
            match answer {
                Answer::Measured {
                    workload,
                    round,
                    parts,
                } => {
                    self.found.insert(workload, Found { parts, round });
                }
                Answer::Done { limited } => {
                    self.found.retain(|workload, _| limited.contains(workload));
                    self.is_measuring = false;
                }
            }
        }
        let oldest = self.found.values().map(|found| found.round).min();
        let (oldest, last) = (oldest.unwrap_or(self.round), self.round);
        self.at_round
            .retain(|round, _| *round >= oldest || *round == last);
    }

    /// Bytes that it took since it was measured.
    fn grown(
        &self,
        round: u64,
        growth: &Growth,
        workload: &str,
        place: &mut LimitPlace<'_>,
    ) -> u64 {
        let Some(then) = self.at_round.get(&round) else {
            return 0;
        };
        let cgroups = (place.cgroups)(workload);
        let anchor = Some((Some(&then.bytes), Timestamp::from_nanos(0)));
        let devices = place.devices.all();
        let parts = devices.filter_map(|device| grown(&growth.bytes, anchor, &cgroups, device));
        let net: i64 = parts.map(|part| part.net).sum();
        u64::try_from(net).unwrap_or(0)
    }

    fn ask(&mut self, growth: &Growth, workloads: BTreeSet<String>) {
        if self.is_measuring {
            return;
        }
        let rests = |since: Option<Timestamp>, rest| {
            since.is_some_and(|since| clock::elapsed_since(since) < rest)
        };
        let is_counted = !growth.bytes.is_empty() && !growth.uncounted_bytes;
        let all = !rests(
            self.swept,
            if is_counted {
                SWEEP_WITH_COUNTERS
            } else {
                SWEEP_WITHOUT
            },
        );
        if !all && workloads.is_empty() && rests(self.asked, DISCOVERY) {
            return;
        }
        let round = self.round + 1;
        let request = Request {
            round,
            all,
            workloads,
        };
        if self.meter.ask(request) {
            let now = clock::now();
            self.round = round;
            self.is_measuring = true;
            self.at_round.insert(round, growth.clone());
            self.asked = Some(now);
            if all {
                self.swept = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limited, LimitedPart};
    use super::*;
    use crate::host::Share;
    use crate::model::{LocalStorageLimit, Pod, PodStats, Uid};
    use crate::ports::{Consumer, Grown};
    use std::path::Path;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;
    const DISK: u64 = 8;
    const POD: u64 = 10;

    fn counted(mib: u64) -> Growth {
        let consumer = Consumer {
            device: DISK,
            cgroup: POD,
        };
        let grown = Grown {
            net: (mib * MIB).cast_signed(),
            since: Timestamp::from_secs(1),
        };
        Growth {
            bytes: [(consumer, grown)].into(),
            ..Growth::default()
        }
    }

    /// A pod with a volume of at most 16 MiB in the directory.
    fn watch(dir: &Path) -> LimitWatch {
        let limited = Limited {
            workload: "web".into(),
            parts: vec![LimitedPart {
                limit: LocalStorageLimit::EmptyDir {
                    volume: "data".into(),
                },
                most: 16 * MIB,
                layers: Vec::new(),
                files: vec![dir.to_owned()],
            }],
        };
        let limited = Box::new(move || vec![limited.clone()]);
        LimitWatch::new(Meter::start(limited, Share::Tenth).unwrap())
    }

    fn check(watch: &mut LimitWatch, growth: &Growth) -> LimitsLook {
        watch.check(
            growth,
            &mut LimitPlace {
                layout: FsLayout::default(),
                devices: Devices {
                    node: Some(DISK),
                    layers: None,
                },
                cgroups: &mut |_| [POD].into(),
            },
        )
    }

    /// Once the measuring that is under way has ended.
    fn settled(watch: &mut LimitWatch, growth: &Growth) -> LimitsLook {
        for _ in 0..5_000 {
            let look = check(watch, growth);
            if !watch.is_measuring {
                return look;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("it was not measured within 10 s");
    }

    fn write(dir: &Path, mib: u64) {
        std::fs::write(dir.join("file"), vec![7; (mib * MIB) as usize]).unwrap();
    }

    /// Directories take a little, too.
    fn about(left: Option<u64>, mib: u64) {
        let left = left.unwrap();
        let range = (mib * MIB).saturating_sub(64 << 10)..=mib * MIB;
        assert!(range.contains(&left), "{left} is not about {mib} MiB");
    }

    #[test]
    fn a_counter_makes_it_measure_and_what_is_found_breaks_the_limit_once() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 4);
        let mut watch = watch(dir.path());
        // What was counted before it was measured has been found.
        let first = check(&mut watch, &counted(3));
        assert_eq!((first.left, first.newly_broken), (None, false));
        about(settled(&mut watch, &counted(3)).left, 12);
        about(check(&mut watch, &counted(8)).left, 7);
        assert_eq!(watch.round, 1, "it was measured in vain");
        // Counted, but given back by others, who are not counted for it.
        let look = check(&mut watch, &counted(3 + 13));
        assert_eq!((look.left, look.newly_broken), (Some(LEAST), false));
        about(settled(&mut watch, &counted(16)).left, 12);
        assert_eq!(watch.round, 2);

        write(dir.path(), 17);
        check(&mut watch, &counted(16 + 13));
        let look = settled(&mut watch, &counted(16 + 13));
        assert_eq!((look.newly_broken, look.left), (true, None));
        assert!(!check(&mut watch, &counted(16 + 13)).newly_broken);
    }

    #[test]
    fn the_policy_is_told_what_was_found() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 2);
        let mut watch = watch(dir.path());
        check(&mut watch, &counted(0));
        settled(&mut watch, &counted(0));
        let used = |uid: &str| {
            let mut observed = ObservedPod {
                pod: Arc::new(Pod::new(Uid::new(uid), "default", "web")),
                stats: Some(PodStats::default()),
            };
            watch.tell(&mut observed);
            let volumes = observed.stats.unwrap().volumes;
            volumes.first().and_then(|volume| volume.fs.used)
        };
        assert!(used("web").is_some_and(|bytes| bytes >= 2 * MIB));
        assert_eq!(used("other"), None);
    }

    #[test]
    fn without_counters_all_are_measured_every_second() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = watch(dir.path());
        check(&mut watch, &Growth::default());
        settled(&mut watch, &Growth::default());
        let long_ago = Timestamp::from_nanos(clock::now().as_nanos() - 1_500_000_000);
        watch.swept = Some(long_ago);
        check(&mut watch, &counted(0));
        assert_eq!(watch.round, 1);
        check(&mut watch, &Growth::default());
        assert_eq!(watch.round, 2);
    }
}

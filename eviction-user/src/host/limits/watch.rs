//! When to measure, and how near the nearest limit is.

use super::super::file_systems::Devices;
use super::super::inventory::WorkloadCgroups;
use super::meter::{Answer, Meter};
use super::part::{self, MeasuredPart};
use crate::model::{FsLayout, LocalStorageLimit, ObservedPod, Timestamp};
use crate::ports::{Consumer, Grown, Growth, LimitsLook};
use crate::sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two checks, also where somebody writes and writes just below a limit.
const PACE: Duration = Duration::from_millis(50);
/// A check takes no more of the deciding thread than a twentieth.
const REST: u32 = 19;
/// Who is new is found so soon.
const DISCOVERY: Duration = Duration::from_secs(1);
/// Everybody is measured again so often: with the kernel's counters, for what they do not tell; without them, because nothing else
/// tells.
const SWEEP_WITH_COUNTERS: Duration = Duration::from_secs(10);
const SWEEP_WITHOUT: Duration = Duration::from_secs(1);
/// So much may be used up past a limit before it is noticed, rather than a look for every block near it.
const LEAST: u64 = 1 << 20;

/// By the kernel, of bytes.
type Counters = BTreeMap<Consumer, Grown>;

#[derive(Debug)]
pub struct LimitWatch {
    meter: Meter,
    /// Everybody who has limits, as last told.
    limited: BTreeSet<String>,
    found: BTreeMap<String, Found>,
    /// Who is being measured, with what the kernel had counted before; `None`: nobody.
    measuring: Option<BTreeMap<String, Then>>,
    asked: Option<Timestamp>,
    next_check: Timestamp,
    /// Who was found to break a limit, and was told.
    told: BTreeSet<String>,
}

/// What the kernel had counted at some time.
#[derive(Debug, Clone, Default)]
struct Then {
    /// For the workload.
    own: Counters,
    /// For all who have no limits, on the node's disk: a pod's logs are written by its runtime.
    strangers: i64,
}

#[derive(Debug)]
struct Found {
    parts: Vec<MeasuredPart>,
    /// What the kernel had counted before.
    then: Then,
    /// When it was known.
    at: Timestamp,
}

impl Found {
    /// Bytes to the nearest limit; negative: it is broken.
    fn left(&self, layout: FsLayout) -> i64 {
        let parts = self.parts.iter().map(|part| part.left(layout));
        parts.min().unwrap_or(i64::MAX)
    }

    /// Does what others write count, too?
    fn has_logs(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| !matches!(part.limit, LocalStorageLimit::EmptyDir { .. }))
    }
}

/// Whose growth it is.
pub(in super::super) struct LimitPlace<'a> {
    pub(in super::super) layout: FsLayout,
    pub(in super::super) devices: Devices,
    /// Of all these workloads; asked once in a check, for it goes through the cgroups of all.
    pub(in super::super) cgroups: &'a mut dyn FnMut(&BTreeSet<String>) -> WorkloadCgroups,
}

/// What a workload has been counted for.
fn counters(growth: &Growth, devices: Devices, cgroups: &[u64]) -> Counters {
    let places = devices.all().flat_map(|device| {
        let cgroups = cgroups.iter();
        cgroups.map(move |&cgroup| Consumer { device, cgroup })
    });
    places
        .filter_map(|place| Some((place, *growth.bytes.get(&place)?)))
        .collect()
}

/// What all others have been counted for on the node's disk.
fn strangers(growth: &Growth, devices: Devices, limited: &WorkloadCgroups) -> i64 {
    let own: BTreeSet<u64> = limited.values().flatten().copied().collect();
    let others = growth
        .bytes
        .iter()
        .filter(|(place, _)| devices.node == Some(place.device) && !own.contains(&place.cgroup));
    others.map(|(_, grown)| grown.net).sum()
}

impl LimitWatch {
    pub fn new(meter: Meter) -> Self {
        Self {
            meter,
            limited: BTreeSet::new(),
            found: BTreeMap::new(),
            measuring: None,
            asked: None,
            next_check: clock::now(),
            told: BTreeSet::new(),
        }
    }

    /// When the next check makes sense.
    pub(in super::super) fn due_in(&self) -> Duration {
        clock::between(clock::now(), self.next_check)
    }

    pub(in super::super) fn check(&mut self, growth: &Growth, place: LimitPlace<'_>) -> LimitsLook {
        let began = clock::now();
        self.take_answers();
        let cgroups = (place.cgroups)(&self.limited);
        let counted = |workload: &String| {
            let own = cgroups.get(workload).map_or(&[][..], Vec::as_slice);
            counters(growth, place.devices, own)
        };
        let strangers = strangers(growth, place.devices, &cgroups);
        let mut left = None::<u64>;
        let (mut broken, mut suspects) = (BTreeSet::new(), BTreeSet::new());
        for (workload, found) in &self.found {
            let Ok(room) = u64::try_from(found.left(place.layout)) else {
                broken.insert(workload.clone());
                continue;
            };
            let grown = grown(&found.then.own, &counted(workload));
            let others = strangers.saturating_sub(found.then.strangers);
            let others = u64::try_from(others).unwrap_or(0);
            if grown > room || (found.has_logs() && grown.saturating_add(others) > room) {
                suspects.insert(workload.clone());
            }
            let room = room.saturating_sub(grown).max(LEAST);
            left = Some(left.map_or(room, |nearest| nearest.min(room)));
        }
        let newly_broken = broken.iter().any(|workload| !self.told.contains(workload));
        self.told = broken;
        if self.measuring.is_none() {
            let then = |workload: &String| Then {
                own: counted(workload),
                strangers,
            };
            self.ask(growth, then, suspects);
        }
        let took = clock::elapsed_since(began);
        let pace = PACE.max(took * REST);
        self.next_check = clock::later(clock::now(), pace);
        LimitsLook {
            newly_broken,
            left,
            again: if self.measuring.is_some() {
                pace
            } else {
                DISCOVERY
            },
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
                Answer::Measured { workload, parts } => {
                    let asked = self.measuring.as_mut();
                    let then = asked.and_then(|asked| asked.remove(&workload));
                    let found = Found {
                        parts,
                        then: then.unwrap_or_default(),
                        at: clock::now(),
                    };
                    self.found.insert(workload, found);
                }
                Answer::Done { limited } => {
                    self.found.retain(|workload, _| limited.contains(workload));
                    self.limited = limited;
                    self.measuring = None;
                }
            }
        }
    }

    /// Those that may be above a limit, and one other: nobody's big tree keeps a suspect waiting for more than one walk.
    fn ask(
        &mut self,
        growth: &Growth,
        counted: impl Fn(&String) -> Then,
        suspects: BTreeSet<String>,
    ) {
        let is_counted = !growth.bytes.is_empty() && !growth.uncounted_bytes;
        let next = self.next(is_counted).cloned();
        let who: BTreeSet<String> = suspects.into_iter().chain(next).collect();
        let is_recent = |asked| clock::elapsed_since(asked) < DISCOVERY;
        if who.is_empty() && self.asked.is_some_and(is_recent) {
            return;
        }
        // Read before anybody is measured: what comes in between counts as grown.
        let then = who
            .iter()
            .map(|workload| (workload.clone(), counted(workload)));
        let then = then.collect();
        if self.meter.ask(who) {
            self.measuring = Some(then);
            self.asked = Some(clock::now());
        }
    }

    /// Whose turn it is: who was never measured, then who was long ago.
    fn next(&self, is_counted: bool) -> Option<&String> {
        let mut limited = self.limited.iter();
        if let Some(new) = limited.find(|workload| !self.found.contains_key(*workload)) {
            return Some(new);
        }
        let rest = if is_counted {
            SWEEP_WITH_COUNTERS
        } else {
            SWEEP_WITHOUT
        };
        let (workload, found) = self.found.iter().min_by_key(|(_, found)| found.at)?;
        (clock::elapsed_since(found.at) >= rest).then_some(workload)
    }
}

/// Bytes, since then; a cgroup that was not counted then had used up nothing, and so had one whose counting began anew.
fn grown(then: &Counters, now: &Counters) -> u64 {
    let net = now.iter().map(|(place, now)| {
        let before = then.get(place).filter(|then| then.since == now.since);
        now.net.saturating_sub(before.map_or(0, |then| then.net))
    });
    u64::try_from(net.sum::<i64>()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::{Limited, LimitedPart};
    use super::*;
    use crate::host::Share;
    use crate::model::{LocalStorageLimit, Pod, PodStats, Uid};
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
        let volume = "data".into();
        watch_of(LocalStorageLimit::EmptyDir { volume }, dir)
    }

    fn watch_of(limit: LocalStorageLimit, dir: &Path) -> LimitWatch {
        let limited = Limited {
            workload: "web".into(),
            parts: vec![LimitedPart {
                limit,
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
            LimitPlace {
                layout: FsLayout::default(),
                devices: Devices {
                    node: Some(DISK),
                    layers: None,
                },
                cgroups: &mut |limited| {
                    let all = limited.iter();
                    all.map(|workload| (workload.clone(), vec![POD])).collect()
                },
            },
        )
    }

    /// Once it has been measured as often; what was known then.
    fn measured(watch: &mut LimitWatch, growth: &Growth, times: usize) -> LimitsLook {
        let mut last = watch.found.get("web").map(|found| found.at);
        let mut seen = 0;
        for _ in 0..5_000 {
            let look = check(watch, growth);
            let at = watch.found.get("web").map(|found| found.at);
            seen += usize::from(at != last);
            last = at;
            if seen == times {
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
        about(measured(&mut watch, &counted(3), 1).left, 12);
        let known = |watch: &LimitWatch| watch.found["web"].at;
        let at = known(&watch);
        about(check(&mut watch, &counted(8)).left, 7);
        about(check(&mut watch, &counted(3 + 11)).left, LEAST / MIB);
        assert_eq!(known(&watch), at, "it was measured in vain");
        // Counted, but given back by others, who are not counted for it.
        let look = check(&mut watch, &counted(3 + 13));
        assert_eq!((look.left, look.newly_broken), (Some(LEAST), false));
        about(measured(&mut watch, &counted(16), 1).left, 12);

        write(dir.path(), 17);
        let look = measured(&mut watch, &counted(16 + 13), 1);
        assert_eq!((look.newly_broken, look.left), (true, None));
        assert!(!check(&mut watch, &counted(16 + 13)).newly_broken);
    }

    #[test]
    fn what_others_write_may_be_logs_and_makes_it_measure_where_these_count() {
        let by_the_runtime = |mib: u64| {
            let mut growth = counted(0);
            let written = counted(mib).bytes.into_iter().map(|(place, grown)| {
                let cgroup = POD + 1;
                (Consumer { cgroup, ..place }, grown)
            });
            growth.bytes.extend(written);
            growth
        };
        let logs = LocalStorageLimit::Container { name: "c".into() };
        let volume = LocalStorageLimit::EmptyDir {
            volume: "data".into(),
        };
        for (limit, is_measured) in [(logs, true), (volume, false)] {
            let dir = tempfile::tempdir().unwrap();
            let mut watch = watch_of(limit, dir.path());
            measured(&mut watch, &by_the_runtime(100), 1);
            check(&mut watch, &by_the_runtime(100 + 15));
            assert!(watch.measuring.is_none(), "there was room for it");
            write(dir.path(), 17);
            check(&mut watch, &by_the_runtime(100 + 17));
            assert_eq!(watch.measuring.is_some(), is_measured);
            if is_measured {
                let look = measured(&mut watch, &by_the_runtime(100 + 17), 1);
                assert!(look.newly_broken);
            }
        }
    }

    #[test]
    fn the_policy_is_told_what_was_found() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 2);
        let mut watch = watch(dir.path());
        measured(&mut watch, &counted(0), 1);
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
    fn whoever_is_new_is_next_then_whoever_was_measured_long_ago_sooner_without_counters() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = watch(dir.path());
        let ago = |ms: i64| Timestamp::from_nanos(clock::now().as_nanos() - ms * 1_000_000);
        let mut known = |name: &str, at| {
            let found = Found {
                parts: Vec::new(),
                then: Then::default(),
                at,
            };
            watch.found.insert(name.to_owned(), found);
            watch.limited.insert(name.to_owned());
        };
        known("a", ago(1_500));
        known("b", ago(3_000));
        known("c", ago(0));
        let next = |watch: &LimitWatch, counted| watch.next(counted).cloned();
        assert_eq!(next(&watch, true), None);
        assert_eq!(next(&watch, false).as_deref(), Some("b"));
        watch.limited.insert("new".to_owned());
        assert_eq!(next(&watch, true).as_deref(), Some("new"));
    }

    #[test]
    fn counting_that_began_anew_is_not_compared_with_the_old() {
        let mut then = counted(5).bytes;
        let now = counted(9).bytes;
        assert_eq!(grown(&then, &now), 4 * MIB);
        assert_eq!(grown(&now, &then), 0, "given back");
        assert_eq!(grown(&Counters::new(), &now), 9 * MIB);
        for counter in then.values_mut() {
            counter.since = Timestamp::from_secs(9);
        }
        assert_eq!(grown(&then, &now), 9 * MIB);
    }
}

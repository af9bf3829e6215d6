//! The kernel side's counts of disk space and inodes against what `statfs` says: after each operation that uses up or frees
//! something, and after runs of random ones. Reads the programs' maps itself; `eviction` takes no part.

mod judge;
mod mounted;
mod operations;
mod random;
mod uring;

pub use judge::Rules;
pub use mounted::{Fs, Mounted, make_image};

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use eviction_user::{
    bpf::{
        AttachOptions, Attached, Credit, Events, Facts, Family, Kind, RunStats, Rung, SlotHandle,
        Wanted, plan,
    },
    model::Signal,
    sys::filesystem::FileSystem,
};

use judge::Sample;
use operations::Takes;

/// One file system, watched.
pub struct DiskOracle {
    pub fs: Fs,
    /// A block device or image with an empty file system; tmpfs needs none.
    pub device: Option<PathBuf>,
    pub seed: u64,
    pub steps: u32,
    /// Only these hooks.
    pub rungs: Option<Vec<Rung>>,
}

/// What was compared.
#[derive(Debug, serde::Serialize)]
pub struct Compared {
    pub fs: Fs,
    pub source: &'static str,
    pub inode_source: &'static str,
    pub seed: u64,
    pub operations: usize,
    pub unsupported: Vec<&'static str>,
    /// Carried out, but what they take is known not to be seen.
    pub not_compared: Vec<&'static str>,
    pub steps: u32,
    /// Over all: what `statfs` lost, what the growth says, what was spent, in bytes.
    pub dropped: i64,
    pub grown: i64,
    pub spent: u64,
    pub faults: Vec<String>,
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} by {} and {}: {} operations ({} not compared, {} unsupported), {} random steps of seed {}; \
             statfs lost {}, the growth is {}, spent {} bytes",
            self.fs,
            self.source,
            self.inode_source,
            self.operations,
            self.not_compared.len(),
            self.unsupported.len(),
            self.steps,
            self.seed,
            self.dropped,
            self.grown,
            self.spent
        )
    }
}

impl DiskOracle {
    /// vfat has no links and no nodes.
    fn forbids(&self, error: &std::io::Error) -> bool {
        self.fs == Fs::Vfat && error.kind() == std::io::ErrorKind::PermissionDenied
    }

    pub fn run(&self, facts: &Facts) -> Result<Compared> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let _within = runtime.enter();
        let folder = tempfile::tempdir()?;
        let mounted = Mounted::mount(self.fs, self.device.as_deref(), folder.path())?;
        let mut watched = Watched::open(facts, &mounted, self.rungs.clone())?;
        let mut report = Compared {
            fs: self.fs,
            source: watched.source,
            inode_source: watched.inode_source,
            seed: self.seed,
            operations: 0,
            unsupported: Vec::new(),
            not_compared: Vec::new(),
            steps: self.steps,
            dropped: 0,
            grown: 0,
            spent: 0,
            faults: Vec::new(),
        };
        let rules = Rules::of(self.fs, watched.rung, watched.inode_rung);
        let first = watched.settled(&rules)?;
        for operation in operations::ALL {
            let dir = mounted.work().join(operation.name.replace(' ', "-"));
            std::fs::create_dir(&dir)?;
            let before = watched.settled(&rules)?;
            match (operation.run)(&dir) {
                Ok(()) => report.operations += 1,
                Err(error) if operations::is_unsupported(&error) || self.forbids(&error) => {
                    report.unsupported.push(operation.name);
                    continue;
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("operation {}", operation.name));
                }
            }
            if !rules.sees(operation.takes) {
                report.not_compared.push(operation.name);
                continue;
            }
            let after = watched.agreed(&rules, &before)?;
            let hidden = self.fs == Fs::Tmpfs && operation.hides_inodes_on_tmpfs;
            let faults = rules.judge(operation.name, &before, &after, !hidden);
            report.faults.extend(faults);
        }
        if self.fs != Fs::Vfat {
            // Its inodes are no more than entries of directories.
            report.faults.extend(watched.inode_runs(&mounted, self.fs)?);
        }
        if self.fs == Fs::Overlay {
            let before = watched.settled(&rules)?;
            mounted.copy_up()?;
            let after = watched.agreed(&rules, &before)?;
            report
                .faults
                .extend(rules.judge("copy-up", &before, &after, true));
        }
        if self.fs == Fs::Btrfs && rules.sees(Takes::Names) {
            report.faults.extend(watched.chunk_event(&mounted)?);
        }
        let before = watched.settled(&rules)?;
        random::run(&mounted.work(), self.seed, self.steps)?;
        // Some of the steps allocate without writing.
        let after = if rules.sees(Takes::Calls) {
            watched.agreed(&rules, &before)?
        } else {
            watched.settled(&rules)?
        };
        if rules.sees(Takes::Calls) {
            let name = format!("{} random steps of seed {}", self.steps, self.seed);
            let faults = rules.judge(&name, &before, &after, true);
            report.faults.extend(faults);
        }
        let all = Sample::between(&first, &after);
        (report.dropped, report.grown, report.spent) = (all.dropped, all.grown, all.spent);
        Ok(report)
    }
}

/// Made to count the program's runs.
const INODES: u64 = 50;

/// The slots of one file system.
struct Watched {
    attached: Attached,
    events: Events,
    bytes: SlotHandle,
    inodes: SlotHandle,
    bytes_since: eviction_user::bpf::Mark,
    fs: FileSystem,
    rung: Rung,
    source: &'static str,
    inode_rung: Option<Rung>,
    inode_source: &'static str,
}

impl Watched {
    fn open(facts: &Facts, mounted: &Mounted, rungs: Option<Vec<Rung>>) -> Result<Self> {
        let fs = FileSystem::at(&mounted.work())?;
        let mut wanted = Wanted::default();
        wanted.add_device(Signal::NodeFsAvailable, &fs);
        wanted.add_device(Signal::NodeFsInodesFree, &fs);
        let [bytes, _] = &wanted.devices[..] else {
            bail!("it cannot be watched: {:?}", wanted.doubts);
        };
        let options = AttachOptions {
            families: Some(wanted.families_to_attach()),
            allow: rungs,
            ..AttachOptions::default()
        };
        let mut attached = Attached::attach(facts, &plan(facts), &options);
        let report = attached.report().clone();
        let used = report.of(report.serving(bytes.family));
        let Some(rung) = used.attached.first().copied() else {
            bail!("no hook for {}: {used:?}", bytes.family);
        };
        let slot = attached.device_slot(bytes.family, fs.device)?;
        let inodes = attached.device_slot(Family::Inodes, fs.device)?;
        // As every look does: super blocks that are learned are known from here on.
        fs.read()?;
        Ok(Self {
            events: attached.take_events()?,
            bytes_since: slot.begin(),
            bytes: slot,
            inodes,
            rung,
            source: used.source(),
            inode_rung: report.of(Family::Inodes).attached.first().copied(),
            inode_source: report.of(Family::Inodes).source(),
            attached,
            fs,
        })
    }

    fn sample(&self) -> Result<Sample> {
        let mut grown = (0, 0);
        for (kind, consumer, growth) in self.attached.growth() {
            if consumer.device != self.fs.device {
                continue;
            }
            match kind {
                Kind::Bytes => grown.0 += growth.net,
                Kind::Inodes => grown.1 += growth.net,
                _ => {}
            }
        }
        let read = self.fs.read()?;
        Ok(Sample {
            available: read.available_bytes as i64,
            inodes_used: read.inodes as i64 - read.inodes_free as i64,
            has_table: read.inodes > 0,
            grown: grown.0,
            inodes_grown: grown.1,
            spent: self.bytes.spent_since(self.bytes_since),
        })
    }

    /// After what is delayed has come to an end.
    fn settled(&self, rules: &Rules) -> Result<Sample> {
        rules.settle(self.fs.path())?;
        let mut last = self.sample()?;
        for _ in 0..500 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let next = self.sample()?;
            if next == last {
                return Ok(next);
            }
            last = next;
        }
        bail!("the figures do not come to rest: {last:?}")
    }

    /// At once, and again at rest: workers of the kernel may be about to give back.
    fn agreed(&self, rules: &Rules, before: &Sample) -> Result<Sample> {
        let at_once = self.sample()?;
        if let Some(fault) = rules.at_once(before, &at_once) {
            bail!("before it came to rest: {fault}");
        }
        self.settled(rules)
    }

    /// The program runs once per inode and layer: on overlay the inode that is shown is another one than the real one.
    fn inode_runs(&self, mounted: &Mounted, fs: Fs) -> Result<Vec<String>> {
        let program = match self.inode_rung {
            Some(Rung::FentryInode) => "ev_inode_fe",
            Some(Rung::KprobeInode) => "ev_inode_kp",
            _ => return Ok(Vec::new()),
        };
        let stats = RunStats::enable()?;
        let runs = || -> u64 {
            let programs = stats.programs();
            let ours = programs.values().filter(|found| found.name == program);
            ours.map(|program| program.runs).sum()
        };
        let dir = mounted.work().join("runs");
        std::fs::create_dir(&dir)?;
        let before = runs();
        for number in 0..INODES {
            std::fs::write(dir.join(number.to_string()), b"")?;
        }
        let ran = runs() - before;
        let layers = if fs == Fs::Overlay { 2 } else { 1 };
        let fault = format!("{ran} runs for {INODES} inodes on {layers} layers");
        Ok((ran != layers * INODES)
            .then_some(fault)
            .into_iter()
            .collect())
    }

    /// A chunk of metadata is an event of its own, however much credit is left.
    fn chunk_event(&mut self, mounted: &Mounted) -> Result<Vec<String>> {
        let plenty = Credit {
            units: 1 << 40,
            level: None,
        };
        let dir = mounted.work().join("chunk");
        std::fs::create_dir(&dir)?;
        while self.events.try_next().is_some() {}
        let mark = self.bytes.begin();
        self.bytes.arm(mark, plenty);
        let before = self.fs.read()?.available_bytes;
        // Inline files are metadata only.
        let mut made = 0;
        while made < 200_000 {
            for _ in 0..2_000 {
                std::fs::write(dir.join(made.to_string()), [7_u8; 1_800])?;
                made += 1;
            }
            nix::unistd::syncfs(std::fs::File::open(&dir)?)?;
            let now = self.fs.read()?.available_bytes;
            if before.saturating_sub(now) >= 16 << 20 {
                let event = self.events.try_next();
                let seen = event.is_some_and(|event| event.is_ok());
                let fault = "a chunk of metadata came without an event";
                return Ok((!seen).then(|| fault.to_owned()).into_iter().collect());
            }
        }
        Ok(vec![format!("no chunk of metadata after {made} files")])
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.inodes.disarm();
    }
}

//! A cgroup and a file system of our own, gone when dropped.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use eviction_user::bpf::{Facts, Hierarchy};
use libtest_mimic::Failed;
use tempfile::TempDir;

pub(crate) struct Cgroup {
    pub(crate) path: PathBuf,
    usage: &'static str,
}

impl Cgroup {
    /// A cgroup with a child in it, so that walking up from a task is part of every test. `Err` is a reason to skip.
    pub(crate) fn new(facts: &Facts, name: &str) -> Result<Self, String> {
        let (root, usage) = match facts.memory_hierarchy {
            Hierarchy::V1 => ("/sys/fs/cgroup/memory", "memory.usage_in_bytes"),
            Hierarchy::V2 => ("/sys/fs/cgroup", "memory.current"),
            Hierarchy::None => return Err("this kernel has no memory controller".into()),
        };
        let path = Path::new(root).join(format!("eviction-bpf-{}-{name}", std::process::id()));
        let make = |path: &Path| {
            fs::create_dir(path)
                .map_err(|error| format!("{} cannot be made: {error}", path.display()))
        };
        let enable = |path: &Path| {
            let file = path.join("cgroup.subtree_control");
            fs::write(&file, "+memory").map_err(|error| format!("{}: {error}", file.display()))
        };
        if facts.memory_hierarchy == Hierarchy::V2 {
            enable(Path::new(root))?;
        }
        make(&path)?;
        let cgroup = Self { path, usage };
        if facts.memory_hierarchy == Hierarchy::V2 {
            enable(&cgroup.path)?;
        }
        make(&cgroup.inner())?;
        Ok(cgroup)
    }

    /// Where the load runs.
    pub(crate) fn inner(&self) -> PathBuf {
        self.path.join("inner")
    }

    pub(crate) fn id(path: &Path) -> Result<u64, Failed> {
        Ok(fs::metadata(path)?.ino())
    }

    /// Bytes that it may use.
    pub(crate) fn limit(&self, bytes: u64) -> Result<(), Failed> {
        let file = match self.usage {
            "memory.current" => "memory.max",
            _ => "memory.limit_in_bytes",
        };
        Ok(fs::write(self.path.join(file), bytes.to_string())?)
    }

    pub(crate) fn usage_pages(&self) -> Result<u64, Failed> {
        let text = fs::read_to_string(self.path.join(self.usage))?;
        Ok(text.trim().parse::<u64>()? / 4096)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for path in [self.inner(), self.path.clone()] {
            if !remove(&path) {
                println!("left behind: {}", path.display());
            }
        }
    }
}

/// The kernel lets go of the last task a moment after it is reaped.
pub(crate) fn remove(path: &Path) -> bool {
    (0..100).any(|_| {
        let removed = fs::remove_dir(path).is_ok();
        if !removed {
            std::thread::sleep(Duration::from_millis(20));
        }
        removed
    })
}

/// A block device with an empty ext4 on it, for guests without mkfs.
const DISK: &str = "EVICTION_TEST_DISK";

/// A file system with its own device number.
pub(crate) struct Mount {
    directory: TempDir,
    _image: Option<TempDir>,
}

impl Mount {
    /// ext4 on a loop device, or on the disk that a guest is given for it. `Err` is a reason to skip.
    pub(crate) fn ext4() -> Result<Self, String> {
        let temporary =
            || TempDir::new().map_err(|error| format!("no temporary directory: {error}"));
        let directory = temporary()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4"]);
        if let Some(disk) = std::env::var_os(DISK) {
            run(mount.arg(disk).arg(directory.path()))?;
            return Ok(Self {
                directory,
                _image: None,
            });
        }
        let image = temporary()?;
        let file = image.path().join("ext4.img");
        let created = fs::File::create(&file).and_then(|file| file.set_len(64 << 20));
        created.map_err(|error| format!("{} cannot be made: {error}", file.display()))?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-N", "4096"])
            .arg(&file))?;
        run(mount.args(["-o", "loop"]).arg(&file).arg(directory.path()))?;
        Ok(Self {
            directory,
            _image: Some(image),
        })
    }

    pub(crate) fn tmpfs() -> Result<Self, String> {
        let directory =
            TempDir::new().map_err(|error| format!("no temporary directory: {error}"))?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "eviction-test"])
            .arg(directory.path()))?;
        Ok(Self {
            directory,
            _image: None,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(self.directory.path())) {
            println!("left mounted: {error}");
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

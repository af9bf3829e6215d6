//! The file system under test, mounted for as long as this lives.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use nix::mount::{MsFlags, mount, umount};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fs {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    /// On ext4, which it is measured by.
    Overlay,
    /// Stands for all that have no hooks of their own.
    Vfat,
}

impl Fs {
    fn kernel_name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Overlay => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
            Self::Vfat => "vfat",
        }
    }
}

pub struct Mounted {
    base: PathBuf,
    /// The overlay's own mount point.
    merged: Option<PathBuf>,
}

/// Bytes of the lower layer's file that is copied up.
const COPIED: usize = 1 << 20;

impl Mounted {
    pub fn mount(fs: Fs, device: Option<&Path>, folder: &Path) -> Result<Self> {
        let base = folder.join("base");
        std::fs::create_dir(&base)?;
        let device = device.unwrap_or(Path::new("none"));
        let options = (fs == Fs::Tmpfs).then_some("size=256m,nr_inodes=20000");
        mount_at(device, &base, fs.kernel_name(), options)?;
        let mut mounted = Self { base, merged: None };
        if fs == Fs::Overlay {
            mounted.lay_over(folder)?;
        }
        std::fs::create_dir(mounted.work())?;
        Ok(mounted)
    }

    fn lay_over(&mut self, folder: &Path) -> Result<()> {
        let layer = |name: &str| self.base.join(name);
        for name in ["lower", "upper", "layer-work"] {
            std::fs::create_dir(layer(name))?;
        }
        std::fs::write(layer("lower").join("file"), vec![1_u8; COPIED])?;
        let merged = folder.join("merged");
        std::fs::create_dir(&merged)?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            layer("lower").display(),
            layer("upper").display(),
            layer("layer-work").display()
        );
        mount_at(Path::new("overlay"), &merged, "overlay", Some(&options))?;
        self.merged = Some(merged);
        Ok(())
    }

    /// Where the operations take place.
    pub fn work(&self) -> PathBuf {
        self.merged.as_ref().unwrap_or(&self.base).join("work")
    }

    /// Two bytes appended to a file of the lower layer.
    pub fn copy_up(&self) -> Result<()> {
        use std::io::Write;
        let file = self.merged.as_ref().context("no overlay")?.join("file");
        let mut file = std::fs::OpenOptions::new().append(true).open(file)?;
        file.write_all(b"ab")?;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for place in self.merged.iter().chain([&self.base]) {
            if let Err(error) = umount(place) {
                eprintln!("{} stays mounted: {error}", place.display());
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("{command:?} does not start: run `cargo xtask setup`"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// An image with an empty file system (for overlay, the one below), as small as its kind may be.
pub fn make_image(fs: Fs, image: &Path) -> Result<()> {
    let (mebibytes, options): (u64, &[&str]) = match fs {
        Fs::Ext4 | Fs::Overlay => (256, &["-q", "-F", "-N", "20000"]),
        Fs::Xfs => (400, &["-q", "-f"]),
        Fs::Btrfs => (400, &["-q", "-f"]),
        // Clusters of 4 KiB.
        Fs::Vfat => (300, &["-F", "32", "-s", "8"]),
        Fs::Tmpfs => bail!("tmpfs has no image"),
    };
    std::fs::File::create(image)?.set_len(mebibytes << 20)?;
    let mut make = Command::new(format!("mkfs.{}", fs.kernel_name()));
    run(make.args(options).arg(image))
}

fn mount_at(source: &Path, place: &Path, kind: &str, options: Option<&str>) -> Result<()> {
    if source.is_file() {
        let mut on_loop = Command::new("mount");
        on_loop
            .args(["-t", kind, "-o", "loop"])
            .arg(source)
            .arg(place);
        return run(&mut on_loop);
    }
    mount(
        Some(source),
        place,
        Some(kind),
        MsFlags::empty(),
        options.map(Path::new),
    )
    .with_context(|| format!("mounting {kind} from {}", source.display()))
}

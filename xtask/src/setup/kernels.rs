//! Guest kernels: Debian's cloud builds with their modules, unpacked under `kernels/<debian version>` and
//! found again through a link named after the series that was asked for.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::versions::{Choice, choose};
use super::{Context, Presence, Step};
use crate::console;
use crate::process::capture;
use crate::workspace::Workspace;

/// A kernel series the suites run on.
#[derive(Debug)]
pub struct GuestKernel {
    pub series: &'static str,
    /// Whether Debian built it with the v1 memory controller (6.12 and later: `CONFIG_MEMCG_V1` unset).
    pub memory_v1: bool,
}

/// In Debian: bullseye, bookworm, trixie, trixie-backports.
pub const GUEST_KERNELS: [GuestKernel; 4] = [
    GuestKernel {
        series: "5.10",
        memory_v1: true,
    },
    GuestKernel {
        series: "6.1",
        memory_v1: true,
    },
    GuestKernel {
        series: "6.12",
        memory_v1: false,
    },
    GuestKernel {
        series: "7.3",
        memory_v1: false,
    },
];

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    folder: PathBuf,
    release: String,
    version: String,
}

#[derive(Debug, thiserror::Error)]
pub enum KernelMissing {
    #[error("kernel {0} is not one of the guest kernels: use one of {known}", known = known())]
    Unknown(String),
    #[error("kernel {0} is not in the cache yet: run `cargo xtask setup`")]
    NotFetched(String),
}

fn known() -> String {
    GUEST_KERNELS
        .iter()
        .map(|kernel| kernel.series)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Kernel {
    /// The kernel that the set-up took for `series`.
    pub fn find(workspace: &Workspace, series: &str) -> Result<Self, KernelMissing> {
        if !GUEST_KERNELS.iter().any(|kernel| kernel.series == series) {
            return Err(KernelMissing::Unknown(series.to_owned()));
        }
        Self::open(&workspace.kernels().join(series))
            .ok_or_else(|| KernelMissing::NotFetched(series.to_owned()))
    }

    /// `release` is written last: a folder without it is a download that was cut off.
    fn open(link: &Path) -> Option<Self> {
        let folder = link.canonicalize().ok()?;
        let release = std::fs::read_to_string(folder.join("release"))
            .ok()?
            .trim()
            .to_owned();
        let version = folder.file_name()?.to_string_lossy().into_owned();
        let kernel = Self {
            folder,
            release,
            version,
        };
        // Some Debian versions spread the lists over several packages: all of them are needed.
        let lists = ["modules.dep", "modules.builtin"];
        lists
            .iter()
            .all(|list| kernel.modules().join(list).exists())
            .then_some(kernel)
    }

    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The folder with `modules.dep` and the modules themselves.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.folder.join("modules/lib/modules").join(&self.release)
    }

    /// `6.12.118+deb13-cloud-amd64`
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Debian's version, `6.12.118-1`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

pub(super) fn step(kernel: &'static GuestKernel) -> Step {
    let series = kernel.series;
    Step {
        name: format!("kernel {series}"),
        look: Box::new(move |context| {
            Ok(match Kernel::find(context.workspace, series) {
                Ok(found) if found.version().starts_with(&format!("{series}.")) => {
                    Presence::There(found.version().to_owned())
                }
                Ok(found) => Presence::There(format!(
                    "{} stands in: the archive no longer has {series}",
                    found.version()
                )),
                Err(_) => Presence::Missing("to be fetched".into()),
            })
        }),
        act: Box::new(move |context| fetch(context, series)),
        fix: "a Debian mirror with the suites bullseye to trixie-backports must be reachable through the system's own apt sources",
    }
}

fn fetch(context: &Context<'_>, series: &str) -> Result<()> {
    let offered: Vec<_> = context
        .archive()?
        .packages("linux-image-")?
        .into_iter()
        .filter(|(name, _)| release_of(name).is_some())
        .collect();
    let (package, version) = match choose(&offered, series) {
        Choice::Exact(package, version) => (package, version),
        Choice::Nearest(package, version) => {
            console::progress(&format!(
                "the archive has no {series} any more: taking the nearest, {version}"
            ));
            (package, version)
        }
        Choice::Nothing => bail!("no suite offers a cloud kernel at all"),
    };
    let release = release_of(package).context("filtered above")?;
    let folder = context.workspace.kernels().join(version);
    if Kernel::open(&folder).is_none() {
        unpack(context, package, version, release, &folder)?;
    }
    link(&folder, &context.workspace.kernels().join(series))
}

/// `6.12.118+deb13-cloud-amd64` of a kernel package; nothing for meta packages, debug symbols, unsigned twins.
fn release_of(package: &str) -> Option<&str> {
    let release = package.strip_prefix("linux-image-")?;
    let version = release.strip_suffix("-cloud-amd64")?;
    (version.split('.').count() >= 3 && version.starts_with(|c: char| c.is_ascii_digit()))
        .then_some(release)
}

fn unpack(
    context: &Context<'_>,
    package: &str,
    version: &str,
    release: &str,
    folder: &Path,
) -> Result<()> {
    let workspace = context.workspace;
    std::fs::create_dir_all(workspace.kernels())?;
    let scratch = tempfile::Builder::new()
        .prefix("unpacking-")
        .tempdir_in(workspace.kernels())?;
    let tree = scratch.path().join("tree");
    let depends = context.archive()?.depends(package, version)?;
    for part in std::iter::once(package).chain(parts(&depends, release)) {
        context.archive()?.unpack(workspace, part, version, &tree)?;
    }
    let kernel = scratch.path().join("kernel");
    std::fs::create_dir_all(kernel.join("modules/lib/modules"))?;
    let pick = |candidates: &[String]| {
        candidates
            .iter()
            .map(|path| tree.join(path))
            .find(|path| path.exists())
    };
    let image = pick(&[
        format!("boot/vmlinuz-{release}"),
        format!("usr/lib/modules/{release}/vmlinuz"),
    ])
    .context("the packages hold no vmlinuz")?;
    std::fs::rename(image, kernel.join("vmlinuz"))?;
    let modules = pick(&[
        format!("lib/modules/{release}"),
        format!("usr/lib/modules/{release}"),
    ])
    .context("the packages hold no modules")?;
    std::fs::rename(modules, kernel.join("modules/lib/modules").join(release))?;
    capture(
        Command::new("depmod")
            .arg("-b")
            .arg(kernel.join("modules"))
            .arg(release),
    )?;
    std::fs::write(kernel.join("release"), format!("{release}\n"))?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::rename(&kernel, folder).with_context(|| format!("cannot place {}", folder.display()))
}

/// The packages that hold kernel, modules and their lists where the image package itself does not (7.x).
fn parts<'a>(depends: &'a str, release: &'a str) -> impl Iterator<Item = &'a str> {
    depends
        .split(',')
        .filter_map(|one| one.split_whitespace().next())
        .filter(move |name| name.ends_with(release) && !name.starts_with("linux-image-"))
}

fn link(folder: &Path, link: &Path) -> Result<()> {
    let name = folder.file_name().context("a kernel folder has a name")?;
    let fresh = link.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    std::os::unix::fs::symlink(name, &fresh)?;
    std::fs::rename(&fresh, link).with_context(|| format!("cannot place {}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_packages_are_told_from_their_relatives() {
        assert_eq!(
            release_of("linux-image-6.12.118+deb13-cloud-amd64"),
            Some("6.12.118+deb13-cloud-amd64")
        );
        assert_eq!(
            release_of("linux-image-5.10.0-46-cloud-amd64"),
            Some("5.10.0-46-cloud-amd64")
        );
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-6.1.0-57-cloud-amd64-dbg",
            "linux-image-6.1.0-57-amd64",
        ] {
            assert_eq!(release_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_7_x_packages_name_their_parts() {
        let depends = "dracut | initramfs-tools, linux-base-7.3.4+deb13-cloud-amd64 (= 7.3.4-1), \
                       linux-binary-7.3.4+deb13-cloud-amd64 (= 7.3.4-1), linux-modules-7.3.4+deb13-cloud-amd64 (= 7.3.4-1)";
        let found: Vec<&str> = parts(depends, "7.3.4+deb13-cloud-amd64").collect();
        assert_eq!(
            found,
            [
                "linux-base-7.3.4+deb13-cloud-amd64",
                "linux-binary-7.3.4+deb13-cloud-amd64",
                "linux-modules-7.3.4+deb13-cloud-amd64"
            ]
        );
        assert_eq!(
            parts("kmod, linux-base (>= 4.3~)", "6.1.0-57-cloud-amd64").count(),
            0
        );
    }

    #[test]
    fn a_folder_that_lacks_a_part_is_not_a_kernel() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("6.12.1-1")).unwrap();
        link(&folder.path().join("6.12.1-1"), &folder.path().join("6.12")).unwrap();
        assert!(Kernel::open(&folder.path().join("6.12")).is_none());
        let place = folder.path().join("6.12.1-1");
        std::fs::write(place.join("release"), "6.12.1-cloud-amd64\n").unwrap();
        assert!(Kernel::open(&folder.path().join("6.12")).is_none());
        let modules = place.join("modules/lib/modules/6.12.1-cloud-amd64");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("modules.dep"), "").unwrap();
        std::fs::write(modules.join("modules.builtin"), "").unwrap();
        let kernel = Kernel::open(&folder.path().join("6.12")).unwrap();
        assert_eq!(
            (kernel.version(), kernel.release()),
            ("6.12.1-1", "6.12.1-cloud-amd64")
        );
    }
}

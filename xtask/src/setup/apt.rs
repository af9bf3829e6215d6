//! Debian packages that the builds and suites need.

use std::process::Command;

use anyhow::Result;

use super::{Context, Presence, Step, toolchain};
use crate::process::{capture, run_logged};

/// Package and what needs it. `{llvm}` stands for the LLVM major version of rustc.
const PACKAGES: &[&str] = &[
    // cargo's linker, the static C library, and the C++ library that LLVM wants
    "gcc",
    "g++",
    "libc6-dev",
    "binutils",
    // bpf-linker
    "llvm-{llvm}-dev",
    "libpolly-{llvm}-dev",
    "zlib1g-dev",
    "libzstd-dev",
    // guests: machine, user land, modules
    "qemu-system-x86",
    "busybox-static",
    "kmod",
    "xz-utils",
    "tar",
    // file systems of the suites, on the host and in guests
    "e2fsprogs",
    "xfsprogs",
    "btrfs-progs",
    "dosfstools",
    "mount",
    // lists the files that the checks read
    "git",
    // the cluster: its runtime's system call filter, its keys, its network
    "libseccomp-dev",
    "pkg-config",
    "openssl",
    "iproute2",
];

pub(super) fn step() -> Step {
    Step {
        name: "apt packages".into(),
        look: Box::new(|_| look()),
        act: Box::new(act),
        fix: "run as root on a Debian machine whose apt sources work: `apt-get update` must succeed and offer the packages named above",
    }
}

fn wanted() -> Result<Vec<String>> {
    let llvm = toolchain::rustc_llvm()?.major();
    Ok(PACKAGES
        .iter()
        .map(|name| name.replace("{llvm}", &llvm.to_string()))
        .collect())
}

fn look() -> Result<Presence> {
    let wanted = wanted()?;
    let missing = missing(&wanted);
    Ok(if missing.is_empty() {
        Presence::There(format!("{} packages", wanted.len()))
    } else {
        Presence::Missing(missing.join(" "))
    })
}

/// dpkg-query exits non-zero when one name is unknown, and still lists the others.
fn missing(wanted: &[String]) -> Vec<String> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Abbrev}\n"])
        .args(wanted)
        .output();
    let listed = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let installed: Vec<&str> = installed(&listed).collect();
    wanted
        .iter()
        .filter(|name| !installed.contains(&name.as_str()))
        .cloned()
        .collect()
}

fn installed(listed: &str) -> impl Iterator<Item = &str> {
    listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, state)| state.starts_with("ii"))
        .map(|(name, _)| name)
}

fn act(context: &Context<'_>) -> Result<()> {
    let missing = missing(&wanted()?);
    let workspace = context.workspace;
    run_logged(
        Command::new("apt-get").args(["-q", "update"]),
        &workspace.log("apt-update"),
    )?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install
        .args(["-q", "install", "--yes", "--no-install-recommends"])
        .args(&missing);
    run_logged(&mut install, &workspace.log("apt-install"))?;
    Ok(())
}

/// Whether apt can be used at all, in one word for error messages.
pub(super) fn available() -> bool {
    capture(Command::new("apt-get").arg("--version")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fully_installed_packages_count() {
        let listed = "gcc ii \nkmod rc \nmount iU \ntar ii \n";
        assert_eq!(installed(listed).collect::<Vec<_>>(), ["gcc", "tar"]);
    }

    #[test]
    fn an_unknown_package_is_missing() {
        assert_eq!(
            missing(&["eviction-no-such-package".into()]),
            ["eviction-no-such-package"]
        );
    }
}

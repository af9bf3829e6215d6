//! The Rust toolchain: rustfmt and clippy, and the library source of exactly this rustc, which the eBPF
//! target (no prebuilt `core`) is built from.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Context, Presence, Step};
use crate::console;
use crate::process::{capture, cargo};

/// A version of LLVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Llvm(u32, u32, u32);

impl Llvm {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text
            .trim()
            .split(|c: char| !c.is_ascii_digit())
            .map(|digits| digits.parse().ok());
        Some(Self(
            numbers.next()??,
            numbers.next()??,
            numbers.next().flatten().unwrap_or(0),
        ))
    }

    pub(super) fn major(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Llvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// One field of `rustc -vV`, such as `release` or `LLVM version`.
fn field(verbose: &str, name: &str) -> Option<String> {
    verbose.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(": ")
            .map(str::to_owned)
    })
}

fn rustc_field(name: &str) -> Result<String> {
    let verbose = capture(Command::new("rustc").arg("-vV")).context("rustc does not run")?;
    field(&verbose, name).with_context(|| format!("`rustc -vV` says nothing about `{name}`"))
}

pub(super) fn rustc_llvm() -> Result<Llvm> {
    let text = rustc_field("LLVM version")?;
    Llvm::parse(&text).with_context(|| format!("rustc's LLVM version `{text}` is no version"))
}

pub(super) fn components() -> Step {
    Step {
        name: "rustfmt and clippy".into(),
        look: Box::new(|_| {
            let missing: Vec<&str> = ["fmt", "clippy"]
                .into_iter()
                .filter(|tool| capture(cargo().args([tool, "--version"])).is_err())
                .collect();
            Ok(if missing.is_empty() {
                Presence::There(format!("with rustc {}", rustc_field("release")?))
            } else {
                Presence::Missing(missing.join(" "))
            })
        }),
        act: Box::new(|_| {
            capture(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))?;
            Ok(())
        }),
        fix: "install the components rustfmt and clippy of the active toolchain",
    }
}

pub(super) fn library_source() -> Step {
    Step {
        name: "library source".into(),
        look: Box::new(|_| {
            let release = rustc_field("release")?;
            let lacking: Vec<String> = sysroots()?
                .iter()
                .filter(|root| !has_source(root))
                .map(|root| root.display().to_string())
                .collect();
            Ok(if lacking.is_empty() {
                Presence::There(format!("of rustc {release}"))
            } else {
                Presence::Missing(format!("in {}", lacking.join(", ")))
            })
        }),
        act: Box::new(add_source),
        fix: "`rustup component add rust-src` must work, or apt must offer the package rust-src of exactly this version (Debian: trixie-backports)",
    }
}

fn has_source(sysroot: &Path) -> bool {
    sysroot
        .join("lib/rustlib/src/rust/library/core/src/lib.rs")
        .exists()
}

/// The sysroots of every installed toolchain that is exactly this rustc: aya-build may run it under another name.
fn sysroots() -> Result<BTreeSet<PathBuf>> {
    let commit = rustc_field("commit-hash")?;
    let mut roots = BTreeSet::from([sysroot(&mut Command::new("rustc"))?]);
    // Without rustup there is only the one.
    let listed = capture(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    for name in listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        let verbose =
            capture(Command::new("rustup").args(["run", name, "rustc", "-vV"])).unwrap_or_default();
        if field(&verbose, "commit-hash").as_ref() == Some(&commit) {
            roots.insert(sysroot(
                Command::new("rustup").args(["run", name, "rustc"]),
            )?);
        }
    }
    Ok(roots)
}

fn sysroot(rustc: &mut Command) -> Result<PathBuf> {
    let root = PathBuf::from(capture(rustc.args(["--print", "sysroot"]))?.trim());
    root.canonicalize()
        .with_context(|| format!("the sysroot {} is not there", root.display()))
}

fn add_source(context: &Context<'_>) -> Result<()> {
    let by_rustup = capture(Command::new("rustup").args(["component", "add", "rust-src"]));
    if let Err(error) = by_rustup {
        let why = error.to_string();
        console::progress(&format!(
            "rustup could not ({}): taking Debian's package",
            why.lines().last().unwrap_or_default().trim()
        ));
    }
    for root in sysroots()?.iter().filter(|root| !has_source(root)) {
        let source = debian_source(context)?;
        let link = root.join("lib/rustlib/src/rust");
        std::fs::create_dir_all(link.parent().context("the link has a folder")?)?;
        if link.symlink_metadata().is_ok() {
            bail!(
                "{} is there but holds no library source: remove it",
                link.display()
            );
        }
        std::os::unix::fs::symlink(&source, &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(())
}

/// Debian's `rust-src` of exactly this version, unpacked into the cache.
fn debian_source(context: &Context<'_>) -> Result<PathBuf> {
    let release = rustc_field("release")?;
    let kept = context.workspace.cache().join("rust-src").join(&release);
    let source = kept.join("usr/src").join(format!("rustc-{release}"));
    if source.join("library/core/src/lib.rs").exists() {
        return Ok(source);
    }
    let offered = context.archive()?.packages("rust-src")?;
    let is_this = |version: &str| {
        version
            .strip_prefix(&release)
            .is_some_and(|rest| rest.starts_with(['+', '-', '~']))
    };
    let Some((package, version)) = offered
        .iter()
        .find(|(name, version)| name == "rust-src" && is_this(version))
    else {
        let versions: Vec<&str> = offered
            .iter()
            .map(|(_, version)| version.as_str())
            .collect();
        bail!(
            "no suite offers rust-src {release} (offered: {})",
            versions.join(", ")
        );
    };
    context
        .archive()?
        .unpack(context.workspace, package, version, &kept)?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_versions_compare_by_number() {
        let parse = |text| Llvm::parse(text).unwrap();
        assert!(parse("22.1.8") > parse("22.1.2") && parse("9.0.1") < parse("22.1.2"));
        assert_eq!(parse("22.1\n"), Llvm(22, 1, 0));
        assert_eq!(Llvm::parse("unknown"), None);
    }

    #[test]
    fn this_rustc_is_among_the_toolchains() {
        assert!(!sysroots().unwrap().is_empty());
    }
}

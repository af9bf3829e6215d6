//! `cargo xtask vm`: from the command line to a [`Guest`], and its verdict to our exit code.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cli::VmArgs;
use xtask::build;
use xtask::clock::show;
use xtask::console;
use xtask::setup::Kernel;
use xtask::vm::{self, Accel, Guest, Line};
use xtask::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, args: VmArgs) -> Result<ExitCode> {
    let mut guest = Guest::new(
        Kernel::find(workspace, &args.kernel)?,
        args.cgroup,
        args.command,
    );
    if !args.bare {
        guest
            .files
            .push((build::eviction(workspace)?, "/bin/eviction".into()));
    }
    for given in &args.with {
        guest.files.push(placed(given)?);
    }
    guest.memory_mib = args.memory;
    guest.modules.extend(args.modules);
    guest.disks = args.disks;
    guest.keeps_disks = true;
    if let Some(missing) = guest.disks.iter().find(|disk| !disk.exists()) {
        bail!("--disk {}: there is no such file", missing.display());
    }
    guest.out = args.out;
    guest.interactive = args.shell;
    guest.timeout = Duration::from_secs(args.timeout);
    let finished = vm::run(workspace, &guest, &mut |line| match line {
        Line::Output(text) => console::say(text),
        Line::Notice(text) => eprintln!("vm: {text}"),
    })?;
    let how = if finished.accel == Accel::Kvm {
        "kvm"
    } else {
        "tcg"
    };
    eprintln!(
        "vm: {} ended with {} after {} ({how})",
        guest.kernel.version(),
        finished.code,
        show(finished.elapsed)
    );
    Ok(ExitCode::from(u8::try_from(finished.code).unwrap_or(1)))
}

/// `FILE` or `FILE:PLACE`.
fn placed(given: &str) -> Result<(PathBuf, String)> {
    let (file, place) = match given.rsplit_once(':') {
        Some((file, place)) if place.starts_with('/') => (PathBuf::from(file), place.to_owned()),
        _ => {
            let name = Path::new(given)
                .file_name()
                .with_context(|| format!("--with {given}: name a file"))?;
            (
                PathBuf::from(given),
                format!("/bin/{}", name.to_string_lossy()),
            )
        }
    };
    if !file.is_file() {
        bail!("--with {given}: there is no file {}", file.display());
    }
    Ok((file, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_to_bin_unless_a_place_is_given() {
        let own = file!();
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap()
            .join(own)
            .display()
            .to_string();
        assert_eq!(placed(&path).unwrap().1, "/bin/guest.rs");
        assert_eq!(placed(&format!("{path}:/etc/x")).unwrap().1, "/etc/x");
        assert!(
            placed("/no/such/file")
                .unwrap_err()
                .to_string()
                .contains("/no/such/file")
        );
    }
}

//! A program in a cgroup namespace of its own, as in a container: what it sees as `/` is its own cgroup.

use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::write;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Lets `command` start in these cgroups (one per hierarchy), which become the roots of its namespace.
pub fn in_namespace(command: &mut Command, groups: &[PathBuf]) -> io::Result<()> {
    let files = groups
        .iter()
        .map(|group| CString::new(group.join("cgroup.procs").as_os_str().as_bytes()))
        .collect::<Result<Vec<_>, _>>()?;
    let enter = move || {
        for file in &files {
            let procs = open(file.as_c_str(), OFlag::O_WRONLY, Mode::empty())?;
            write(&procs, b"0")?;
        }
        unshare(CloneFlags::CLONE_NEWCGROUP)?;
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; the paths were made before.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

//! Guests: boots one of the cached kernels in QEMU with an initramfs made on the spot, runs a command in it,
//! and brings back its exit code, its output, and the files it left in `/out`.

mod accel;
pub mod image;
mod initramfs;
mod modules;
mod network;
mod qemu;
mod tail;
mod watch;

use std::fmt;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::clock::Stopwatch;
use crate::process::{capture, tail as last_lines};
use crate::setup::{GUEST_KERNELS, Kernel};
use crate::workspace::Workspace;

pub use network::UserNetwork;
pub use qemu::Accel;

const POLL: Duration = Duration::from_millis(50);
/// From the verdict to the machine being off; from a crash to the end of its stack trace.
const GOODBYE: Duration = Duration::from_secs(20);
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Which cgroup version the guest mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    V1,
    V2,
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

impl FromStr for CgroupVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(Self::V1),
            "v2" => Ok(Self::V2),
            other => Err(format!("`{other}` is no cgroup version: use v1 or v2")),
        }
    }
}

/// The machines that are tested: kernel series and cgroup version. Debian builds 6.12 and later without cgroup v1 memory, so
/// v1 is shown on 6.1.
pub const MACHINES: [(&str, CgroupVersion); 5] = [
    ("5.10", CgroupVersion::V2),
    ("6.1", CgroupVersion::V2),
    ("6.12", CgroupVersion::V2),
    ("7.3", CgroupVersion::V2),
    ("6.1", CgroupVersion::V1),
];

/// What to boot and what to run in it.
#[derive(Clone, Debug)]
pub struct Guest {
    pub kernel: Kernel,
    pub cgroup: CgroupVersion,
    pub memory_mib: u32,
    /// Files of the host and where they lie in the guest; programs bring their shared libraries along.
    pub files: Vec<(PathBuf, String)>,
    /// Modules to load before the command runs, in this order.
    pub modules: Vec<String>,
    /// Raw disk images: `/dev/vda`, `/dev/vdb`, ...
    pub disks: Vec<PathBuf>,
    /// Whether what is written to them is kept. Else a guest that is booted once more finds the same disks again.
    pub keeps_disks: bool,
    pub command: Vec<String>,
    /// A shell on the terminal instead of the command.
    pub interactive: bool,
    /// Where on the host the content of the guest's `/out` goes.
    pub out: Option<PathBuf>,
    pub timeout: Duration,
    /// `None`: it has no network device.
    pub network: Option<UserNetwork>,
    /// Set by another thread when nobody needs the guest any more.
    pub unwanted: Arc<AtomicBool>,
}

impl Guest {
    #[must_use]
    pub fn new(kernel: Kernel, cgroup: CgroupVersion, command: Vec<String>) -> Self {
        Self {
            kernel,
            cgroup,
            memory_mib: 1024,
            files: Vec::new(),
            modules: ["virtio_pci", "virtio_blk", "loop"]
                .map(str::to_owned)
                .to_vec(),
            disks: Vec::new(),
            keeps_disks: false,
            command,
            interactive: false,
            out: None,
            timeout: Duration::from_secs(600),
            network: None,
            unwanted: Arc::default(),
        }
    }
}

/// What a caller may show while the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Printed by the command.
    Output(&'a str),
    /// Said by us about the guest.
    Notice(&'a str),
}

/// A guest that gave its verdict.
#[derive(Debug)]
pub struct Finished {
    /// The command's exit code; 125 when init could not prepare the guest (the output says why).
    pub code: i32,
    /// Everything the command printed.
    pub output: String,
    pub accel: Accel,
    pub elapsed: Duration,
}

/// A guest that did not.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error("{path}: {cause}")]
    File {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("there is no module {module} in {folder}")]
    NoModule { module: String, folder: PathBuf },
    #[error(
        "Debian builds kernel {0} without the cgroup v1 memory controller: use --kernel 6.1 or --cgroup v2"
    )]
    NoMemoryV1(String),
    #[error("cannot start {program}: {cause}: run `cargo xtask setup`", program = qemu::PROGRAM)]
    NoQemu { cause: std::io::Error },
    #[error("the guest's kernel is sick: {marker}\n{console}")]
    Crashed {
        marker: String,
        console: String,
        before_init: bool,
    },
    #[error("the guest ended without a verdict\n{console}")]
    NoVerdict { console: String },
    #[error("the guest was still running after {} s\n{console}", after.as_secs())]
    TimedOut { after: Duration, console: String },
    #[error("the guest was switched off, because nobody needed it any more")]
    Unwanted,
    #[error("the files of the guest's /out could not be taken: {0}")]
    Out(String),
}

/// Boots the guest and waits for its verdict. A kernel that dies before init ran is booted once more: under
/// emulation that happens to a healthy one too (7.3: one boot in eight), and nothing of ours has run yet. The cause also comes
/// later, but seldom (7.3, about one run in forty): see [`watch::is_emulators`].
pub fn run(
    workspace: &Workspace,
    guest: &Guest,
    show: &mut dyn FnMut(Line<'_>),
) -> Result<Finished, GuestError> {
    check_memory_v1(guest)?;
    let accel = accel::best(workspace, &guest.kernel);
    match run_once(workspace, guest, accel, show) {
        Err(GuestError::Crashed {
            marker,
            before_init,
            ..
        }) if before_init || (accel == Accel::Tcg && watch::is_emulators(&marker)) => {
            let when = if before_init {
                "before init ran"
            } else {
                "of what only the emulator does"
            };
            show(Line::Notice(&format!(
                "the kernel died {when} ({marker}): booting once more"
            )));
            run_once(workspace, guest, accel, show)
        }
        other => other,
    }
}

fn check_memory_v1(guest: &Guest) -> Result<(), GuestError> {
    let version = guest.kernel.version();
    let lacks = |series: &str| {
        GUEST_KERNELS
            .iter()
            .any(|known| known.series == series && !known.memory_v1)
    };
    let series: String = version.split('.').take(2).collect::<Vec<_>>().join(".");
    if guest.cgroup == CgroupVersion::V1 && lacks(&series) {
        Err(GuestError::NoMemoryV1(series))
    } else {
        Ok(())
    }
}

fn run_once(
    workspace: &Workspace,
    guest: &Guest,
    accel: Accel,
    show: &mut dyn FnMut(Line<'_>),
) -> Result<Finished, GuestError> {
    let clock = Stopwatch::start();
    let scratch = tempfile::Builder::new()
        .prefix("eviction-vm-")
        .tempdir()
        .map_err(|cause| GuestError::File {
            path: std::env::temp_dir(),
            cause,
        })?;
    let at = |name: &str| scratch.path().join(name);
    let nonce = scratch
        .path()
        .file_name()
        .map(|name| name.to_string_lossy().replace("eviction-vm-", ""))
        .unwrap_or_default();
    initramfs::write(guest, &nonce, &at("initramfs"))?;
    let (console, output, files) = (at("console"), at("output"), at("files"));
    for path in [&console, &output, &files] {
        File::create(path).map_err(|cause| GuestError::File {
            path: path.clone(),
            cause,
        })?;
    }
    let ports = qemu::Ports {
        console: &console,
        output: &output,
        files: &files,
    };
    let mut command = qemu::command(guest, accel, &at("initramfs"), &ports);
    if let Some(network) = &guest.network {
        network.enter(&mut command)?;
    }
    let running = Running::start(command, guest.interactive, &at("qemu"))?;
    let watched = watch_over(running, guest, &nonce, &ports, clock, show);
    let has_failed = watched
        .as_ref()
        .is_err_and(|error| !matches!(error, GuestError::Unwanted));
    keep_console(workspace, guest, &console, has_failed);
    let (code, output) = watched.map_err(|error| with_words_of_qemu(error, &at("qemu")))?;
    if let Some(out) = &guest.out {
        unpack(&files, out)?;
    }
    Ok(Finished {
        code,
        output,
        accel,
        elapsed: clock.elapsed(),
    })
}

/// Reads what the guest prints until it has said its verdict and is off, or something is wrong.
fn watch_over(
    mut running: Running,
    guest: &Guest,
    nonce: &str,
    ports: &qemu::Ports<'_>,
    clock: Stopwatch,
    show: &mut dyn FnMut(Line<'_>),
) -> Result<(i32, String), GuestError> {
    let open = |path: &Path| {
        tail::Tail::open(path).map_err(|cause| GuestError::File {
            path: path.to_owned(),
            cause,
        })
    };
    let (mut console, mut output) = (open(ports.console)?, open(ports.output)?);
    let mut watch = watch::Watch::new(nonce);
    let (mut seen, mut printed) = (String::new(), String::new());
    let mut until = guest.timeout;
    loop {
        let ended = running.ended();
        for line in console.lines(ended).unwrap_or_default() {
            watch.console(&line);
            seen.push_str(&line);
            seen.push('\n');
        }
        for line in output.lines(ended).unwrap_or_default() {
            if let Some(own) = watch.output(&line) {
                show(Line::Output(own));
                printed.push_str(own);
                printed.push('\n');
            }
        }
        if watch.crash().is_some() {
            until = until.min(clock.elapsed() + LAST_WORDS);
        } else if watch.verdict().is_some() {
            until = until.min(clock.elapsed() + GOODBYE);
        }
        if guest.unwanted.load(Ordering::Relaxed) {
            return Err(GuestError::Unwanted);
        }
        if ended || (clock.elapsed() >= until && !guest.interactive) {
            break;
        }
        thread::sleep(POLL);
    }
    let ended = running.ended();
    drop(running);
    let console = last_lines(&seen);
    match (watch.crash(), watch.verdict()) {
        (Some(marker), _) => Err(GuestError::Crashed {
            console: watch::report(&seen, marker),
            marker: marker.to_owned(),
            before_init: !watch.started(),
        }),
        (None, Some(code)) => Ok((code, printed)),
        // The terminal had the output, nobody saw the verdict.
        (None, None) if guest.interactive && watch.started() => Ok((0, printed)),
        (None, None) if ended => Err(GuestError::NoVerdict { console }),
        (None, None) => Err(GuestError::TimedOut {
            after: guest.timeout,
            console,
        }),
    }
}

/// A started QEMU: never left behind, not even when we are killed.
struct Running(Child);

impl Running {
    fn start(mut command: Command, interactive: bool, errors: &Path) -> Result<Self, GuestError> {
        let errors = File::create(errors).map_err(|cause| GuestError::File {
            path: errors.to_owned(),
            cause,
        })?;
        if !interactive {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let with_us = || Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?);
        // SAFETY: between fork and exec only prctl(2) is called, which is a single system call.
        unsafe { command.pre_exec(with_us) };
        command
            .stderr(errors)
            .spawn()
            .map(Self)
            .map_err(|cause| GuestError::NoQemu { cause })
    }

    fn ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine that never ran says why on its own standard error, not on the console.
fn with_words_of_qemu(error: GuestError, log: &Path) -> GuestError {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let add = |console: String| {
        [console, last_lines(&said)]
            .join("\n")
            .trim_end()
            .to_owned()
    };
    match error {
        GuestError::NoVerdict { console } => GuestError::NoVerdict {
            console: add(console),
        },
        GuestError::TimedOut { after, console } => GuestError::TimedOut {
            after,
            console: add(console),
        },
        other => other,
    }
}

/// The console of the last guest of each kind stays, for whoever looks into a failure.
fn keep_console(workspace: &Workspace, guest: &Guest, console: &Path, has_failed: bool) {
    let folder = workspace.target().join("vm");
    let kept = folder.join(format!(
        "{}-{}{}.console",
        guest.kernel.version(),
        guest.cgroup,
        // Not to be overwritten by the next one that goes well.
        if has_failed { "-failed" } else { "" }
    ));
    let _ = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(console, kept).map(drop));
}

fn unpack(files: &Path, out: &Path) -> Result<(), GuestError> {
    std::fs::create_dir_all(out).map_err(|cause| GuestError::File {
        path: out.to_owned(),
        cause,
    })?;
    if std::fs::metadata(files).map_or(0, |data| data.len()) == 0 {
        return Ok(());
    }
    let unpacked = capture(
        Command::new("tar")
            .arg("--extract")
            .arg("--no-same-owner")
            .arg("--file")
            .arg(files)
            .arg("--directory")
            .arg(out),
    );
    unpacked
        .map(drop)
        .map_err(|error| GuestError::Out(error.to_string()))
}

//! A FUSE file system of our own that answers until it is told not to: a dead server, to whoever asks. It speaks just enough of
//! the kernel's protocol (linux/fuse.h) for `stat` and `statfs` of its root.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, poll};

/// Operations that are answered; others get ENOSYS, but for those that expect no answer.
const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const SILENT: [u32; 3] = [2, 36, 42];
const BLOCK: u32 = 4096;

/// Mounted until it is dropped, also if it hangs.
pub struct Fuse {
    point: PathBuf,
    answers: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Fuse {
    /// `answers`: until [`Self::hang`]; else it hangs from the start.
    pub fn mount(point: &Path, answers: bool) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::libc::O_CLOEXEC)
            .open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let kind = Some("fuse");
        mount(
            Some("test"),
            point,
            kind,
            MsFlags::empty(),
            Some(options.as_str()),
        )?;
        let (answers, stop) = (Arc::new(AtomicBool::new(answers)), Arc::default());
        let (serving, stopped) = (Arc::clone(&answers), Arc::clone(&stop));
        let server = std::thread::spawn(move || serve(device, &serving, &stopped));
        Ok(Self {
            point: point.to_owned(),
            answers,
            stop,
            server: Some(server),
        })
    }

    /// From here on whoever asks waits.
    pub fn hang(&self) {
        self.answers.store(false, Ordering::SeqCst);
    }

    /// Those who waited are answered.
    pub fn go_on(&self) {
        self.answers.store(true, Ordering::SeqCst);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.point, MntFlags::MNT_DETACH) {
            eprintln!("warning: {} stays mounted: {error}", self.point.display());
        }
        self.stop.store(true, Ordering::SeqCst);
        // With its end of the device the connection is gone, and whoever waits gets an error.
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn serve(mut device: File, answers: &AtomicBool, stop: &AtomicBool) {
    let mut request = vec![0; 256 << 10];
    while !stop.load(Ordering::SeqCst) {
        if !answers.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let mut waiting = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, 20_u16) {
            Ok(1) if answers.load(Ordering::SeqCst) => {}
            _ => continue,
        }
        let Ok(length) = device.read(&mut request) else {
            return;
        };
        if let Some(answer) = answer(&request[..length])
            && device.write_all(&answer).is_err()
        {
            return;
        }
    }
}

/// `struct fuse_in_header` is 40 bytes: length, operation, and the number that the answer repeats.
fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| {
        Some(u32::from_ne_bytes(
            request.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let operation = word(4)?;
    let unique = request.get(8..16)?;
    if SILENT.contains(&operation) {
        return None;
    }
    let (error, body) = match operation {
        INIT => (0, init()),
        GETATTR => (0, attributes()),
        STATFS => (0, figures()),
        _ => (-nix::libc::ENOSYS, Vec::new()),
    };
    let length = u32::try_from(16 + body.len()).ok()?;
    Some(
        [
            &length.to_ne_bytes()[..],
            &error.to_ne_bytes(),
            unique,
            &body,
        ]
        .concat(),
    )
}

/// `struct fuse_init_out`, protocol 7.31.
fn init() -> Vec<u8> {
    let mut words = vec![7_u32, 31, 0, 0];
    // max_background and congestion_threshold share a word; then max_write and time_gran.
    words.extend([12 | 9 << 16, BLOCK, 1]);
    words.resize(16, 0);
    bytes(&words)
}

/// `struct fuse_attr_out`: not valid for any time, so each `stat` asks again. A directory with two links.
fn attributes() -> Vec<u8> {
    let mut words = vec![0_u32; 26];
    words[4] = 1;
    let mode_and_links = 4 + 15;
    words[mode_and_links] = 0o040_755;
    words[mode_and_links + 1] = 2;
    bytes(&words)
}

/// `struct fuse_kstatfs`: blocks, free, available, files, free files (64 bits each), block size, name length, fragment size.
fn figures() -> Vec<u8> {
    let longs = [1_000_u64, 500, 500, 1_000, 400];
    let words = [BLOCK, 255, BLOCK, 0, 0, 0, 0, 0, 0, 0];
    let mut answer: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
    answer.extend(bytes(&words));
    answer
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

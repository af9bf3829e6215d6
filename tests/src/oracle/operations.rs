//! Every way to use up or free disk space and inodes that the facts page names, each on a directory of its own.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    num::NonZeroUsize,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{FileExt, OpenOptionsExt, symlink},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, OFlag, SpliceFFlags, copy_file_range, fallocate, splice},
    sys::{
        mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap},
        sendfile::sendfile,
        stat::{Mode, SFlag, mknod},
    },
    unistd::{mkfifo, pipe},
};

use super::uring;

pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) run: fn(&Path) -> io::Result<()>,
    /// On tmpfs it takes inodes in a way that no hook sees: there the timer goes on.
    pub(super) hides_inodes_on_tmpfs: bool,
    pub(super) takes: Takes,
}

/// By what an operation takes space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Pages that turn dirty in the page cache.
    Pages,
    /// Calls that pass the cache by.
    Calls,
    /// What the file system adds of its own: directories, extents, attributes.
    Names,
}

const fn operation(name: &'static str, run: fn(&Path) -> io::Result<()>) -> Operation {
    Operation {
        name,
        run,
        hides_inodes_on_tmpfs: false,
        takes: Takes::Pages,
    }
}

const fn calling(name: &'static str, run: fn(&Path) -> io::Result<()>) -> Operation {
    Operation {
        takes: Takes::Calls,
        ..operation(name, run)
    }
}

const fn naming(name: &'static str, run: fn(&Path) -> io::Result<()>) -> Operation {
    Operation {
        takes: Takes::Names,
        ..operation(name, run)
    }
}

const fn hiding(name: &'static str, run: fn(&Path) -> io::Result<()>) -> Operation {
    Operation {
        hides_inodes_on_tmpfs: true,
        ..naming(name, run)
    }
}

pub(super) const ALL: [Operation; 30] = [
    operation("write", write),
    operation("append of single bytes", append),
    operation("overwrite", overwrite),
    operation("pwritev", pwritev),
    calling("direct write", direct),
    calling("fallocate", |dir| allocate(dir, FallocateFlags::empty())),
    calling("fallocate beyond the end", |dir| {
        allocate(dir, FallocateFlags::FALLOC_FL_KEEP_SIZE)
    }),
    calling("writing what was allocated", write_allocated),
    calling("allocating what is delayed", allocate_delayed),
    operation("punching a hole", punch),
    operation("stores through a mapping", |dir| map_store(dir, false)),
    operation("stores through a mapping and msync", |dir| {
        map_store(dir, true)
    }),
    operation("reads of a hole through a mapping", map_read),
    operation("splice", splice_in),
    operation("sendfile", send_in),
    operation("copy_file_range", copy_range),
    operation("reflink", reflink),
    operation("overwriting a reflink", overwrite_reflink),
    operation("io_uring write", uring_write),
    operation("truncate up", truncate_up),
    operation("truncate down", truncate_down),
    naming("sparse writes", sparse),
    naming("small files", small_files),
    naming("deleted files", deleted),
    operation("deleted open file", deleted_open),
    naming("directories", directories),
    naming("symlinks", symlinks),
    naming("nodes, pipes and unnamed files", nodes),
    hiding("extended attributes", attributes),
    hiding("hard links", hard_links),
];

const MIB: usize = 1 << 20;
const SMALL_FILES: usize = 150;

/// What a file system or an old kernel does not have.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let known = [
        Errno::EOPNOTSUPP,
        Errno::ENOTTY,
        Errno::EXDEV,
        Errno::ENOSYS,
        Errno::EINVAL,
    ];
    known
        .iter()
        .any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn create(dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(dir.join("file"))
}

fn filled(dir: &Path, name: &str, bytes: usize) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(dir.join(name))?;
    for _ in 0..bytes / 4096 {
        file.write_all(&[5; 4096])?;
    }
    Ok(file)
}

fn write(dir: &Path) -> io::Result<()> {
    filled(dir, "file", 4 * MIB).map(drop)
}

fn append(dir: &Path) -> io::Result<()> {
    let mut file = create(dir)?;
    for _ in 0..500 {
        file.write_all(b"x")?;
    }
    Ok(())
}

fn overwrite(dir: &Path) -> io::Result<()> {
    let mut file = filled(dir, "file", 2 * MIB)?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&vec![6; 2 * MIB])
}

fn pwritev(dir: &Path) -> io::Result<()> {
    let file = create(dir)?;
    let half = vec![3_u8; MIB / 2];
    let parts = [io::IoSlice::new(&half), io::IoSlice::new(&half)];
    nix::sys::uio::pwritev(&file, &parts, 4096)?;
    Ok(())
}

/// A megabyte that may be read and written without the page cache.
struct Aligned(*mut u8);

impl Aligned {
    fn new() -> io::Result<Self> {
        let length = NonZeroUsize::new(MIB).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh private mapping.
        let place = unsafe {
            nix::sys::mman::mmap_anonymous(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }?;
        Ok(Self(place.as_ptr().cast()))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped by `new`, zeroed, and ours alone.
        unsafe { std::slice::from_raw_parts(self.0, MIB) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if let Some(place) = std::ptr::NonNull::new(self.0.cast()) {
            // SAFETY: mapped by `new` with this length; no slice of it outlives `self`.
            let _ = unsafe { munmap(place, MIB) };
        }
    }
}

fn direct(dir: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(dir.join("file"))?;
    let buffer = Aligned::new()?;
    for part in 0..2 {
        file.write_all_at(buffer.bytes(), part * MIB as u64)?;
    }
    Ok(())
}

fn allocate(dir: &Path, flags: FallocateFlags) -> io::Result<()> {
    Ok(fallocate(create(dir)?, flags, 0, 4 * MIB as i64)?)
}

fn write_allocated(dir: &Path) -> io::Result<()> {
    let mut file = create(dir)?;
    fallocate(&file, FallocateFlags::empty(), 0, 2 * MIB as i64)?;
    file.write_all(&vec![1; 2 * MIB])
}

fn allocate_delayed(dir: &Path) -> io::Result<()> {
    let file = filled(dir, "file", MIB)?;
    Ok(fallocate(file, FallocateFlags::empty(), 0, MIB as i64)?)
}

fn punch(dir: &Path) -> io::Result<()> {
    let file = filled(dir, "file", 2 * MIB)?;
    file.sync_all()?;
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    Ok(fallocate(file, flags, 0, MIB as i64)?)
}

fn with_mapping(file: &File, touch: impl FnOnce(*mut u8) -> io::Result<()>) -> io::Result<()> {
    let length = NonZeroUsize::new(MIB).ok_or(io::ErrorKind::InvalidInput)?;
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh shared mapping of a file that is long enough and that nobody truncates.
    let place = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file, 0) }?;
    let touched = touch(place.as_ptr().cast());
    // SAFETY: mapped above with this length.
    unsafe { munmap(place, MIB) }?;
    touched
}

fn map_store(dir: &Path, sync: bool) -> io::Result<()> {
    let file = create(dir)?;
    file.set_len(MIB as u64)?;
    with_mapping(&file, |place| {
        for page in 0..MIB / 4096 {
            // SAFETY: within the mapping.
            unsafe { place.add(page * 4096).write_volatile(1) };
        }
        if sync && let Some(start) = std::ptr::NonNull::new(place.cast()) {
            // SAFETY: the mapping, whole.
            unsafe { msync(start, MIB, MsFlags::MS_SYNC) }?;
        }
        Ok(())
    })
}

fn map_read(dir: &Path) -> io::Result<()> {
    let file = create(dir)?;
    file.set_len(MIB as u64)?;
    with_mapping(&file, |place| {
        for page in 0..MIB / 4096 {
            // SAFETY: within the mapping.
            unsafe { place.add(page * 4096).read_volatile() };
        }
        Ok(())
    })
}

fn splice_in(dir: &Path) -> io::Result<()> {
    let file = create(dir)?;
    let (read, write) = pipe()?;
    let mut write = File::from(write);
    for _ in 0..16 {
        write.write_all(&[2; 65_536])?;
        let mut left = 65_536;
        while left > 0 {
            left -= splice(&read, None, &file, None, left, SpliceFFlags::empty())?;
        }
    }
    Ok(())
}

fn send_in(dir: &Path) -> io::Result<()> {
    let source = filled(dir, "source", MIB)?;
    let file = create(dir)?;
    let mut offset = 0;
    while offset < MIB as i64 {
        sendfile(&file, &source, Some(&mut offset), MIB)?;
    }
    Ok(())
}

fn copy_range(dir: &Path) -> io::Result<()> {
    let source = filled(dir, "source", MIB)?;
    source.sync_all()?;
    let file = create(dir)?;
    let mut copied = 0;
    let (mut from, mut to) = (0, 0);
    while copied < MIB {
        copied += copy_file_range(&source, Some(&mut from), &file, Some(&mut to), MIB - copied)?;
    }
    Ok(())
}

nix::ioctl_write_int!(clone_file, 0x94, 9);

fn cloned(dir: &Path) -> io::Result<File> {
    let source = filled(dir, "source", MIB)?;
    source.sync_all()?;
    let file = create(dir)?;
    // SAFETY: FICLONE takes the other file's descriptor, which is open.
    unsafe { clone_file(file.as_raw_fd(), source.as_raw_fd() as u64) }?;
    Ok(file)
}

fn reflink(dir: &Path) -> io::Result<()> {
    cloned(dir).map(drop)
}

fn overwrite_reflink(dir: &Path) -> io::Result<()> {
    cloned(dir)?.write_all(&vec![8; MIB])
}

fn uring_write(dir: &Path) -> io::Result<()> {
    uring::write(create(dir)?.as_fd(), &vec![9; MIB])
}

fn truncate_up(dir: &Path) -> io::Result<()> {
    create(dir)?.set_len(64 * MIB as u64)
}

fn truncate_down(dir: &Path) -> io::Result<()> {
    let file = filled(dir, "file", 4 * MIB)?;
    file.sync_all()?;
    file.set_len(MIB as u64)
}

fn sparse(dir: &Path) -> io::Result<()> {
    let file = create(dir)?;
    for block in 0..300 {
        file.write_all_at(&[4; 4096], block * 65_536)?;
    }
    file.sync_all()
}

fn small_files(dir: &Path) -> io::Result<()> {
    for number in 0..SMALL_FILES {
        fs::write(dir.join(number.to_string()), [1; 100])?;
    }
    Ok(())
}

fn deleted(dir: &Path) -> io::Result<()> {
    small_files(dir)?;
    for number in 0..SMALL_FILES {
        fs::remove_file(dir.join(number.to_string()))?;
    }
    filled(dir, "file", 4 * MIB)?;
    fs::remove_file(dir.join("file"))
}

fn deleted_open(dir: &Path) -> io::Result<()> {
    let mut file = filled(dir, "file", MIB)?;
    fs::remove_file(dir.join("file"))?;
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut [0; 16])
}

fn directories(dir: &Path) -> io::Result<()> {
    (0..100).try_for_each(|number| fs::create_dir(dir.join(number.to_string())))?;
    (0..50).try_for_each(|number| fs::remove_dir(dir.join(number.to_string())))
}

fn symlinks(dir: &Path) -> io::Result<()> {
    let target = "t".repeat(400);
    (0..50).try_for_each(|number| symlink(&target, dir.join(number.to_string())))
}

fn nodes(dir: &Path) -> io::Result<()> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mknod(&dir.join("regular"), SFlag::S_IFREG, mode, 0)?;
    mkfifo(&dir.join("pipe"), mode)?;
    let unnamed = OFlag::O_TMPFILE.bits();
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(unnamed)
        .open(dir);
    match file {
        Ok(mut file) => file.write_all(&[1; 4096]),
        // Overlay has none before 6.1.
        Err(error) if is_unsupported(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn hard_links(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("file"), b"")?;
    (0..100).try_for_each(|number| fs::hard_link(dir.join("file"), dir.join(number.to_string())))
}

fn attributes(dir: &Path) -> io::Result<()> {
    let value = vec![b'v'; 3_000];
    for number in 0..20 {
        let path = dir.join(number.to_string());
        fs::write(&path, b"")?;
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: both strings end with 0, the value's length is told.
        let done = unsafe {
            nix::libc::setxattr(
                path.as_ptr(),
                c"trusted.eviction".as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        };
        match Errno::result(done) {
            Ok(_) => {}
            // One block at most on ext4 without ea_inode, less on 4 KiB with others.
            Err(Errno::ENOSPC) => return Err(Errno::EOPNOTSUPP.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

//! One write through io_uring.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use io_uring::{IoUring, opcode, types};

/// Refused where the kernel has no io_uring, or a sysctl forbids it.
pub(super) fn write(file: BorrowedFd<'_>, data: &[u8]) -> io::Result<()> {
    let mut ring = IoUring::new(4).map_err(|error| match error.raw_os_error() {
        Some(nix::libc::EPERM) => nix::errno::Errno::EOPNOTSUPP.into(),
        _ => error,
    })?;
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    let mut written = 0_u32;
    while written < length {
        let rest = &data[written as usize..];
        let entry =
            opcode::Write::new(types::Fd(file.as_raw_fd()), rest.as_ptr(), length - written)
                .offset(written.into())
                .build();
        // SAFETY: file and data outlive the operation: its end is waited for below.
        unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        let done = ring
            .completion()
            .next()
            .ok_or_else(|| io::Error::other("no completion"))?;
        match u32::try_from(done.result()) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => written += bytes,
            Err(_) => return Err(io::Error::from_raw_os_error(-done.result())),
        }
    }
    Ok(())
}

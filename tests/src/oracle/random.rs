//! A seeded mix of operations on a few files, so that one works on what another left.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use nix::fcntl::{FallocateFlags, fallocate};

use super::operations::is_unsupported;

/// Numbers from a seed alone (splitmix64), the same on every machine.
pub(super) struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

const FILES: u64 = 12;
/// No file grows beyond this, so that all of them fit on a small disk.
const LONGEST: u64 = 4 << 20;

pub(super) fn run(dir: &Path, seed: u64, steps: u32) -> io::Result<()> {
    let mut numbers = Numbers(seed);
    let dir = dir.join("random");
    fs::create_dir_all(&dir)?;
    for _ in 0..steps {
        match step(&dir, &mut numbers) {
            Err(error) if is_unsupported(&error) || error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn step(dir: &Path, numbers: &mut Numbers) -> io::Result<()> {
    let path = dir.join(numbers.below(FILES).to_string());
    let other = dir.join(numbers.below(FILES).to_string());
    let open = || {
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
    };
    let offset = numbers.below(LONGEST / 2);
    let length = numbers.below(LONGEST / 4) + 1;
    let data = || vec![(offset % 251) as u8; length as usize];
    match numbers.below(12) {
        0 | 1 => open()?.write_all_at(&data(), offset),
        2 => {
            let mut file = open()?;
            if file.seek(SeekFrom::End(0))? < LONGEST {
                file.write_all(&data()[..length as usize % 5_000])?;
            }
            Ok(())
        }
        3 => Ok(fallocate(
            open()?,
            FallocateFlags::empty(),
            offset as i64,
            length as i64,
        )?),
        4 => Ok(fallocate(
            open()?,
            FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE,
            offset as i64,
            length as i64,
        )?),
        5 => open()?.set_len(offset),
        6 => fs::remove_file(&path),
        7 => fs::copy(&path, &other).map(drop),
        8 => fs::rename(&path, &other),
        9 => open()?.sync_all(),
        10 => {
            let sub = dir.join(format!("d{}", numbers.below(FILES)));
            match fs::create_dir(&sub) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_dir(&sub),
                other => other,
            }
        }
        _ => nix::unistd::syncfs(File::open(dir)?).map_err(io::Error::from),
    }
}

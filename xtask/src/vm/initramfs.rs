//! The guest's whole file system: busybox, init, the programs asked for with the libraries they need, modules.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::modules::Modules;
use super::{Guest, GuestError};
use crate::process::capture;

const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");
const FOLDERS: [&str; 9] = [
    "bin", "dev", "etc", "modules", "proc", "root", "sbin", "sys", "usr",
];

/// Bits of `st_mode`.
const FOLDER: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_600;

/// Writes the archive for `guest` to `path`.
pub(super) fn write(guest: &Guest, nonce: &str, path: &Path) -> Result<(), GuestError> {
    let failed = |cause| GuestError::File {
        path: path.to_owned(),
        cause,
    };
    let mut archive = Archive {
        out: BufWriter::new(File::create(path).map_err(failed)?),
        seen: BTreeSet::new(),
        inode: 0,
    };
    for folder in FOLDERS {
        archive.folder(folder).map_err(failed)?;
    }
    // init's own standard output, before it has mounted anything
    archive
        .entry("dev/console", CHARACTER, &[], (5, 1))
        .map_err(failed)?;
    archive
        .file("bin/busybox", 0o755, &read(Path::new(BUSYBOX))?)
        .map_err(failed)?;
    archive
        .file("init", 0o755, INIT.as_bytes())
        .map_err(failed)?;
    archive
        .file("etc/guest", 0o644, settings(guest, nonce).as_bytes())
        .map_err(failed)?;
    archive
        .file("etc/command", 0o644, quoted(&guest.command).as_bytes())
        .map_err(failed)?;
    archive
        .file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n")
        .map_err(failed)?;
    archive
        .file("etc/group", 0o644, b"root:x:0:\n")
        .map_err(failed)?;
    for (from, to) in &guest.files {
        let content = slim(from)?;
        archive
            .file(to.trim_start_matches('/'), mode(from)?, &content)
            .map_err(failed)?;
        for library in libraries(from) {
            let name = library.to_string_lossy().trim_start_matches('/').to_owned();
            archive
                .file(&name, 0o755, &read(&library)?)
                .map_err(failed)?;
        }
    }
    let order = Modules::read(&guest.kernel.modules())?.load_order(&guest.modules)?;
    let mut list = String::new();
    for file in order {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let (name, content) = match name.strip_suffix(".xz") {
            Some(plain) => (plain.to_owned(), unxz(&file)?),
            None => (name, read(&file)?),
        };
        archive
            .file(&format!("modules/{name}"), 0o644, &content)
            .map_err(failed)?;
        list.push_str(&name);
        list.push('\n');
    }
    archive
        .file("modules/order", 0o644, list.as_bytes())
        .map_err(failed)?;
    let mut out = cpio::newc::trailer(archive.out).map_err(failed)?;
    out.flush().map_err(failed)
}

struct Archive {
    out: BufWriter<File>,
    seen: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        content: &[u8],
        device: (u32, u32),
    ) -> std::io::Result<()> {
        if !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        self.inode += 1;
        let size = u32::try_from(content.len())
            .map_err(|_| std::io::Error::other(format!("{name} is larger than 4 GiB")))?;
        let header = cpio::NewcBuilder::new(name)
            .ino(self.inode)
            .mode(mode)
            .nlink(1)
            .rdev_major(device.0)
            .rdev_minor(device.1);
        let mut writer = header.write(&mut self.out, size);
        writer.write_all(content)?;
        writer.finish()?;
        Ok(())
    }

    /// The folder and the ones above it: the kernel does not make them by itself.
    fn folder(&mut self, name: &str) -> std::io::Result<()> {
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            self.entry(&name[..end], FOLDER, &[], (0, 0))?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, permissions: u32, content: &[u8]) -> std::io::Result<()> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.entry(name, REGULAR | permissions, content, (0, 0))
    }
}

fn settings(guest: &Guest, nonce: &str) -> String {
    format!(
        "NONCE={nonce}\nCGROUP={}\nINTERACTIVE={}\n",
        guest.cgroup,
        u8::from(guest.interactive)
    )
}

/// The words as one line that a shell reads back unchanged.
fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    format!("exec {}\n", words.join(" "))
}

fn read(path: &Path) -> Result<Vec<u8>, GuestError> {
    std::fs::read(path).map_err(|cause| GuestError::File {
        path: path.to_owned(),
        cause,
    })
}

fn mode(path: &Path) -> Result<u32, GuestError> {
    let data = std::fs::metadata(path).map_err(|cause| GuestError::File {
        path: path.to_owned(),
        cause,
    })?;
    Ok(data.permissions().mode() & 0o777)
}

/// Without debug information: the guest's memory holds the file twice while it boots.
fn slim(path: &Path) -> Result<Vec<u8>, GuestError> {
    let content = read(path)?;
    if !content.starts_with(b"\x7fELF") {
        return Ok(content);
    }
    let Ok(scratch) = tempfile::NamedTempFile::new() else {
        return Ok(content);
    };
    let stripped = capture(
        Command::new("strip")
            .arg("--strip-debug")
            .arg("-o")
            .arg(scratch.path())
            .arg(path),
    );
    // A file that strip cannot read (an eBPF object) goes in as it is.
    if stripped.is_ok() {
        read(scratch.path())
    } else {
        Ok(content)
    }
}

/// Shared libraries of a program, by `ldd`; a static program, a script or a data file has none.
fn libraries(path: &Path) -> Vec<PathBuf> {
    let listed = capture(Command::new("ldd").arg(path)).unwrap_or_default();
    parse_ldd(&listed)
}

fn parse_ldd(listed: &str) -> Vec<PathBuf> {
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

fn unxz(path: &Path) -> Result<Vec<u8>, GuestError> {
    let output = Command::new("xz")
        .arg("--decompress")
        .arg("--stdout")
        .arg(path)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(GuestError::File {
            path: path.to_owned(),
            cause: std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()),
        }),
        Err(cause) => Err(GuestError::File {
            path: PathBuf::from("xz"),
            cause,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_shell() {
        let words = ["echo", "it's", "$HOME", "a b"].map(str::to_owned);
        let said = capture(Command::new("sh").arg("-c").arg(quoted(&words))).unwrap();
        assert_eq!(said, "it's $HOME a b\n");
    }

    #[test]
    fn libraries_are_the_absolute_paths_of_ldd() {
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(
            parse_ldd(listed),
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(parse_ldd("\tnot a dynamic executable\n").is_empty());
    }

    #[test]
    fn parents_come_before_a_file_and_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let mut archive = Archive {
            out: BufWriter::new(File::create(&path).unwrap()),
            seen: BTreeSet::new(),
            inode: 0,
        };
        archive.file("usr/lib/one", 0o644, b"1").unwrap();
        archive.file("usr/lib/two", 0o644, b"22").unwrap();
        cpio::newc::trailer(archive.out).unwrap().flush().unwrap();
        let mut names = Vec::new();
        let mut input = File::open(&path).unwrap();
        loop {
            let reader = cpio::NewcReader::new(input).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            input = reader.finish().unwrap();
        }
        assert_eq!(names, ["usr", "usr/lib", "usr/lib/one", "usr/lib/two"]);
    }
}

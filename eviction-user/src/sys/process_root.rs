//! Files as another process sees them: below its root directory, out of which no symbolic link leads.

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct ProcessRoot(OwnedFd);

impl ProcessRoot {
    /// `process`: its directory in /proc. Takes the right to trace it where it has more rights than we.
    pub fn of(process: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(process.join("root"), flags, Mode::empty())?;
        Ok(Self(root))
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        // A pipe with nobody at its other end would hold us up.
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT;
        Ok(openat2(&self.0, path, flags, Mode::empty(), resolve)?)
    }

    pub fn read(&self, path: &Path) -> io::Result<String> {
        let mut file = File::from(self.open(path, OFlags::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("this is no file"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Whatever has that name, held open without being opened itself: sockets, too.
    pub fn hold(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let held = openat2(&self.0, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(held)
    }

    /// All files below a directory, as a walk in the order of their names finds them; symbolic links are not followed.
    pub fn files_below(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut entries = Vec::new();
        for entry in Dir::new(self.open(directory, OFlags::DIRECTORY)?)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                entries.push((directory.join(name), entry.file_type()));
            }
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        let mut files = Vec::new();
        for (path, kind) in entries {
            if kind == FileType::Directory {
                files.extend(self.files_below(&path)?);
            } else {
                files.push(path);
            }
        }
        Ok(files)
    }
}

/// Whatever has that name for us, held open without being opened itself.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_as_the_process_would_and_never_out_of_its_root() {
        let process = tempfile::tempdir().unwrap();
        let root = process.path().join("root");
        for folder in ["etc/d/b", "var"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in [("etc/real", "inside"), ("etc/d/a", ""), ("etc/d/b/c", "")] {
            fs::write(root.join(file), text).unwrap();
        }
        fs::write(process.path().join("outside"), "outside").unwrap();
        symlink("/etc/real", root.join("var/absolute")).unwrap();
        symlink("../../outside", root.join("var/up")).unwrap();
        let seen = ProcessRoot::of(process.path()).unwrap();
        let read = |path: &str| seen.read(Path::new(path));
        assert_eq!(read("/etc/real").unwrap(), "inside");
        assert_eq!(read("/var/absolute").unwrap(), "inside");
        assert_eq!(read("/var/up").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read("/etc").is_err());
        // A socket cannot be opened, only held.
        let _socket = std::os::unix::net::UnixListener::bind(root.join("var/socket")).unwrap();
        symlink("/var/socket", root.join("var/link")).unwrap();
        assert!(read("/var/link").is_err());
        assert!(seen.hold(Path::new("/var/link")).is_ok());
        assert!(seen.hold(Path::new("/var/up")).is_err());
        let files = seen.files_below(Path::new("/etc")).unwrap();
        assert_eq!(
            files,
            ["/etc/d/a", "/etc/d/b/c", "/etc/real"].map(PathBuf::from)
        );
    }
}

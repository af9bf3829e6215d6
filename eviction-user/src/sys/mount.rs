//! Which file system a path is really on: mountinfo tells device and type of the mount, and an overlay leads on to the file
//! system that its upper layer lies on. `stat` would not do: btrfs shows another device number for each subvolume.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
};

use nix::sys::stat::{major, makedev, minor};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device number of its super block, as `stat` would show it.
    pub device: u64,
    pub kind: FsKind,
    pub point: PathBuf,
    /// What is mounted: `/dev/sda1`, `server:/export`.
    pub source: String,
    options: Vec<String>,
}

/// File systems that behave differently when they are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FsKind {
    /// Also what is mounted as ext2 or ext3: one driver for the three.
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
    Overlay,
    /// Its figures are those of a server, which others use too.
    Remote(String),
    Other(String),
}

impl FsKind {
    /// By the name that mountinfo has for it.
    pub fn of(name: &str) -> Self {
        match name {
            "ext2" | "ext3" | "ext4" => Self::Ext4,
            "xfs" => Self::Xfs,
            "btrfs" => Self::Btrfs,
            "tmpfs" => Self::Tmpfs,
            "overlay" => Self::Overlay,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "ceph" | "9p" | "virtiofs" | "afs"
            | "gfs2" | "ocfs2" | "lustre" | "glusterfs" => Self::Remote(name.to_owned()),
            _ if name == "fuse" || name.starts_with("fuse.") || name == "fuseblk" => {
                Self::Remote(name.to_owned())
            }
            _ => Self::Other(name.to_owned()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlay",
            Self::Remote(name) | Self::Other(name) => name,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot look at {path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("/proc/self/mountinfo cannot be read: {0}")]
    MountInfo(#[source] io::Error),
    #[error("mount {0} is not in /proc/self/mountinfo")]
    Unlisted(u64),
}

/// An overlay may lie on another one.
const DEEPEST: usize = 8;

impl Mount {
    /// The real file system that a path is on; an overlay whose layers cannot be seen from here stands for itself.
    pub fn of(path: &Path) -> Result<Self, MountError> {
        Ok(Self::direct(path)?.below())
    }

    /// The same by an open descriptor.
    pub fn holding(file: impl AsFd) -> Result<Self, MountError> {
        let id = mount_of(file).map_err(MountError::MountInfo)?;
        Ok(Self::numbered(id)?.below())
    }

    /// The same by a mount's number (`STATX_MNT_ID`, `mnt_id` in fdinfo).
    pub fn with_id(id: u64) -> Result<Self, MountError> {
        Ok(Self::numbered(id)?.below())
    }

    fn below(mut self) -> Self {
        for _ in 0..DEEPEST {
            let upper = self
                .option("upperdir")
                .filter(|_| self.kind == FsKind::Overlay);
            let Some(Ok(below)) = upper.map(|upper| Self::direct(Path::new(upper))) else {
                break;
            };
            self = below;
        }
        self
    }

    fn direct(path: &Path) -> Result<Self, MountError> {
        let open = |source| MountError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(open)?;
        Self::numbered(mount_of(file).map_err(open)?)
    }

    fn numbered(id: u64) -> Result<Self, MountError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(MountError::MountInfo)?;
        mounts
            .lines()
            .filter_map(parse)
            .find(|(number, _)| *number == id)
            .map(|(_, mount)| mount)
            .ok_or(MountError::Unlisted(id))
    }

    /// The mounts that a mountinfo file tells of.
    pub fn all(mountinfo: &Path) -> io::Result<Vec<Self>> {
        Ok(Self::parse_all(&fs::read_to_string(mountinfo)?))
    }

    pub fn parse_all(mountinfo: &str) -> Vec<Self> {
        let mounts = mountinfo.lines().filter_map(parse);
        mounts.map(|(_, mount)| mount).collect()
    }

    /// The value of a mount option, empty for one without.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            (key == name).then_some(value)
        })
    }

    /// The file that lies behind it and the mount of that, if it is on a loop device.
    pub fn backing(&self) -> Option<(PathBuf, Self)> {
        let (major, minor) = (major(self.device), minor(self.device));
        let file = format!("/sys/dev/block/{major}:{minor}/loop/backing_file");
        let file = PathBuf::from(fs::read_to_string(file).ok()?.trim_end());
        let below = Self::of(&file).ok()?;
        Some((file, below))
    }
}

/// The number of the mount that an open descriptor is on.
fn mount_of(file: impl AsFd) -> io::Result<u64> {
    let fdinfo = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    Ok(mount_id(&fs::read_to_string(fdinfo)?).unwrap_or_default())
}

fn mount_id(fdinfo: &str) -> Option<u64> {
    let line = fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    line.trim().parse().ok()
}

/// A line of mountinfo: `36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue`.
pub(super) fn parse(line: &str) -> Option<(u64, Mount)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    let [id, _, device, _, point, options, ..] = mount[..] else {
        return None;
    };
    let mut rest = file_system.split(' ');
    let (kind, source) = (rest.next()?, rest.next()?);
    let super_options = rest.next().unwrap_or("");
    let (major, minor) = device.split_once(':')?;
    let options = options.split(',').chain(super_options.split(','));
    let mount = Mount {
        device: makedev(major.parse().ok()?, minor.parse().ok()?),
        kind: FsKind::of(kind),
        point: PathBuf::from(unescape(point)),
        source: unescape(source),
        options: options.map(unescape).collect(),
    };
    Some((id.parse().ok()?, mount))
}

/// mountinfo writes blanks, tabs, line ends and backslashes as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => {
                whole.push(char::from(byte));
                whole.push_str(&part[3..]);
            }
            None => {
                whole.push('\\');
                whole.push_str(part);
            }
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read_with_their_oddities() {
        let table = [
            (
                "36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
                (98, 0, FsKind::Ext4, "/mnt", "/dev/root"),
            ),
            (
                r"61 29 0:51 /sub /srv/a\040b rw,relatime shared:3 master:9 - btrfs /dev/vdb rw,space_cache=v2,subvolid=256,subvol=/sub",
                (0, 51, FsKind::Btrfs, "/srv/a b", "/dev/vdb"),
            ),
            (
                "70 29 0:60 / /n rw - nfs4 server:/export rw,vers=4.2",
                (0, 60, FsKind::Remote("nfs4".into()), "/n", "server:/export"),
            ),
            (
                "71 29 0:61 / /f rw - fuse.sshfs me@there: rw,user_id=0",
                (
                    0,
                    61,
                    FsKind::Remote("fuse.sshfs".into()),
                    "/f",
                    "me@there:",
                ),
            ),
            (
                "72 29 8:3 / /z rw - zfs tank/data rw",
                (8, 3, FsKind::Other("zfs".into()), "/z", "tank/data"),
            ),
        ];
        for (line, (major, minor, kind, point, source)) in table {
            let (_, mount) = parse(line).unwrap();
            assert_eq!(
                (mount.device, mount.kind, mount.point, mount.source.as_str()),
                (makedev(major, minor), kind, PathBuf::from(point), source),
                "{line}"
            );
        }
        assert_eq!(parse("no mount at all"), None);
    }

    #[test]
    fn an_overlays_upper_layer_is_among_its_options() {
        let line = r"80 29 0:70 / /merged rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\040d,workdir=/w";
        let (_, mount) = parse(line).unwrap();
        assert_eq!(mount.option("upperdir"), Some("/c d"));
        assert_eq!(mount.option("relatime"), Some(""));
        assert_eq!(mount.option("grpid"), None);
    }

    #[test]
    fn proc_is_found_by_its_mount() {
        let found = Mount::of(Path::new("/proc/self")).unwrap();
        assert_eq!(
            (found.kind, found.point),
            (FsKind::Other("proc".into()), PathBuf::from("/proc"))
        );
    }
}

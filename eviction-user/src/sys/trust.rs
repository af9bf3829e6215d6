//! How far a file system's figures can be followed by counting what its kernel functions take: pure classification.

use super::filesystem::FileSystem;
use super::mount::{FsKind, Mount};
use crate::model::{Resource, Signal};

/// Why a file system's bytes or inodes are only looked at on the heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// Others use it through their own kernels.
    Remote(String),
    /// The figure may be that of a quota, which has other limits than the disk.
    Quota(String),
    /// The file behind the loop device has holes, and less room below than this one promises.
    ThinLoop { backing: String },
    /// No hook is known for this kind.
    NoHook(String),
    /// An overlay whose upper layer cannot be seen from here.
    UpperUnseen,
    /// Inodes made on it pass `inode_init_owner` by.
    GroupId,
    /// `size=0` or `nr_inodes=0`: its `statfs` never moves.
    Unlimited,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(kind) => write!(
                f,
                "{kind} is served from elsewhere: others use it up unseen, so it is only looked at on the timer"
            ),
            Self::Quota(option) => write!(
                f,
                "mounted with {option}: statfs may show a quota's figures, so it is only looked at on the timer"
            ),
            Self::ThinLoop { backing } => write!(
                f,
                "on a loop device whose file {backing} may not get all the room it promises: watch the file system below as well"
            ),
            Self::NoHook(kind) => write!(
                f,
                "no hook is known that sees what {kind} takes: it is only looked at on the timer"
            ),
            Self::UpperUnseen => write!(
                f,
                "the upper layer of this overlay cannot be seen from here, so it is only looked at on the timer: name a path on its file system"
            ),
            Self::GroupId => write!(
                f,
                "mounted with grpid: new inodes pass the hook by, so they are only looked at on the timer"
            ),
            Self::Unlimited => write!(
                f,
                "a tmpfs without limits: its figures never move; use memory.available"
            ),
        }
    }
}

const QUOTAS: [&str; 10] = [
    "usrquota",
    "grpquota",
    "prjquota",
    "uquota",
    "gquota",
    "pquota",
    "usrjquota",
    "grpjquota",
    "quota",
    "pqnoenforce",
];

/// What keeps the kernel side from following this file system's figures; `None`: nothing does.
pub fn doubt(mount: &Mount, inodes: bool) -> Option<Doubt> {
    if let FsKind::Remote(kind) = &mount.kind {
        return Some(Doubt::Remote(kind.clone()));
    }
    if let Some(option) = QUOTAS.iter().find(|name| mount.option(name).is_some()) {
        return Some(Doubt::Quota((*option).to_owned()));
    }
    match &mount.kind {
        FsKind::Ext4 | FsKind::Xfs if inodes => {
            let group = ["grpid", "bsdgroups"];
            let found = group.iter().any(|name| mount.option(name).is_some());
            found.then_some(Doubt::GroupId)
        }
        FsKind::Tmpfs => {
            let limit = if inodes { "nr_inodes" } else { "size" };
            let unlimited = mount
                .option(limit)
                .is_some_and(|value| value.trim_end_matches(['k', 'm', 'g']) == "0");
            unlimited.then_some(Doubt::Unlimited)
        }
        // Inodes pass one function on every file system; what is written to an overlay goes to another file system.
        FsKind::Overlay if !inodes => Some(Doubt::UpperUnseen),
        _ => None,
    }
}

/// Whether asking a file system for its figures may take for ever: it is served from elsewhere, or lies in a file that is.
/// (An overlay stands for the file system of its upper layer.)
pub fn may_hang(mount: &Mount) -> bool {
    let is_remote = |mount: &Mount| matches!(mount.kind, FsKind::Remote(_));
    is_remote(mount) || mount.backing().is_some_and(|(_, below)| is_remote(&below))
}

/// The same in words, for one signal of a file system; `None`: hooks can follow it there.
pub fn unfollowed(fs: &FileSystem, signal: Signal) -> Option<String> {
    let place = fs.path().display();
    let Some(mount) = &fs.mount else {
        return Some(format!(
            "{signal} at {place}: its mount cannot be told, so it is only looked at on the timer"
        ));
    };
    let doubt = doubt(mount, signal.resource() == Resource::Inodes)?;
    Some(format!("{signal} at {place}: {doubt}"))
}

/// Why a file system has no figure for a signal at all, in words.
pub fn without_figure(fs: &FileSystem, signal: Signal) -> Option<String> {
    let none = signal.resource() == Resource::Inodes && !fs.counts_inodes;
    let place = fs.path().display();
    none.then(|| {
        format!("{signal} at {place}: its inodes are made as needed, so there is no such figure")
    })
}

/// Whether the file below a loop device lacks room for all that the device promises; worth a word, though what is written is
/// counted all the same.
pub fn thin_loop(mount: &Mount) -> Option<Doubt> {
    use std::os::unix::fs::MetadataExt;
    let (file, _) = mount.backing()?;
    let found = std::fs::metadata(&file).ok()?;
    // Blocks of 512 bytes, whatever the file system's are.
    let holes = found.size().saturating_sub(found.blocks() * 512);
    let room = FileSystem::at(&file)
        .and_then(|below| below.read())
        .ok()?
        .available_bytes;
    (holes > room).then(|| Doubt::ThinLoop {
        backing: file.display().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mount::parse;

    /// What is said of bytes, and of inodes; nothing where they can be followed.
    #[test]
    fn file_systems_whose_figures_cannot_be_followed_are_told_apart() {
        let remote = |kind: &str| Some(Doubt::Remote(kind.into()));
        let quota = |option: &str| Some(Doubt::Quota(option.into()));
        let table = [
            ("ext4 /dev/sda1 rw,errors=continue", None, None),
            ("ext4 /dev/sda1 rw,grpid", None, Some(Doubt::GroupId)),
            (
                "ext4 /dev/sda1 rw,usrquota",
                quota("usrquota"),
                quota("usrquota"),
            ),
            ("xfs /dev/sdb rw,inode64,noquota", None, None),
            (
                "xfs /dev/sdb rw,prjquota",
                quota("prjquota"),
                quota("prjquota"),
            ),
            ("xfs /dev/sdb rw,grpid,noquota", None, Some(Doubt::GroupId)),
            ("btrfs /dev/sdc rw,space_cache=v2", None, None),
            ("tmpfs tmpfs rw,size=1024k,nr_inodes=400", None, None),
            (
                "tmpfs tmpfs rw,size=0k,nr_inodes=0",
                Some(Doubt::Unlimited),
                Some(Doubt::Unlimited),
            ),
            ("nfs4 server:/a rw,vers=4.2", remote("nfs4"), remote("nfs4")),
            ("cifs //server/a rw", remote("cifs"), remote("cifs")),
            (
                "fuse.sshfs there: rw",
                remote("fuse.sshfs"),
                remote("fuse.sshfs"),
            ),
            ("fuseblk /dev/sdd rw", remote("fuseblk"), remote("fuseblk")),
            (
                "overlay overlay rw,lowerdir=/l",
                Some(Doubt::UpperUnseen),
                None,
            ),
            ("f2fs /dev/sde rw", None, None),
        ];
        for (text, bytes, inodes) in table {
            let line = format!("36 35 98:0 / /mnt rw,noatime master:1 - {text}");
            let (_, mount) = parse(&line).unwrap();
            assert_eq!(
                (doubt(&mount, false), doubt(&mount, true)),
                (bytes, inodes),
                "{text}"
            );
        }
    }

    #[test]
    fn each_doubt_names_its_cause_and_what_is_done_instead() {
        for (doubt, words) in [
            (Doubt::Remote("nfs4".into()), ["nfs4", "timer"]),
            (Doubt::Quota("prjquota".into()), ["prjquota", "timer"]),
            (Doubt::NoHook("f2fs".into()), ["f2fs", "timer"]),
            (Doubt::UpperUnseen, ["upper layer", "timer"]),
            (Doubt::GroupId, ["grpid", "timer"]),
            (Doubt::Unlimited, ["never move", "memory.available"]),
            (
                Doubt::ThinLoop {
                    backing: "/img".into(),
                },
                ["/img", "below"],
            ),
        ] {
            let said = doubt.to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}

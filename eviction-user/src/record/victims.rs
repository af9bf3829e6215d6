//! Victims on their way out, kept over a restart: the next process goes on with them instead of choosing
//! others (user case 2).

use crate::model::Uid;
use crate::sys::fault::{self, Point};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

const FILE: &str = "victims.json";

/// A victim, as the next process needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptVictim {
    pub uid: Uid,
    pub name: String,
    /// It may leave by itself until then; `None`: it was killed already.
    pub leaves_until: Option<SystemTime>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The ids of cgroups begin anew at every boot.
    boot: String,
    victims: Vec<KeptVictim>,
}

#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct KeepError {
    file: String,
    source: io::Error,
}

/// Hands lists of victims to a thread that writes them: a slow disk must not delay a kill.
#[derive(Debug)]
pub struct VictimKeeper {
    lists: Sender<Vec<KeptVictim>>,
}

impl VictimKeeper {
    /// Writes once, so that what is wrong with the folder is known at once. The thread ends when the keeper
    /// is dropped and all is written.
    pub fn start(folder: &Path) -> Result<(Self, JoinHandle<()>), KeepError> {
        let failed = |source| KeepError {
            file: folder.join(FILE).display().to_string(),
            source,
        };
        let file = folder.join(FILE);
        write(&file, &read(folder)).map_err(failed)?;
        let (lists, work) = channel();
        let thread = std::thread::Builder::new()
            .name("eviction-keep".into())
            .spawn(move || keep(&file, &work))
            .map_err(failed)?;
        Ok((Self { lists }, thread))
    }

    pub fn keep(&self, victims: Vec<KeptVictim>) {
        // The thread ends only when this value does.
        let _ = self.lists.send(victims);
    }
}

fn keep(file: &Path, lists: &Receiver<Vec<KeptVictim>>) {
    while let Ok(mut victims) = lists.recv() {
        // Only the last of several counts.
        while let Ok(later) = lists.try_recv() {
            victims = later;
        }
        if let Err(e) = write(file, &victims) {
            tracing::warn!(
                "a restart will not know who is on the way out: {}: {e}",
                file.display()
            );
        }
        if !victims.is_empty() {
            for point in [Point::KeptNotRecorded, Point::NotPatched, Point::Patched] {
                fault::reach(point);
            }
        }
    }
}

/// Those that the last process left in `folder`; none if it makes no sense.
pub fn read(folder: &Path) -> Vec<KeptVictim> {
    let kept = std::fs::read(folder.join(FILE)).ok();
    let kept = kept.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
    kept.filter(|kept| kept.boot == boot())
        .map_or_else(Vec::new, |kept| kept.victims)
}

/// The old content stays until the new one is complete.
fn write(file: &Path, victims: &[KeptVictim]) -> io::Result<()> {
    let kept = Kept {
        boot: boot(),
        victims: victims.to_vec(),
    };
    let next = file.with_extension("next");
    std::fs::write(&next, serde_json::to_vec(&kept)?)?;
    std::fs::rename(&next, file)
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(name: &str) -> KeptVictim {
        KeptVictim {
            uid: Uid::new("17"),
            name: name.to_owned(),
            leaves_until: Some(SystemTime::now()),
        }
    }

    #[test]
    fn the_last_list_is_found_by_the_next_process_and_nothing_after_another_boot() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), []);
        let (keeper, thread) = VictimKeeper::start(folder.path()).unwrap();
        keeper.keep(vec![victim("a")]);
        keeper.keep(vec![victim("b")]);
        drop(keeper);
        thread.join().unwrap();
        let found = read(folder.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "b");
        let (_keeper, _thread) = VictimKeeper::start(folder.path()).unwrap();
        assert_eq!(read(folder.path()), found, "starting forgets nobody");

        let file = folder.path().join(FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(&boot(), "another")).unwrap();
        assert_eq!(read(folder.path()), []);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(read(folder.path()), []);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error = VictimKeeper::start(Path::new("/proc/none")).unwrap_err();
        assert!(error.to_string().contains("/proc/none"), "{error}");
    }
}

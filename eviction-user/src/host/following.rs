//! Watched paths whose file system is being opened anew. That is done elsewhere, because what is mounted there now may not
//! answer; the loop asks now and then how it went.

use super::file_systems::FileSystems;
use crate::ports::Moved;
use crate::sys::distant::{Opening, PATIENCE};
use crate::sys::filesystem::FileSystemError;
use std::time::Duration;

/// A local file system opens in less than a millisecond: so long it is asked for often.
const SOON: Duration = Duration::from_millis(100);
const OFTEN: Duration = Duration::from_millis(2);
/// Afterwards, and when it could not be opened, it is tried at the timer's pace.
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Following {
    openings: Vec<Opening>,
}

impl Following {
    /// Opens what has moved; what was opened meanwhile takes its place. The error is that of the first one that failed, or has
    /// not answered for long.
    pub(super) fn follow(
        &mut self,
        all: &mut FileSystems,
    ) -> (Vec<Moved>, Option<FileSystemError>) {
        self.openings
            .retain(|opening| all.moved().any(|path| path == opening.path()));
        for path in all.moved() {
            if self.openings.iter().all(|opening| opening.path() != path) {
                self.openings.push(Opening::start(path));
            }
        }
        let (mut followed, mut failed) = (Vec::new(), None);
        self.openings.retain(|opening| {
            match opening.done() {
                Some(Ok(found)) => followed.extend(all.replace(&found)),
                Some(Err(e)) => {
                    failed.get_or_insert(e);
                }
                None => {
                    if opening.age() > PATIENCE {
                        failed.get_or_insert(opening.no_answer());
                    }
                    return true;
                }
            }
            false
        });
        (followed, failed)
    }

    /// When to ask again, as long as something has moved.
    pub(super) fn due_in(&self, has_failed: bool) -> Duration {
        let youngest = self.openings.iter().map(Opening::age).min();
        if has_failed || youngest.is_some_and(|age| age > SOON) {
            SELDOM
        } else {
            OFTEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::filesystem::FileSystem;

    #[test]
    fn what_has_moved_is_opened_elsewhere_and_then_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut fs = FileSystem::at(dir.path()).unwrap();
        fs.pretend_another();
        let mut all = FileSystems {
            nodefs: Some(fs),
            ..FileSystems::default()
        };
        let mut following = Following::default();
        let moved = loop {
            let (moved, failed) = following.follow(&mut all);
            assert!(failed.is_none(), "{failed:?}");
            if !moved.is_empty() {
                break moved;
            }
            std::thread::yield_now();
        };
        assert_eq!((moved.len(), following.openings.len()), (1, 0));
        assert!(following.follow(&mut all).0.is_empty());
    }

    #[test]
    fn a_path_that_is_gone_is_not_opened_and_a_failure_is_tried_again_at_leisure() {
        let dir = tempfile::tempdir().unwrap();
        let mut fs = FileSystem::at(dir.path()).unwrap();
        fs.pretend_another();
        let mut all = FileSystems {
            nodefs: Some(fs),
            ..FileSystems::default()
        };
        dir.close().unwrap();
        let mut following = Following::default();
        // What is not there has not moved: that is the look's own error.
        assert_eq!(following.follow(&mut all).0.len(), 0);
        assert!(following.openings.is_empty());
        assert_eq!(following.due_in(true), SELDOM);
        assert_eq!(following.due_in(false), OFTEN);
    }
}

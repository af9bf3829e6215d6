//! Walks the directories of limited workloads, on a thread that runs last.

use super::super::scan::{Share, bytes_below};
use super::part::{Limited, LimitedPart, MeasuredPart};
use crate::sys::background::schedule_last;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Says who is limited, anew for each request. It is asked on the measuring thread, and may take its time.
pub type LimitedNow = Box<dyn FnMut() -> Vec<Limited> + Send>;

/// Who is to be measured.
pub(super) type Request = BTreeSet<String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Measured {
        workload: String,
        parts: Vec<MeasuredPart>,
    },
    /// The request is done with; these are all that are limited now.
    Done { limited: BTreeSet<String> },
}

/// Measures while it lives.
#[derive(Debug)]
pub struct Meter {
    requests: SyncSender<Request>,
    answers: Receiver<Answer>,
    stop: Arc<AtomicBool>,
}

impl Meter {
    pub fn start(limited: LimitedNow, share: Share) -> io::Result<Self> {
        let (requests, asked) = sync_channel(1);
        let (answer, answers) = channel();
        let stop = Arc::<AtomicBool>::default();
        let worker = Worker {
            limited,
            share,
            answer,
            stop: Arc::clone(&stop),
        };
        std::thread::Builder::new()
            .name("eviction-limits".into())
            .spawn(move || worker.work(&asked))?;
        Ok(Self {
            requests,
            answers,
            stop,
        })
    }

    /// Never waits; `false`: it is not taken.
    pub(super) fn ask(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }

    /// Those that have come. Never waits.
    pub(super) fn answers(&self) -> impl Iterator<Item = Answer> {
        self.answers.try_iter()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Worker {
    limited: LimitedNow,
    share: Share,
    answer: Sender<Answer>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Until nobody asks any more.
    fn work(mut self, requests: &Receiver<Request>) {
        if let Err(e) = schedule_last() {
            tracing::warn!("what limited pods hold is measured at ordinary priority: {e}");
        }
        for asked in requests {
            let limited = (self.limited)();
            for Limited { workload, parts } in &limited {
                if !asked.contains(workload) {
                    continue;
                }
                let parts = parts.iter().map(|part| self.measure(part));
                let Some(parts) = parts.collect::<Option<_>>() else {
                    return;
                };
                let workload = workload.clone();
                // Nobody listens any more: nobody asks any more, either.
                let _ = self.answer.send(Answer::Measured { workload, parts });
            }
            let limited = limited.into_iter().map(|one| one.workload).collect();
            let _ = self.answer.send(Answer::Done { limited });
        }
    }

    /// `None`: it was told to stop.
    fn measure(&self, part: &LimitedPart) -> Option<MeasuredPart> {
        Some(MeasuredPart {
            limit: part.limit.clone(),
            most: part.most,
            layers: self.bytes(&part.layers)?,
            files: self.bytes(&part.files)?,
        })
    }

    fn bytes(&self, dirs: &[PathBuf]) -> Option<u64> {
        let mut dirs = dirs.iter();
        dirs.try_fold(0_u64, |sum, dir| {
            Some(sum.saturating_add(bytes_below(dir, self.share, &self.stop)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LocalStorageLimit;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    fn limited(workload: &str, layers: &[PathBuf], files: &[PathBuf]) -> Limited {
        Limited {
            workload: workload.into(),
            parts: vec![LimitedPart {
                limit: LocalStorageLimit::Pod,
                most: 9,
                layers: layers.to_vec(),
                files: files.to_vec(),
            }],
        }
    }

    fn ask(meter: &Meter, workloads: &[&str]) -> Vec<Answer> {
        let workloads = workloads.iter().map(|w| (*w).to_owned());
        assert!(meter.ask(workloads.collect()));
        let mut answers = Vec::new();
        while !matches!(answers.last(), Some(Answer::Done { .. })) {
            answers.push(meter.answers.recv_timeout(LONG).unwrap());
        }
        answers
    }

    #[test]
    fn who_is_asked_for_is_measured_layers_and_files_apart_and_all_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (layer, files) = (dir.path().join("layer"), dir.path().join("files"));
        for (dir, bytes) in [(&layer, 8192), (&files, 20_000)] {
            std::fs::create_dir_all(dir.join("below")).unwrap();
            std::fs::write(dir.join("below/file"), vec![1; bytes]).unwrap();
        }
        let gone = dir.path().join("gone");
        let all = [
            limited("a", &[layer], &[files.clone(), gone.clone()]),
            limited("b", &[], &[gone]),
        ];
        let meter = Meter::start(Box::new(move || all.to_vec()), Share::Tenth).unwrap();
        let names = Answer::Done {
            limited: ["a".to_owned(), "b".to_owned()].into(),
        };
        assert_eq!(ask(&meter, &[]), std::slice::from_ref(&names));
        let answers = ask(&meter, &["a", "unknown"]);
        let [Answer::Measured { workload, parts }, done] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!((workload.as_str(), done), ("a", &names));
        let part = &parts[0];
        assert!(part.layers >= 8192 && part.layers < 20_000, "{part:?}");
        assert!(part.files >= 20_000, "{part:?}");
        let answers = ask(&meter, &["b"]);
        let Answer::Measured { parts, .. } = &answers[0] else {
            panic!("{answers:?}");
        };
        assert_eq!((parts[0].layers, parts[0].files), (0, 0), "nothing there");
    }
}

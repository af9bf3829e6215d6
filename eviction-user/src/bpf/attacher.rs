//! Attaches hooks while the agent goes on looking: the verifier may take a second or two, and detaching waits for the kernel's
//! grace periods. The thread is there from the start, so that it is an ordinary one, and not made when there is trouble.

use std::{
    io,
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
};

use super::{
    attach::{AttachOptions, Attached},
    facts::{Facts, FactsOptions},
    family::Family,
    plan::plan,
};

enum Job {
    Attach(Vec<Family>),
    Detach(Box<Attached>),
}

/// The thread's other end; it ends when this is dropped.
pub(super) struct Attacher {
    jobs: Sender<Job>,
    done: Receiver<Attached>,
    is_busy: bool,
}

impl Attacher {
    /// `options`: those of the start, but for the families.
    pub(super) fn start(options: AttachOptions) -> io::Result<Self> {
        let (jobs, todo) = channel();
        let (finished, done) = channel();
        std::thread::Builder::new()
            .name("eviction-attach".into())
            .spawn(move || work(&options, &todo, &finished))?;
        Ok(Self {
            jobs,
            done,
            is_busy: false,
        })
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Begins to attach; one job at a time. `false`: the thread is gone.
    pub(super) fn attach(&mut self, families: Vec<Family>) -> bool {
        self.is_busy = self.jobs.send(Job::Attach(families)).is_ok();
        self.is_busy
    }

    /// What has been attached, or not as its report says; once for each [`Self::attach`].
    pub(super) fn attached(&mut self) -> Option<Finished> {
        let finished = match self.done.try_recv() {
            Ok(attached) => Finished::Attached(Box::new(attached)),
            Err(TryRecvError::Disconnected) if self.is_busy => Finished::Died,
            Err(_) => return None,
        };
        self.is_busy = false;
        Some(finished)
    }

    /// Lets go of programs that nobody needs.
    pub(super) fn detach(&self, programs: Attached) {
        // If the thread is gone, they go with the message.
        let _ = self.jobs.send(Job::Detach(Box::new(programs)));
    }
}

pub(super) enum Finished {
    Attached(Box<Attached>),
    /// The thread has panicked.
    Died,
}

fn work(options: &AttachOptions, todo: &Receiver<Job>, finished: &Sender<Attached>) {
    for job in todo {
        match job {
            Job::Attach(families) => {
                // The kernel of now: with the file system its module has come, and the module's types.
                let facts = Facts::gather(&FactsOptions {
                    btf: options.btf.clone(),
                    ..FactsOptions::default()
                });
                let options = AttachOptions {
                    families: Some(families),
                    // Its reader needs the event loop, and the first programs' log is open already.
                    bpf_log: false,
                    ..options.clone()
                };
                let attached = Attached::attach(&facts, &plan(&facts), &options);
                if finished.send(attached).is_err() {
                    return;
                }
            }
            Job::Detach(programs) => drop(programs),
        }
    }
}

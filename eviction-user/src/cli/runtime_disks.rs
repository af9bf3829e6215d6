//! The disks that are the container runtime's: by flags, by its own word, or by what is given for when it does not answer.

use super::runtime_args::{Runtime, Told};
use crate::config::FsPaths;
use crate::cri::Answer;
use crate::telemetry::metrics::Check;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One that has not answered is asked again so often.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of the disks that are the runtime's.
#[derive(Debug)]
pub(super) struct RuntimeDisks {
    /// Of imagefs and containerfs.
    pub(super) paths: FsPaths,
    /// Why the runtime's word is missing.
    pub(super) doubt: Option<String>,
    /// For people.
    told: String,
    /// Whatever it says: a flag wins.
    is_given: bool,
    runtime: Runtime,
}

impl RuntimeDisks {
    /// `given`: by flags, which win. `root`: the runtime's directory, for when it does not answer.
    pub(super) fn find(runtime: Runtime, given: &FsPaths, root: Option<&Path>) -> Self {
        let mut disks = Self {
            paths: FsPaths::default(),
            doubt: None,
            told: String::new(),
            is_given: given.imagefs.is_some(),
            runtime,
        };
        match disks.runtime.ask() {
            Ok(told) => disks.take(&told, given),
            Err(why) => disks.do_without(&why, given, root),
        }
        disks
    }

    fn take(&mut self, told: &Told, given: &FsPaths) {
        let Answer {
            images, containers, ..
        } = &told.answer;
        let layers = containers.as_ref().map_or("with them".to_owned(), |path| {
            format!("in {}", path.display())
        });
        tracing::info!(
            "the container runtime ({}), by {}: images are in {}, writable layers {layers}",
            told.name(),
            self.runtime,
            images.display()
        );
        for (flag, given, decided) in [
            ("--imagefs", &given.imagefs, Some(images)),
            ("--containerfs", &given.containerfs, containers.as_ref()),
        ] {
            if let Some((given, decided)) = given.as_ref().zip(decided)
                && given != decided
            {
                tracing::info!(
                    "{flag} {} wins over {} ({})",
                    given.display(),
                    decided.display(),
                    told.name()
                );
            }
        }
        self.told = format!("imagefs: {} by {}\n", images.display(), told.name());
        if let Some(flag) = &given.imagefs {
            self.told = format!("imagefs: {} by --imagefs\n", flag.display());
        }
        self.paths.imagefs = Some(images.clone());
        self.paths.containerfs.clone_from(containers);
    }

    fn do_without(&mut self, why: &str, given: &FsPaths, root: Option<&Path>) {
        let doubt = format!(
            "the container runtime at {} does not say where images and writable layers lie: {why}",
            self.runtime
        );
        let instead = match (&given.imagefs, root) {
            (Some(path), _) => format!("imagefs: {} by --imagefs", path.display()),
            (None, Some(path)) => format!("imagefs: {} by --runtime-root", path.display()),
            (None, None) => "imagefs: nowhere, name a directory by --runtime-root".to_owned(),
        };
        tracing::warn!("{doubt}; {instead}");
        self.told = format!("{instead}: {doubt}\n");
        self.paths.imagefs = root.map(Path::to_owned);
        self.doubt = Some(doubt);
    }

    /// For `/readyz`. One that has not answered is asked again, by a thread of its own. `used`: the device of imagefs.
    pub(super) fn check(self, used: Option<u64>) -> io::Result<Check> {
        let said = Arc::new(Mutex::new(Ok(self.told)));
        let shared = Arc::clone(&said);
        if self.doubt.is_some() && !self.is_given {
            let runtime = self.runtime;
            std::thread::Builder::new()
                .name("eviction-cri".into())
                .spawn(move || {
                    let told = until_told(&runtime);
                    let now = compared(&told, used);
                    match &now {
                        Ok(said) => {
                            tracing::info!("the container runtime answers: {}", said.trim_end())
                        }
                        Err(wrong) => {
                            tracing::warn!("the container runtime answers: {}", wrong.trim_end())
                        }
                    }
                    *shared.lock().unwrap_or_else(PoisonError::into_inner) = now;
                })?;
        }
        Ok(Box::new(move || {
            said.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }))
    }
}

fn until_told(runtime: &Runtime) -> Told {
    loop {
        std::thread::sleep(AGAIN);
        if let Ok(told) = runtime.ask() {
            return told;
        }
    }
}

/// Whether what is watched is what the runtime means.
fn compared(told: &Told, used: Option<u64>) -> Result<String, String> {
    let images = told.answer.images.display();
    if used == Some(told.images.device) {
        return Ok(format!("imagefs: {images} by {}\n", told.name()));
    }
    Err(format!(
        "imagefs: {} keeps images in {images}, which is not on the file system that is watched: start eviction again\n",
        told.name()
    ))
}

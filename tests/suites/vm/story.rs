//! A shell script beside the program in a guest, with one disk.

use anyhow::{Result, bail};
use eviction_tests::oracle::{Fs, make_image};
use eviction_tests::suite::{self, Outcome};
use xtask::setup::Kernel;
use xtask::vm::{self, CgroupVersion, Guest};
use xtask::workspace::Workspace;

pub(crate) struct Story {
    pub(crate) script: &'static str,
    /// Of the disk, which is `/dev/vda`.
    pub(crate) fs: Fs,
    /// Loaded first.
    pub(crate) modules: &'static [&'static str],
}

impl Story {
    /// What the script says is noted.
    pub(crate) fn run(&self, series: &str) -> Result<Outcome> {
        let workspace = Workspace::find()?;
        let folder = tempfile::tempdir()?;
        let command = ["sh", "-c", self.script].map(str::to_owned).to_vec();
        let kernel = Kernel::find(&workspace, series)?;
        let mut guest = Guest::new(kernel, CgroupVersion::V2, command);
        let program = suite::programs()?.join("eviction");
        guest.files = vec![(program, "/bin/eviction".to_owned())];
        let modules = self.modules.iter().map(|name| (*name).to_owned());
        guest.modules.extend(modules);
        let image = folder.path().join("disk");
        make_image(self.fs, &image)?;
        guest.disks.push(image);
        let finished = vm::run(&workspace, &guest, &mut |_| {})?;
        if finished.code != 0 {
            bail!(
                "the guest ended with {}\n{}",
                finished.code,
                finished.output
            );
        }
        Ok(Outcome::Noted(format!(
            "{}, {} s",
            finished.output.trim(),
            finished.elapsed.as_secs()
        )))
    }
}

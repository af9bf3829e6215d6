//! Disk space and inodes as this kernel's tracepoints tell of them, against `statfs`. The other rungs are shown in guests.

use anyhow::{Result, bail};
use eviction_tests::oracle::{DiskOracle, Fs, make_image};
use eviction_tests::suite::{Case, Outcome};
use eviction_user::bpf::{Facts, FactsOptions, Rung};

pub(crate) fn cases() -> Vec<Case> {
    let case =
        |fs, what: &str, rungs: &'static [Rung]| Case::new(what, move || against_statfs(fs, rungs));
    vec![
        case(
            Fs::Ext4,
            "by tracepoints ext4's bytes and inodes are what statfs says",
            &[Rung::TraceExt4Bytes, Rung::TraceExt4, Rung::TraceFreedExt4],
        ),
        case(
            Fs::Xfs,
            "by tracepoints xfs takes no byte unseen",
            &[Rung::TraceXfsBytes, Rung::TraceXfs],
        ),
        case(
            Fs::Btrfs,
            "by tracepoints btrfs takes no byte unseen, and a chunk of metadata is an event",
            &[
                Rung::TraceBtrfsBytes,
                Rung::TraceBtrfs,
                Rung::TraceFreedBtrfs,
            ],
        ),
    ]
}

fn against_statfs(fs: Fs, rungs: &[Rung]) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image");
    make_image(fs, &image)?;
    let oracle = DiskOracle {
        fs,
        device: Some(image),
        seed: 11,
        steps: 150,
        rungs: Some(rungs.to_vec()),
    };
    let compared = match oracle.run(&Facts::gather(&FactsOptions::default())) {
        Ok(compared) => compared,
        Err(error) if error.to_string().starts_with("no hook") => {
            return Ok(Outcome::Skipped(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    if !compared.faults.is_empty() {
        bail!(compared.faults.join("\n"));
    }
    Ok(Outcome::Noted(compared.to_string()))
}

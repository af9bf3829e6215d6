//! The harness itself, on one kernel: what it must never take for a pass.

use anyhow::{Result, bail};
use eviction_tests::suite::Case;
use xtask::setup::Kernel;
use xtask::vm::{self, CgroupVersion, Guest, GuestError};
use xtask::workspace::Workspace;

const SERIES: &str = "6.1";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a guest's exit code, output and files come back",
            comes_back,
        ),
        Case::new("a kernel panic ends the guest and is a failure", panic),
        Case::new(
            "a guest that turns itself off early is a failure",
            no_verdict,
        ),
    ]
}

fn boot(script: &str, out: Option<std::path::PathBuf>) -> Result<Result<vm::Finished, GuestError>> {
    let workspace = Workspace::find()?;
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut guest = Guest::new(
        Kernel::find(&workspace, SERIES)?,
        CgroupVersion::V2,
        command,
    );
    guest.out = out;
    Ok(vm::run(&workspace, &guest, &mut |_| {}))
}

fn comes_back() -> Result<()> {
    let out = tempfile::tempdir()?;
    let finished = boot(
        "echo 'BUG: only words'; seq 20000 > /out/report; exit 7",
        Some(out.path().to_owned()),
    )??;
    let report = std::fs::read_to_string(out.path().join("report"))?;
    if finished.code != 7
        || finished.output != "BUG: only words\n"
        || report.lines().count() != 20_000
    {
        bail!(
            "code {}, output {:?}, {} lines in the file",
            finished.code,
            finished.output,
            report.lines().count()
        );
    }
    Ok(())
}

fn panic() -> Result<()> {
    match boot("echo c > /proc/sysrq-trigger; exit 0", None)? {
        Err(GuestError::Crashed {
            marker,
            before_init: false,
            ..
        }) if marker.contains("Kernel panic") => Ok(()),
        other => bail!("it ended as {other:?}"),
    }
}

fn no_verdict() -> Result<()> {
    match boot("poweroff -f; sleep 60", None)? {
        Err(GuestError::NoVerdict { .. }) => Ok(()),
        other => bail!("it ended as {other:?}"),
    }
}

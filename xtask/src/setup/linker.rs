//! bpf-linker: turns LLVM bitcode of the eBPF crate into an object. Its LLVM reads what rustc's LLVM wrote,
//! so it must not be the older of the two.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::toolchain::{Llvm, rustc_llvm};
use super::{Context, Presence, Step};
use crate::process::{capture, cargo, run_logged};
use crate::workspace::{BPF_LINKER, Workspace};

pub(super) fn step() -> Step {
    Step {
        name: "bpf-linker".into(),
        look: Box::new(|context| look(context.workspace)),
        act: Box::new(act),
        fix: "read the log named above; the packages llvm-N-dev and libpolly-N-dev must match rustc's LLVM (`rustc -vV`)",
    }
}

fn look(workspace: &Workspace) -> Result<Presence> {
    let program = workspace.linker_root().join("bin/bpf-linker");
    if !program.exists() {
        return Ok(Presence::Missing(BPF_LINKER.to_owned()));
    }
    // Running it also shows that the shared LLVM it was linked with is still there.
    if let Err(error) = capture(Command::new(&program).arg("--version")) {
        return Ok(Presence::Missing(format!(
            "{} does not run: {error}",
            program.display()
        )));
    }
    let (ours, rustc) = (installed_llvm()?, rustc_llvm()?);
    compare(ours, rustc)?;
    Ok(Presence::There(format!(
        "{BPF_LINKER}, LLVM {ours} for rustc's {rustc}"
    )))
}

/// The LLVM that bpf-linker uses: a shared library of the major version that rustc asks for.
fn installed_llvm() -> Result<Llvm> {
    let major = rustc_llvm()?.major();
    let text =
        capture(Command::new(format!("/usr/lib/llvm-{major}/bin/llvm-config")).arg("--version"))
            .with_context(|| format!("llvm-{major}-dev is not installed"))?;
    Llvm::parse(&text)
        .with_context(|| format!("llvm-config's version `{}` is no version", text.trim()))
}

fn compare(ours: Llvm, rustc: Llvm) -> Result<()> {
    if ours < rustc {
        bail!("bpf-linker's LLVM {ours} is older than rustc's {rustc} and cannot read its bitcode");
    }
    Ok(())
}

fn act(context: &Context<'_>) -> Result<()> {
    let llvm = installed_llvm()?;
    compare(llvm, rustc_llvm()?)?;
    let major = llvm.major();
    let log = context.workspace.log("bpf-linker");
    let mut install = cargo();
    install
        .env("LLVM_PREFIX", format!("/usr/lib/llvm-{major}"))
        .args([
            "install",
            "bpf-linker",
            "--version",
            BPF_LINKER,
            "--locked",
            "--force",
            "--no-default-features",
        ])
        .args(["--features", &format!("llvm-{major}"), "--root"])
        .arg(context.workspace.linker_root())
        // Not the workspace's own target folder or configuration.
        .env_remove("CARGO_TARGET_DIR")
        .current_dir("/");
    run_logged(&mut install, &log).with_context(|| {
        format!(
            "the build of bpf-linker failed; the whole output: {}",
            log.display()
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_llvm_is_refused_in_one_sentence() {
        let parse = |text| Llvm::parse(text).unwrap();
        assert!(compare(parse("22.1.8"), parse("22.1.2")).is_ok());
        let text = compare(parse("21.1.8"), parse("22.1.2"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "bpf-linker's LLVM 21.1.8 is older than rustc's 22.1.2 and cannot read its bitcode"
        );
    }
}

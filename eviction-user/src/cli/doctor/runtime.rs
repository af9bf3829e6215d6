//! The container runtime: where it keeps images and writable layers, and which lines are therefore about which disk.

use super::checks::{Check, State};
use crate::cli::fs_args::FsArgs;
use crate::cli::runtime_args::{Runtime, RuntimeArgs, Told};
use crate::cli::runtime_reclaim;
use crate::config::PodsLayout;
use crate::sys::distant::Opening;
use crate::sys::filesystem::FileSystem;
use std::path::Path;

pub(super) fn examine(runtime: &Runtime, layout: &PodsLayout, paths: &FsArgs) -> Vec<Check> {
    let told = match runtime.ask() {
        Ok(told) => told,
        Err(why) => {
            let fix = "name its socket by --container-runtime-endpoint, or for `run` the directories by --runtime-root or --imagefs";
            let detail = format!("at {runtime}: {why}");
            return vec![check("its answer", State::Absent, detail, Some(fix))];
        }
    };
    let kubelets = layout.root_dir.as_ref().map(|root| root.value.as_path());
    let nodefs = paths.nodefs.as_deref().or(kubelets);
    let detail = format!("{} at {runtime}", told.name());
    let mut checks = vec![check("its answer", State::Used, detail, None)];
    checks.push(check("images", State::Used, images(&told, nodefs), None));
    let layers = match &told.containers {
        None => "with the images".to_owned(),
        Some(fs) if fs.device == told.images.device => {
            format!("in {}, with the images", place(fs))
        }
        Some(fs) => format!("in {}: containerfs is a file system of its own", place(fs)),
    };
    checks.push(check("writable layers", State::Used, layers, None));
    checks
}

/// Whether something could be freed before a pod goes.
pub(super) fn reclaim(args: &RuntimeArgs, layout: &PodsLayout) -> Check {
    match runtime_reclaim::examine(args, layout, None) {
        Ok(detail) => check("reclaim", State::Used, detail, None),
        Err(why) => {
            let fix = "name its socket by --container-runtime-endpoint; until then pods go for a disk without it";
            check("reclaim", State::Absent, why, Some(fix))
        }
    }
}

fn images(told: &Told, nodefs: Option<&Path>) -> String {
    let images = place(&told.images);
    let node = nodefs.map(|path| (path.display(), Opening::start(path).wait()));
    match node {
        Some((path, Ok(node))) if node.device == told.images.device => {
            format!("in {images}: with nodefs ({path}), whose lines hold for imagefs too")
        }
        Some((path, Ok(_))) => {
            format!("in {images}: imagefs is a file system of its own, nodefs is that of {path}")
        }
        Some((_, Err(error))) => format!("in {images}; nodefs is not to be seen here: {error}"),
        None => format!("in {images}; where nodefs is, is not known"),
    }
}

fn place(fs: &FileSystem) -> String {
    format!("{} ({})", fs.path().display(), fs.place())
}

fn check(item: &str, state: State, detail: String, fix: Option<&str>) -> Check {
    Check {
        area: "container runtime",
        item: item.to_owned(),
        state,
        detail,
        fix: fix.map(str::to_owned),
    }
}

//! `cargo xtask cluster`: the suites' cluster for a person.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use xtask::cluster::{Cluster, Disks, Parts};
use xtask::workspace::Workspace;
use xtask::{build, console};

use crate::cli::ClusterCommand;

pub(crate) fn run(workspace: &Workspace, command: ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Up(args) => {
            console::say("cluster");
            let load = build::all_programs(workspace)?.join("eviction-load");
            let cluster = Cluster::up(
                workspace,
                &args.name,
                &load,
                BTreeMap::new(),
                Disks::default(),
            )?;
            console::say(&format!(
                "up in {}; `cargo xtask cluster shell`, then `kubectl get nodes`",
                cluster.folder.display()
            ));
        }
        ClusterCommand::Down(args) => {
            Cluster::remove(&args.name)?;
            console::say("down");
        }
        ClusterCommand::Shell(args) => {
            let cluster = Cluster::find(&args.name)?;
            let parts = Parts::build(workspace)?;
            let status = cluster.shell(&parts)?.status().context("no shell")?;
            return Ok(
                u8::try_from(status.code().unwrap_or(1)).map_or(ExitCode::FAILURE, ExitCode::from)
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `eviction config`: is a file good, what is in force, and a kubelet's settings in our own words.

use super::eviction_args::EvictionArgs;
use super::kubelet_args::KubeletArgs;
use super::runtime_args::{Runtime, RuntimeArgs, Told};
use super::table::{print, table};
use super::{Exit, Failure};
use crate::config::{Effective, EvictionFlags, PodsLayout, Row, Warning};
use crate::kube::pods_root;
use crate::sys::cgroup::Hierarchy;
use crate::telemetry::record::Output;
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Tells whether a file can be used, and what in it is surely meant otherwise.
    ///
    /// Understands our own kind, a KubeletConfiguration and a saved /configz. Exit code 0: good (there
    /// may be warnings), 2: not.
    Check { file: PathBuf },
    /// Prints every setting in force and where it comes from.
    Effective(EffectiveArgs),
    /// Prints what this node's kubelet has decided, where each value comes from, and what `--platform
    /// kubernetes` makes of it.
    Kubelet {
        #[command(flatten)]
        kubelet: KubeletArgs,
        #[command(flatten)]
        runtime: RuntimeArgs,
        /// Whose kubelet, where more than one runs.
        #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
        node_name: Option<String>,
        /// How it is printed.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Writes the eviction settings of a kubelet as a file of our own kind.
    Import {
        /// A KubeletConfiguration, or a saved /configz answer.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// Where to write it; must not exist yet. Default: standard output.
        #[arg(short = 'o', long = "to", value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct EffectiveArgs {
    /// The file; those of FILE.d are laid over it. Without one: the defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    eviction: EvictionArgs,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

pub(super) fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Effective(args) => effective(args),
        ConfigCommand::Kubelet {
            kubelet,
            runtime,
            node_name,
            output,
        } => decided(kubelet, runtime, node_name.as_deref(), *output),
        ConfigCommand::Import { from, to } => import(from, to.as_deref()),
    }
}

fn load(file: Option<&Path>, flags: &EvictionFlags) -> Result<Effective, Failure> {
    Effective::load(file, flags).map_err(|e| Failure::usage(&e))
}

fn check(file: &Path) -> Result<Exit, Failure> {
    let effective = load(Some(file), &EvictionFlags::default())?;
    warn(&effective.warnings);
    let kind = effective.format.map_or("", |format| format.name());
    let warnings = match effective.warnings.len() {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    print(&format!(
        "{}: good ({kind}, {} thresholds, {warnings})",
        file.display(),
        effective.thresholds.len()
    ));
    Ok(Exit::Good)
}

fn warn(warnings: &[Warning]) {
    for warning in warnings {
        // On stderr whatever the log level: they are part of the answer.
        eprintln!("warning: {warning}");
    }
}

fn effective(args: &EffectiveArgs) -> Result<Exit, Failure> {
    let effective = load(args.config.as_deref(), &args.eviction.flags())?;
    match args.output {
        Output::Text => {
            warn(&effective.warnings);
            let rows = effective
                .rows()
                .into_iter()
                .map(|row| vec![row.key, row.value, row.source]);
            print(&table(&["key", "value", "source"], rows));
        }
        Output::Json => {
            let warnings: Vec<_> = effective.warnings.iter().map(Warning::to_string).collect();
            let json = json!({
                "kind": effective.format.map(|format| format.name()),
                "settings": effective.rows(),
                "warnings": warnings,
            });
            print(&json.to_string());
        }
    }
    Ok(Exit::Good)
}

fn decided(
    args: &KubeletArgs,
    runtime: &RuntimeArgs,
    node: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    let node = node.filter(|name| !name.is_empty());
    let found = args.find(node, None)?;
    if found.from.is_empty() && found.doubts.is_empty() {
        return Err(Failure::usage(
            "no process `kubelet` is to be seen here: name the kubelet's file by --kubelet-config",
        ));
    }
    let mut warnings = found.doubts.clone();
    let effective = found.settings.effective.iter();
    warnings.extend(effective.flat_map(|e| e.warnings.iter().map(Warning::to_string)));
    let layout = PodsLayout::of(&load(None, &EvictionFlags::default())?, &found.settings);
    let mut rows = found.settings.rows();
    rows.extend(used(&layout)?);
    let runtime = runtime.runtime(&layout, node);
    match runtime.ask() {
        Ok(told) => rows.extend(used_of(&told, &runtime)),
        Err(why) => warnings.push(format!(
            "the container runtime at {runtime} does not say where images and writable layers lie: {why}"
        )),
    }
    match output {
        Output::Text => {
            for warning in &warnings {
                eprintln!("warning: {warning}");
            }
            let rows = rows
                .into_iter()
                .map(|row| vec![row.key, row.value, row.source]);
            print(&table(&["key", "value", "source"], rows));
        }
        Output::Json => {
            let json = json!({"from": found.from, "settings": rows, "warnings": warnings});
            print(&json.to_string());
        }
    }
    Ok(Exit::Good)
}

/// The flags that need not be given.
fn used(layout: &PodsLayout) -> Result<Vec<Row>, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    let (root, driver) = (&layout.cgroup_root, &layout.cgroup_driver);
    let row = |key: &str, value: String, source: String| Row {
        key: format!("used as {key}"),
        value,
        source,
    };
    let mut rows = vec![row(
        "--root",
        match pods_root(&hierarchy, &root.value, &driver.value) {
            Ok(path) => path.display().to_string(),
            Err([one, other]) => {
                format!("neither {} nor {} is there", one.display(), other.display())
            }
        },
        "cgroupRoot and cgroupDriver".to_owned(),
    )];
    if let Some(dir) = &layout.root_dir {
        let path = dir.value.display().to_string();
        rows.push(row("--nodefs", path, "--root-dir".to_owned()));
    }
    let logs = layout.pod_logs.value.display().to_string();
    rows.push(row("--pod-logs", logs, "podLogsDir".to_owned()));
    Ok(rows)
}

/// The same, of the container runtime.
fn used_of(told: &Told, runtime: &Runtime) -> Vec<Row> {
    let row = |key: &str, path: &Path| Row {
        key: format!("used as {key}"),
        value: path.display().to_string(),
        source: format!("{} at {runtime}", told.name()),
    };
    let layers = told.answer.containers.as_deref();
    let layers = layers.map(|path| row("--containerfs", path));
    std::iter::once(row("--imagefs", &told.answer.images))
        .chain(layers)
        .collect()
}

fn import(from: &Path, to: Option<&Path>) -> Result<Exit, Failure> {
    let effective = load(Some(from), &EvictionFlags::default())?;
    warn(&effective.warnings);
    let text = effective
        .to_own_file()
        .map_err(|e| Failure::usage(&format!("--from {}: {e}", from.display())))?;
    let Some(to) = to else {
        print(text.trim_end());
        return Ok(Exit::Good);
    };
    File::create_new(to)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| {
            Failure::usage(&format!(
                "--to {}: {e}; name a new file in a folder that can be written",
                to.display()
            ))
        })?;
    Ok(Exit::Good)
}

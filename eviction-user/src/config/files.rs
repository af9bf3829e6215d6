//! Reads a configuration file and its drop-in directory.

use super::error::{ConfigError, DocumentFault};
use super::format::{self, Format};
use super::layer::Layer;
use super::origin::{Origin, Sourced};
use super::section::SignalMap;
use super::warning::{Warning, WarningKind};
use super::yaml;
use crate::kube::RunningKubelet;
use crate::policy::thresholds::defaults;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the file and its drop-ins say together.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) format: Format,
    pub(super) layer: Layer,
}

/// The file, then those of `FILE.d` in the order of their names.
pub(super) fn load(file: &Path, warnings: &mut Vec<Warning>) -> Result<Loaded, ConfigError> {
    let mut loaded = one(file, warnings, |path, line| Origin::File { path, line })?;
    // The kubelet fills these in before it reads its drop-ins: a drop-in with one entry drops none.
    loaded.layer.hard.get_or_insert_with(default_hard);
    for path in drop_ins(&drop_in_directory(file), warnings)? {
        let over = one(&path, warnings, |path, line| Origin::DropIn { path, line })?;
        if over.format != loaded.format {
            return Err(ConfigError::Document {
                origin: Origin::DropIn {
                    path: path.into(),
                    line: 1,
                },
                fault: DocumentFault::OtherKind {
                    found: over.format.name(),
                    expected: loaded.format.name(),
                },
            });
        }
        loaded.layer = loaded.layer.overlaid(over.layer);
    }
    Ok(loaded)
}

pub(super) fn default_hard() -> SignalMap {
    let entries = defaults::HARD
        .map(|(signal, limit)| (signal.to_owned(), Sourced::default_of(limit.to_owned())));
    SignalMap {
        origin: Origin::Default,
        entries: entries.into(),
    }
}

/// What a running kubelet was given, read where it reads it. `None`: no file.
pub(super) fn of_kubelet(
    kubelet: &RunningKubelet,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Loaded>, ConfigError> {
    let read = |path: &Path| kubelet.read(path).map_err(|e| unreadable(path, e));
    let flags = &kubelet.flags;
    let mut loaded = None;
    if let Some(file) = &flags.config {
        let origin = |path, line| Origin::File { path, line };
        let mut main = parsed(file, &read(file)?, warnings, origin)?;
        main.layer.hard.get_or_insert_with(default_hard);
        loaded = Some(main);
    }
    let Some(directory) = &flags.config_dir else {
        return Ok(loaded);
    };
    let drop_ins = kubelet
        .drop_ins(directory)
        .map_err(|e| unreadable(directory, e))?;
    for path in drop_ins {
        let origin = |path, line| Origin::DropIn { path, line };
        let over = parsed(&path, &read(&path)?, warnings, origin)?;
        let defaults = || Layer {
            hard: Some(default_hard()),
            ..Layer::default()
        };
        let below = loaded.map_or_else(defaults, |below| below.layer);
        loaded = Some(Loaded {
            format: over.format,
            layer: below.overlaid(over.layer),
        });
    }
    Ok(loaded)
}

/// What a running kubelet says is in force.
pub(super) fn of_configz(text: &str, warnings: &mut Vec<Warning>) -> Result<Loaded, ConfigError> {
    parsed(Path::new("/configz"), text, warnings, |_, _| {
        Origin::Configz
    })
}

fn one(
    file: &Path,
    warnings: &mut Vec<Warning>,
    origin: fn(Arc<Path>, u64) -> Origin,
) -> Result<Loaded, ConfigError> {
    let text = fs::read_to_string(file).map_err(|source| unreadable(file, source))?;
    parsed(file, &text, warnings, origin)
}

fn parsed(
    file: &Path,
    text: &str,
    warnings: &mut Vec<Warning>,
    origin: fn(Arc<Path>, u64) -> Origin,
) -> Result<Loaded, ConfigError> {
    let path: Arc<Path> = file.into();
    let place = |line| origin(Arc::clone(&path), line);
    let tree = yaml::parse(text).map_err(|error| ConfigError::Document {
        origin: place(error.line),
        fault: DocumentFault::Syntax(error.message),
    })?;
    let document = format::recognize(&tree, &place)?;
    let layer = Layer::read(&document, warnings)?;
    Ok(Loaded {
        format: document.format,
        layer,
    })
}

fn unreadable(path: &Path, source: std::io::Error) -> ConfigError {
    ConfigError::Read {
        path: path.to_owned(),
        source,
    }
}

fn drop_in_directory(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".d");
    name.into()
}

/// Sorted by name. `.conf` is the kubelet's ending for drop-ins, `.yaml` everybody's.
fn drop_ins(directory: &Path, warnings: &mut Vec<Warning>) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(directory, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| unreadable(directory, e))?.path();
        let ending = path.extension().and_then(OsStr::to_str);
        if matches!(ending, Some("yaml" | "yml" | "conf")) {
            files.push(path);
        } else if !path
            .file_name()
            .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."))
        {
            warnings.push(Warning {
                origin: Origin::DropIn {
                    path: path.into(),
                    line: 1,
                },
                key: String::new(),
                kind: WarningKind::OtherEnding,
            });
        }
    }
    files.sort();
    Ok(files)
}

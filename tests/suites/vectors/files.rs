//! Reading a folder of recordings: `F.json`, or parts `F_01.json`, each maybe gzipped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot read the vectors in {}: {source}; set EVICTION_VECTORS to their folder", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a file of vectors: {source}", .path.display())]
    Shape {
        path: PathBuf,
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct VectorFile {
    family: String,
    count: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(rename = "in")]
    pub(crate) input: Value,
    #[serde(rename = "out")]
    pub(crate) output: Value,
}

#[derive(Default)]
pub(crate) struct Family {
    pub(crate) cases: Vec<Case>,
    /// The count the files themselves claim.
    pub(crate) announced: usize,
}

/// All families by name, their parts joined.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, Family>, ReadError> {
    let io_error = |source| ReadError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut families = BTreeMap::<String, Family>::new();
    let mut paths = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<Vec<_>>>()
        })
        .map_err(io_error)?;
    paths.sort();
    for path in paths {
        let Some(file) = read_file(&path)? else {
            continue;
        };
        let family = families.entry(file.family).or_default();
        family.announced += file.count;
        family.cases.extend(file.cases);
    }
    Ok(families)
}

/// `None` for files that are not recordings, such as a README.
fn read_file(path: &Path) -> Result<Option<VectorFile>, ReadError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_compressed = name.ends_with(".json.gz");
    if !is_compressed && !name.ends_with(".json") {
        return Ok(None);
    }
    let io_error = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::new(File::open(path).map_err(io_error)?);
    let mut text = Vec::new();
    if is_compressed {
        flate2::bufread::GzDecoder::new(reader)
            .read_to_end(&mut text)
            .map_err(io_error)?;
    } else {
        reader.read_to_end(&mut text).map_err(io_error)?;
    }
    let file = serde_json::from_slice(&text).map_err(|source| ReadError::Shape {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(file))
}

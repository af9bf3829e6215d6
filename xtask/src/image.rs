//! `cargo xtask image`: the static binary as an image archive. It follows the OCI image layout, and has Docker's table of
//! contents besides, so `ctr images import`, `podman load` and `docker load` all take it. The same binary gives the same bytes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::build;
use crate::console;
use crate::process::run_logged;
use crate::workspace::Workspace;

const REPOSITORY: &str = "localhost/eviction";
const PROGRAM: &str = "usr/bin/eviction";
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

/// Builds the program, and from it `target/image/eviction.tar`.
pub fn run(workspace: &Workspace) -> Result<()> {
    console::say("image");
    let built = build::eviction(workspace)?;
    let archive = archive(workspace, &built, &workspace.target().join("image"))?;
    let size = std::fs::metadata(&archive)?.len();
    console::step(
        &name(),
        "written",
        &format!(
            "{} ({:.1} MB); ctr -n k8s.io images import takes it",
            archive.display(),
            size as f64 / 1e6
        ),
    );
    Ok(())
}

fn name() -> String {
    format!("{REPOSITORY}:{}", env!("CARGO_PKG_VERSION"))
}

/// The image of the static program `built`, as `eviction.tar` in `folder`, with the program that is in it beside.
pub fn archive(workspace: &Workspace, built: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let program = folder.join("eviction");
    strip(workspace, built, &program)?;
    let archive = folder.join("eviction.tar");
    write(&archive, &std::fs::read(&program)?, &name(), &[])
        .with_context(|| format!("cannot write {}", archive.display()))?;
    Ok(archive)
}

/// A copy of a program without its symbols, which are four fifths of it. Ours lies beside the archive, for the Containerfile.
pub(crate) fn strip(workspace: &Workspace, program: &Path, copy: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(copy).arg(program);
    Ok(run_logged(&mut strip, &workspace.log("strip"))?)
}

/// A piece of the image, known by its digest.
struct Blob {
    kind: &'static str,
    content: Vec<u8>,
}

impl Blob {
    fn json(kind: &'static str, content: &Value) -> Result<Self> {
        Ok(Self {
            kind,
            content: serde_json::to_vec(content)?,
        })
    }

    fn hash(&self) -> String {
        Sha256::digest(&self.content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn place(&self) -> String {
        format!("blobs/sha256/{}", self.hash())
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.kind,
            "digest": format!("sha256:{}", self.hash()),
            "size": self.content.len(),
        })
    }
}

/// Writes the archive of an image that runs `program` to `path`. `name`: repository and tag. `arguments`: those that it always
/// has, before any that a pod gives.
pub fn write(path: &Path, program: &[u8], name: &str, arguments: &[&str]) -> Result<()> {
    let own = format!("/{PROGRAM}");
    let entrypoint: Vec<&str> = [own.as_str()].iter().chain(arguments).copied().collect();
    let mut archive = tar::Builder::new(File::create(path)?);
    let layer = Blob {
        kind: "application/vnd.oci.image.layer.v1.tar",
        content: layer(program)?,
    };
    let config = Blob::json(
        "application/vnd.oci.image.config.v1+json",
        &json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": entrypoint},
            // Not compressed, so the digest of its content is its own.
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.hash())]},
        }),
    )?;
    let manifest = Blob::json(
        "application/vnd.oci.image.manifest.v1+json",
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        }),
    )?;
    let tag = name.rsplit_once(':').map_or(name, |(_, tag)| tag);
    let mut entry = manifest.descriptor();
    entry["annotations"] = json!({
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let for_docker = json!([{
        "Config": config.place(),
        "RepoTags": [name],
        "Layers": [layer.place()],
    }]);
    let layout = json!({"imageLayoutVersion": "1.0.0"});
    for blob in [&layer, &config, &manifest] {
        add(&mut archive, &blob.place(), READABLE, &blob.content)?;
    }
    for (place, content) in [
        ("oci-layout", layout),
        ("index.json", index),
        ("manifest.json", for_docker),
    ] {
        add(
            &mut archive,
            place,
            READABLE,
            &serde_json::to_vec(&content)?,
        )?;
    }
    archive.into_inner()?.sync_all()?;
    Ok(())
}

fn layer(program: &[u8]) -> Result<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    add(&mut layer, PROGRAM, EXECUTABLE, program)?;
    Ok(layer.into_inner()?)
}

/// Owned by root, from 1970.
fn add<W: Write>(
    archive: &mut tar::Builder<W>,
    place: &str,
    mode: u32,
    content: &[u8],
) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, place, content)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn entries(archive: impl Read) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    fn written(program: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        write(&path, program, "localhost/eviction:1.2.3", &[]).unwrap();
        entries(File::open(path).unwrap())
    }

    #[test]
    fn the_index_leads_to_the_program_by_digests_that_are_right() {
        let files = written(b"a program");
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            let hash = digest.strip_prefix("sha256:").unwrap();
            let content = &files[&format!("blobs/sha256/{hash}")];
            let real: String = Sha256::digest(content)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(real, hash);
            assert_eq!(descriptor["size"], content.len());
            content
        };
        let parsed = |content: &[u8]| serde_json::from_slice::<Value>(content).unwrap();
        let index = parsed(&files["index.json"]);
        let entry = &index["manifests"][0];
        assert_eq!(
            entry["annotations"]["io.containerd.image.name"],
            "localhost/eviction:1.2.3"
        );
        let manifest = parsed(blob(entry));
        let config = parsed(blob(&manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/eviction");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            manifest["layers"][0]["digest"]
        );
        let layer = entries(blob(&manifest["layers"][0]).as_slice());
        assert_eq!(layer["usr/bin/eviction"], b"a program");
        let for_docker = parsed(&files["manifest.json"]);
        let named = for_docker[0]["Layers"][0].as_str().unwrap();
        assert_eq!(entries(files[named].as_slice()), layer);
    }

    #[test]
    fn the_same_program_gives_the_same_image() {
        assert_eq!(written(b"x"), written(b"x"));
        assert_ne!(written(b"x")["index.json"], written(b"y")["index.json"]);
    }
}

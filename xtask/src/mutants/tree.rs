//! A copy of the tree to make mistakes in: the work tree itself is never touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::list::Mutant;
use crate::process::capture;
use crate::workspace::Workspace;

#[derive(Debug)]
pub(super) struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Copies what git lists. A file that is the same already stays untouched, so that its build does, too.
    pub(super) fn copy(workspace: &Workspace) -> Result<Self> {
        let tree = Self {
            folder: workspace.target().join("mutants"),
        };
        let listed = capture(Command::new("git").arg("-C").arg(workspace.root()).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let listed: BTreeSet<&str> = listed.lines().collect();
        remove_others(&tree.root(), &tree.root(), &|name| {
            listed.contains(name) && workspace.root().join(name).is_file()
        })?;
        for name in &listed {
            let from = workspace.root().join(name);
            if from.is_file() {
                let content =
                    std::fs::read(&from).with_context(|| format!("cannot read {name}"))?;
                tree.write(name, &content)?;
            }
        }
        Ok(tree)
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(super) fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Makes the mistake; returns the text without it.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<String> {
        let path = self.root().join(&mutant.file);
        let original = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "tests/mutants.toml names {}, which is not there",
                mutant.file
            )
        })?;
        self.write(&mutant.file, mutant.applied(&original)?.as_bytes())?;
        Ok(original)
    }

    pub(super) fn restore(&self, file: &str, original: &str) -> Result<()> {
        self.write(file, original.as_bytes())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path: &Path = &self.root().join(name);
        if std::fs::read(path).is_ok_and(|there| there == content) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Removes from an earlier copy what the tree no longer has: a file that moved would be there twice.
fn remove_others(root: &Path, folder: &Path, keep: &dyn Fn(&str) -> bool) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(root, &path, keep)?;
        } else if !path.strip_prefix(root)?.to_str().is_some_and(keep) {
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_moved_is_not_left_in_the_copy() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("src")).unwrap();
        for name in ["src/kept.rs", "src/moved.rs"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        remove_others(root.path(), root.path(), &|name| name == "src/kept.rs").unwrap();
        assert!(root.path().join("src/kept.rs").exists());
        assert!(!root.path().join("src/moved.rs").exists());
    }
}

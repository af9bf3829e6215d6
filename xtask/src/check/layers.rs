//! The layer rule: no import upwards or sideways past the table.

use anyhow::Result;

use super::layer_table::{CRATES, Layer, TREES};
use super::{Findings, files, paths, read};
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files(workspace)?
        .iter()
        .filter(|path| path.ends_with(".rs"))
    {
        // The longest folder wins: `eviction-user/core/src` lies beside `eviction-user/src`.
        let Some(tree) = TREES
            .iter()
            .find(|tree| path.starts_with(&format!("{}/", tree.folder)))
        else {
            continue;
        };
        let module = module_of(&path[tree.folder.len() + 1..]);
        findings.extend(violations(
            path,
            &read(workspace, path)?,
            &module,
            tree.layers,
        ));
    }
    Ok(findings)
}

/// `agent/run.rs` is `["agent", "run"]`, `agent/mod.rs` is `["agent"]`, the roots are `[]`.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || matches!(path, "lib" | "main") {
        module.pop();
    }
    module
}

/// What in `source` breaks the rule of `layers`.
fn violations(path: &str, source: &str, module: &[String], layers: &[Layer]) -> Findings {
    // The roots wire everything; they are above all layers.
    let Some(own) = module.first() else {
        return Findings::new();
    };
    let Some(layer) = layers.iter().find(|layer| layer.module == own) else {
        return vec![format!(
            "{path}: module `{own}` has no layer: give it one in xtask/src/check/layer_table.rs"
        )];
    };
    let crates = CRATES.map(|(name, _)| name);
    let references = match paths::references(source, module, &crates) {
        Ok(references) => references,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    let mut findings = Findings::new();
    for reference in references {
        let used = known_as(&reference.root, &reference.path);
        if used.first() == Some(own)
            || used.is_empty()
            || layer.may_use.iter().any(|allowed| allows(allowed, &used))
        {
            continue;
        }
        let may = if layer.may_use.is_empty() {
            "nothing of the workspace".to_owned()
        } else {
            layer.may_use.join(", ")
        };
        findings.push(format!(
            "{path}:{}: `{own}` uses `{}`, but may use only {may}",
            reference.line,
            used.join("::")
        ));
    }
    findings.dedup();
    findings
}

/// The path as the table writes it.
fn known_as(root: &str, path: &[String]) -> Vec<String> {
    let prefix = CRATES
        .iter()
        .find(|(name, _)| *name == root)
        .map_or("", |(_, prefix)| prefix);
    std::iter::once(prefix.to_owned())
        .filter(|prefix| !prefix.is_empty())
        .chain(path.iter().cloned())
        .collect()
}

fn allows(allowed: &str, used: &[String]) -> bool {
    let mut used = used.iter();
    allowed
        .split("::")
        .all(|part| used.next().is_some_and(|name| name == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaks(module: &str, source: &str) -> Findings {
        let module: Vec<String> = module.split('/').map(str::to_owned).collect();
        violations("x.rs", source, &module, TREES[1].layers)
    }

    #[test]
    fn an_import_upwards_is_found_with_its_line() {
        let findings = breaks(
            "sys/psi",
            "use crate::model::Signal;\nuse crate::agent::Pace;\n",
        );
        assert_eq!(
            findings,
            ["x.rs:2: `sys` uses `agent::Pace`, but may use only model, ports"]
        );
    }

    #[test]
    fn an_import_sideways_is_found_however_it_is_written() {
        assert_eq!(
            breaks("bpf/ring", "use crate::{model, host::{kill, Inventory}};").len(),
            2
        );
        assert_eq!(
            breaks("bpf/ring", "fn f() { super::super::host::kill() }").len(),
            1
        );
        assert_eq!(
            breaks("bpf/ring", "fn f() { eviction_user::host::kill() }").len(),
            1
        );
        assert_eq!(
            breaks("host", "use eviction_ebpf::abi::Event;"),
            ["x.rs:1: `host` uses `ebpf::abi::Event`, but may use only model, ports, sys"]
        );
    }

    #[test]
    fn imports_downwards_and_within_are_fine() {
        assert!(breaks("agent/run", "use crate::{model::Signal, policy, ports::Executor}; use super::pace; use super::Pace;").is_empty());
        assert!(
            breaks(
                "bpf",
                "use eviction_ebpf::abi::Event; use eviction_core::model::Signal;"
            )
            .is_empty()
        );
    }

    #[test]
    fn an_exception_names_one_item_and_allows_no_more() {
        assert!(breaks("kube/evict", "use crate::host::kill::Kill;").is_empty());
        assert_eq!(breaks("kube/evict", "use crate::host::Inventory;").len(), 1);
    }

    #[test]
    fn the_core_must_not_know_who_uses_it() {
        let model = ["model".to_owned()];
        let findings = violations(
            "m.rs",
            "use crate::policy::Engine;",
            &model,
            TREES[0].layers,
        );
        assert_eq!(
            findings,
            ["m.rs:1: `model` uses `policy::Engine`, but may use only nothing of the workspace"]
        );
    }

    #[test]
    fn a_new_module_needs_a_layer() {
        assert!(breaks("shiny", "")[0].contains("`shiny` has no layer"));
    }

    #[test]
    fn files_are_their_modules() {
        for (path, module) in [
            ("agent/run.rs", "agent::run"),
            ("agent/mod.rs", "agent"),
            ("ports.rs", "ports"),
            ("lib.rs", ""),
            ("main.rs", ""),
        ] {
            assert_eq!(module_of(path).join("::"), module);
        }
    }
}

//! Whether an evictor has taken each pod for itself, by the rankings of its decisions.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use eviction_tests::scenario::{Evictor, Record};
use serde_json::Value;

use crate::api::text;

pub(crate) struct Mapped {
    /// So often a pod was ranked under its name.
    pub(crate) seen: usize,
    /// So often one was known by its cgroup only, as yet.
    pub(crate) unmapped: usize,
}

/// Its candidates, by name, with what speaks against them.
pub(crate) fn candidates(decision: &Record) -> Vec<&Value> {
    let all = decision.0["ranking"]["candidates"].as_array();
    all.into_iter().flatten().collect()
}

/// `known`: the uids of all that ever were. `fits`: may a pod of this name be ranked like that?
pub(crate) fn judge(
    evictor: &Evictor,
    known: &BTreeMap<String, String>,
    fits: impl Fn(&str, &Value) -> bool,
) -> Result<Mapped> {
    let mut mapped = Mapped {
        seen: 0,
        unmapped: 0,
    };
    for decision in evictor.of_kind("decision") {
        let victim = decision.text("victim");
        let uid = known.get(victim).map(String::as_str);
        ensure!(
            uid == Some(decision.text("uid")),
            "{victim} is not {}",
            decision.text("uid")
        );
        for candidate in candidates(decision) {
            let name = text(candidate, "/name");
            if known.contains_key(name) {
                ensure!(fits(name, candidate), "this is not {name}: {candidate}");
                mapped.seen += 1;
                continue;
            }
            let uid = name.strip_prefix("pod").unwrap_or(name);
            ensure!(known.values().any(|known| known == uid), "who is {name}?");
            ensure!(candidate["victim"] == false, "{candidate}");
            mapped.unmapped += 1;
        }
    }
    Ok(mapped)
}

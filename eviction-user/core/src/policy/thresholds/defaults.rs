//! The kubelet's default hard thresholds on Linux.

use std::collections::BTreeMap;

/// Signal and limit, as they would be written in a configuration file.
pub const HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// What the kubelet makes of `evictionHard` in a file: absent, the defaults; present, even with one
/// entry, only what it names, unless `mergeDefaultEvictionSettings` adds the missing ones.
pub fn complete_hard(
    configured: Option<BTreeMap<String, String>>,
    merge_defaults: bool,
) -> BTreeMap<String, String> {
    let add_defaults = configured.is_none() || merge_defaults;
    let mut complete = configured.unwrap_or_default();
    if add_defaults {
        for (signal, limit) in HARD {
            complete
                .entry(signal.to_owned())
                .or_insert_with(|| limit.to_owned());
        }
    }
    complete
}

/// Defaults that a partial `evictionHard` switches off, for a warning.
pub fn dropped(configured: &BTreeMap<String, String>, merge_defaults: bool) -> Vec<&'static str> {
    let signals = HARD.iter().map(|(signal, _)| *signal);
    signals
        .filter(|signal| !merge_defaults && !configured.contains_key(*signal))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> BTreeMap<String, String> {
        BTreeMap::from([("memory.available".to_owned(), "1Gi".to_owned())])
    }

    #[test]
    fn case_42_one_hard_entry_switches_the_other_defaults_off() {
        assert_eq!(complete_hard(Some(one()), false), one());
        assert_eq!(
            dropped(&one(), false),
            [
                "nodefs.available",
                "nodefs.inodesFree",
                "imagefs.available",
                "imagefs.inodesFree"
            ]
        );
    }

    #[test]
    fn case_42_the_merge_option_adds_the_missing_defaults_and_keeps_the_rest() {
        let merged = complete_hard(Some(one()), true);
        assert_eq!(merged.len(), 5);
        assert_eq!(merged["memory.available"], "1Gi");
        assert_eq!(merged["imagefs.available"], "15%");
        assert!(dropped(&one(), true).is_empty());
    }

    #[test]
    fn without_hard_entries_all_defaults_apply_but_an_empty_map_means_none() {
        assert_eq!(complete_hard(None, false).len(), 5);
        assert!(complete_hard(Some(BTreeMap::new()), false).is_empty());
    }
}

//! The layer rule as data: which module may use which. Imports go downwards only.

/// A module and what it may use besides itself. An entry with `::` allows only that item.
pub(super) struct Layer {
    pub(super) module: &'static str,
    pub(super) may_use: &'static [&'static str],
}

/// A source tree whose top-level modules are in the table.
pub(super) struct Tree {
    pub(super) folder: &'static str,
    pub(super) layers: &'static [Layer],
}

/// Crates whose modules take part, and the prefix under which the table knows them.
pub(super) const CRATES: [(&str, &str); 3] = [
    ("eviction_core", ""),
    ("eviction_user", ""),
    ("eviction_ebpf", "ebpf"),
];

const fn layer(module: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { module, may_use }
}

/// From the bottom up; `main.rs` and `lib.rs` of a tree stand above its modules and are not listed.
pub(super) const TREES: [Tree; 2] = [
    Tree {
        folder: "eviction-user/core/src",
        layers: &[layer("model", &[]), layer("policy", &["model"])],
    },
    Tree {
        folder: "eviction-user/src",
        layers: &[
            layer("ports", &["model"]),
            layer("sys", &["model", "ports"]),
            layer("host", &["model", "ports", "sys"]),
            layer("bpf", &["model", "ports", "sys", "ebpf"]),
            // What every node has in common, which pods are found and killed by; nothing of a host's own workloads.
            layer(
                "kube",
                &[
                    "model",
                    "ports",
                    "sys",
                    "host::Answer",
                    "host::kill",
                    "host::as_container",
                    "host::DiskUses",
                    "host::Held",
                    "host::Limited",
                    "host::LimitedNow",
                    "host::LimitedPart",
                    "host::Owner",
                    "host::Reading",
                    "host::ScanTarget",
                    "host::Targets",
                    "host::Untouchable",
                    "host::WorkloadCgroups",
                    "host::Workloads",
                ],
            ),
            layer("cri", &["model", "ports", "sys"]),
            // `policy`: its data types only, which a path cannot tell from its functions.
            layer("record", &["model", "ports", "policy", "sys"]),
            layer("telemetry", &["model", "ports", "policy", "sys"]),
            layer(
                "agent",
                &["model", "policy", "ports", "sys", "record", "telemetry"],
            ),
            layer("bench", &["model", "ports", "sys", "bpf", "agent"]),
            // Adapters: the types of their settings.
            layer("config", &["model", "policy", "host", "bpf", "kube", "cri"]),
            layer(
                "cli",
                &[
                    "model",
                    "policy",
                    "ports",
                    "sys",
                    "host",
                    "bpf",
                    "kube",
                    "cri",
                    "record",
                    "telemetry",
                    "agent",
                    "bench",
                    "config",
                    "ebpf",
                ],
            ),
        ],
    },
];

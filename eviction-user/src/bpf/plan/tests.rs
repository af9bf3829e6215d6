use super::*;
use crate::bpf::facts::{Capabilities, Function};

const HOST: &str = include_str!("../../../tests/fixtures/facts/host-6.18.json");
const GUESTS: [(&str, &str); 4] = [
    (
        "5.10",
        include_str!("../../../tests/fixtures/facts/guest-5.10.json"),
    ),
    (
        "6.1",
        include_str!("../../../tests/fixtures/facts/guest-6.1.json"),
    ),
    (
        "6.12",
        include_str!("../../../tests/fixtures/facts/guest-6.12.json"),
    ),
    (
        "7.3",
        include_str!("../../../tests/fixtures/facts/guest-7.3.json"),
    ),
];

fn recorded(json: &str) -> Facts {
    serde_json::from_str(json).unwrap()
}

fn names(ladder: &[Step]) -> Vec<&'static str> {
    ladder
        .iter()
        .flat_map(Step::to_try)
        .map(Rung::name)
        .collect()
}

fn reasons(ladder: &[Step]) -> Vec<Reason> {
    ladder
        .iter()
        .flat_map(|step| &step.rungs)
        .filter_map(|candidate| candidate.excluded.clone())
        .collect()
}

#[test]
fn every_guest_kernel_is_tried_from_fentry_down() {
    for (kernel, json) in GUESTS {
        let plan = plan(&recorded(json));
        let memory = [
            "fentry/page_counter_try_charge",
            "kprobe/page_counter_try_charge",
            "perf/page-faults",
            "raw_tp/mm_filemap_add_to_page_cache",
            "raw_tp/mm_page_alloc",
        ];
        assert_eq!(names(plan.ladder(Family::Memory)), memory, "{kernel}");
        let inodes = [
            "fentry/inode_init_owner",
            "kprobe/inode_init_owner",
            "raw_tp/ext4_allocate_inode",
        ];
        assert_eq!(names(plan.ladder(Family::Inodes)), inodes, "{kernel}");
        assert!(
            reasons(plan.ladder(Family::Inodes)).contains(&Reason::NoTracepoint {
                tracepoint: "xfs_create"
            }),
            "{kernel}"
        );
    }
}

#[test]
fn the_host_without_kprobes_leaves_them_out_and_watches_three_file_systems() {
    let plan = plan(&recorded(HOST));
    assert_eq!(reasons(plan.ladder(Family::Memory)), [Reason::NoKprobes]);
    assert_eq!(
        names(plan.ladder(Family::Memory))[..2],
        ["fentry/page_counter_try_charge", "perf/page-faults"]
    );
    let inodes = [
        "fentry/inode_init_owner",
        "raw_tp/ext4_allocate_inode",
        "raw_tp/xfs_create",
        "raw_tp/btrfs_inode_new",
    ];
    assert_eq!(names(plan.ladder(Family::Inodes)), inodes);
}

#[test]
fn what_is_written_is_seen_on_every_kernel_and_without_kprobes_by_a_tracepoint_alone() {
    for (kernel, json) in GUESTS {
        let plan = plan(&recorded(json));
        let written = [
            "fentry/generic_write_checks",
            "kprobe/generic_write_checks",
            "raw_tp/writeback_dirty_folio",
        ];
        assert_eq!(
            names(plan.ladder(Family::WrittenBytes)),
            written,
            "{kernel}"
        );
    }
    let mut facts = recorded(HOST);
    facts.btf_error = Some("gone".into());
    let ladder = plan(&facts);
    let alone = ["raw_tp/writeback_dirty_folio"];
    assert_eq!(names(ladder.ladder(Family::WrittenBytes)), alone);
}

#[test]
fn every_kernel_counts_tasks_and_tells_of_oom_kills_reclaim_and_cgroups() {
    for (kernel, json) in GUESTS.into_iter().chain([("6.18", HOST)]) {
        let plan = plan(&recorded(json));
        let pids = names(plan.ladder(Family::Pids));
        assert_eq!(pids, ["raw_tp/task_newtask"], "{kernel}");
        let told = [
            "raw_tp/mark_victim",
            "raw_tp/mm_vmscan_direct_reclaim_begin",
            "raw_tp/cgroup_mkdir",
        ];
        assert_eq!(names(plan.ladder(Family::Observations)), told, "{kernel}");
    }
}

#[test]
fn without_types_nothing_is_read_from_a_victim_or_a_cgroup() {
    let mut facts = recorded(GUESTS[2].1);
    facts.offsets.victim = None;
    facts.offsets.cgroup = None;
    let observations = plan(&facts);
    let observations = observations.ladder(Family::Observations);
    assert_eq!(
        names(observations),
        ["raw_tp/mm_vmscan_direct_reclaim_begin"]
    );
    assert_eq!(
        reasons(observations),
        ["mark_victim", "cgroup_mkdir"].map(|tracepoint| Reason::FieldsUnknown { tracepoint })
    );
}

/// Each change of one fact, and the reasons that it adds on a 6.12 guest.
#[test]
fn each_missing_fact_rules_out_its_rungs_and_no_others() {
    type Change = fn(&mut Facts);
    let table: [(&str, Change, &[&str]); 7] = [
        (
            "built without",
            |facts| facts.built = false,
            &[
                "perf/page-faults",
                "raw_tp/mm_page_alloc",
                "raw_tp/ext4_allocate_inode",
            ],
        ),
        (
            "no privilege",
            |facts| facts.capabilities = Capabilities::default(),
            &["perf/page-faults", "fentry/inode_init_owner"],
        ),
        (
            "confidentiality",
            |facts| facts.lockdown = Lockdown::Confidentiality,
            &["perf/page-faults", "raw_tp/mm_page_alloc"],
        ),
        (
            "no BTF",
            |facts| facts.btf_error = Some("gone".into()),
            &["fentry/page_counter_try_charge", "fentry/inode_init_owner"],
        ),
        (
            "no kprobes",
            |facts| facts.kprobes = false,
            &["kprobe/page_counter_try_charge", "kprobe/inode_init_owner"],
        ),
        (
            "no such function",
            |facts| {
                facts
                    .functions
                    .insert("page_counter_try_charge".into(), Function::default());
            },
            &[
                "fentry/page_counter_try_charge",
                "kprobe/page_counter_try_charge",
            ],
        ),
        (
            "no argument",
            |facts| facts.offsets.inode_arg = None,
            &["fentry/inode_init_owner", "kprobe/inode_init_owner"],
        ),
    ];
    let whole = plan(&recorded(GUESTS[2].1));
    let everything: Vec<_> = names(whole.ladder(Family::Memory))
        .into_iter()
        .chain(names(whole.ladder(Family::Inodes)))
        .collect();
    for (name, change, gone) in table {
        let mut facts = recorded(GUESTS[2].1);
        change(&mut facts);
        let plan = plan(&facts);
        let left: Vec<_> = names(plan.ladder(Family::Memory))
            .into_iter()
            .chain(names(plan.ladder(Family::Inodes)))
            .collect();
        for rung in gone {
            assert!(!left.contains(rung), "{name}: {rung} is still tried");
        }
        let global = ["built without", "no privilege", "confidentiality"].contains(&name);
        let expected = if global {
            0
        } else {
            everything.len() - gone.len()
        };
        assert_eq!(left.len(), expected, "{name}: {left:?}");
    }
}

const CHARGE: &str = "page_counter_try_charge";

#[test]
fn case_58_a_function_with_copies_is_probed_and_not_traced() {
    let mut facts = recorded(GUESTS[1].1);
    let copies = vec![format!("{CHARGE}.isra.0"), format!("{CHARGE}.constprop.1")];
    facts.copies.insert(CHARGE.into(), copies.clone());
    facts.functions.insert(CHARGE.into(), Function::default());
    let plan = plan(&facts);
    assert_eq!(
        reasons(plan.ladder(Family::Memory)),
        [Reason::Copied { function: CHARGE }]
    );
    assert_eq!(
        names(plan.ladder(Family::Memory))[0],
        "kprobe/page_counter_try_charge"
    );
    assert_eq!(facts.symbols_of(CHARGE), copies);
}

#[test]
fn perf_needs_its_capability_where_the_kernel_is_paranoid() {
    let mut facts = recorded(GUESTS[1].1);
    facts.capabilities = Capabilities {
        sys_admin: false,
        perfmon: false,
        bpf: true,
        sys_resource: false,
    };
    facts.perf_event_paranoid = Some(3);
    assert_eq!(perf(&facts), Some(Reason::PerfForbidden { paranoid: 3 }));
    facts.perf_event_paranoid = Some(-1);
    assert_eq!(perf(&facts), None);
}

#[test]
fn reasons_name_the_thing_and_the_fix() {
    let reason = Reason::PerfForbidden { paranoid: 3 }.to_string();
    assert!(
        reason.contains("kernel.perf_event_paranoid = 3") && reason.contains("CAP_PERFMON"),
        "{reason}"
    );
    assert!(
        Reason::NoPrivilege
            .to_string()
            .contains("run as root or grant")
    );
}

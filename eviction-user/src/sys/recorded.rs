//! The formulas, pinned on files recorded from real kernels (user case 16: root usage differs between
//! v1, v2 and meminfo, and tools rebuild it differently). Each guest had written 8 MiB to an ext4 from a
//! cgroup with a limit of 64 MiB; the expected figures were worked out by hand from the files.

use super::cgroup::{
    CgroupDir, GroupMemory, GroupMemoryReader, Hierarchy, Version, oom_kills, parse,
};
use super::node_memory::{NodeMemory, NodeMemoryReader};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn group(name: &str, version: Version) -> GroupMemory {
    let group = CgroupDir::open(&folder(name).join("group")).unwrap();
    GroupMemoryReader::open(&group, version)
        .unwrap()
        .read()
        .unwrap()
}

fn node(name: &str, version: Version) -> NodeMemory {
    let mount = folder(name).join("root");
    let meminfo = mount.join("meminfo");
    let hierarchy = Hierarchy {
        version,
        mount,
        freezer: None,
    };
    NodeMemoryReader::open_with(&hierarchy, &meminfo)
        .unwrap()
        .read()
        .unwrap()
}

#[test]
fn case_16_a_group_counts_what_it_uses_without_inactive_file_pages() {
    for (name, version, usage, inactive_file, working_set, reclaimable_cache) in [
        ("v2-5.10", Version::V2, 9_682_944, 8_380_416, 1_302_528, 0),
        ("v2-6.12", Version::V2, 9_777_152, 8_396_800, 1_380_352, 0),
        ("v2-7.3", Version::V2, 9_924_608, 8_400_896, 1_523_712, 0),
        (
            "v1-6.1",
            Version::V1,
            9_797_632,
            8_388_608,
            1_409_024,
            12_288,
        ),
    ] {
        let read = group(name, version);
        let expected = GroupMemory {
            usage,
            inactive_file,
            reclaimable_cache,
            limit: Some(64 << 20),
        };
        assert_eq!(read, expected, "{name}");
        assert_eq!(read.working_set(), working_set, "{name}");
    }
}

#[test]
fn case_16_the_node_is_anon_and_file_on_v2_and_the_root_usage_on_v1() {
    let nodes = [
        (
            "v2-5.10",
            Version::V2,
            1_026_248_704,
            2_433_024,
            0,
            2_482_176,
        ),
        (
            "v2-6.12",
            Version::V2,
            1_013_641_216,
            2_387_968,
            0,
            2_351_104,
        ),
        (
            "v2-7.3",
            Version::V2,
            1_007_714_304,
            2_375_680,
            0,
            2_342_912,
        ),
        (
            "v1-6.1",
            Version::V1,
            1_019_244_544,
            2_756_608,
            172_032,
            2_686_976,
        ),
    ];
    for (name, version, total, working_set, reclaimable_cache, counted) in nodes {
        let read = node(name, version);
        let expected = NodeMemory {
            total,
            working_set,
            reclaimable_cache,
            swap_free: 0,
            counted,
        };
        assert_eq!(read, expected, "{name}");
        assert_eq!(read.available(), total - working_set, "{name}");
    }
}

#[test]
fn event_files_of_each_kernel_are_understood() {
    for name in ["v2-5.10", "v2-6.12", "v2-7.3"] {
        let group = CgroupDir::open(&folder(name).join("group")).unwrap();
        assert_eq!(oom_kills(&group, Version::V2).unwrap(), 0, "{name}");
        let events = std::fs::read(folder(name).join("group/cgroup.events")).unwrap();
        assert_eq!(parse::flat_keyed(&events, "populated"), Some(1), "{name}");
        assert_eq!(parse::flat_keyed(&events, "frozen"), Some(0), "{name}");
    }
    let v1 = CgroupDir::open(&folder("v1-6.1").join("group")).unwrap();
    assert_eq!(oom_kills(&v1, Version::V1).unwrap(), 0);
}

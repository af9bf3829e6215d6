//! What a kubelet has decided, from its files and its command line.

use super::{KUBELET, OWN};
use crate::config::{Effective, EvictionFlags, KubeletSettings, PodsLayout};
use crate::kube::RunningKubelet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory of /proc, with the files that the process sees.
struct Process(TempDir);

impl Process {
    fn with(files: &[(&str, &str)]) -> Self {
        let process = Self(tempfile::tempdir().unwrap());
        for (name, content) in files {
            let path = process.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        process
    }

    /// Of a file of the process, seen from here.
    fn path(&self, name: &str) -> PathBuf {
        self.0
            .path()
            .join("root")
            .join(name.trim_start_matches('/'))
    }

    fn running(&self, line: &str) -> RunningKubelet {
        RunningKubelet::for_tests(self.0.path(), line)
    }
}

/// Value and source of a key.
fn row(settings: &KubeletSettings, key: &str) -> (String, String) {
    let rows = settings.rows();
    let row = rows.iter().find(|row| row.key == key);
    let row = row.unwrap_or_else(|| panic!("no {key} in {rows:#?}"));
    (row.value.clone(), row.source.clone())
}

#[test]
fn defaults_file_drop_ins_and_flags_each_win_over_what_comes_before() {
    let main = format!(
        "{KUBELET}cgroupRoot: /file\ncgroupDriver: systemd\npodLogsDir: /logs\nevictionHard:\n  memory.available: 300Mi\n"
    );
    let drop_in = format!("{KUBELET}podLogsDir: /other-logs\n");
    let process = Process::with(&[
        ("/etc/k.yaml", &main),
        ("/etc/k.d/20-logs.conf", &drop_in),
        ("/etc/k.d/30-ignored.yaml", "nonsense: ["),
    ]);
    let running = process.running(
        "--config=/etc/k.yaml --config-dir=/etc/k.d --root-dir=/data --cgroup-root=/flag --image-service-endpoint=unix:///images.sock --eviction-hard=memory.available<400Mi,pid.available<5%",
    );
    let (settings, known) = KubeletSettings::of_running(&running);
    known.unwrap();
    for (key, value, source) in [
        ("--root-dir", "/data", "the kubelet's --root-dir"),
        ("cgroupRoot", "/flag", "the kubelet's --cgroup-root"),
        ("cgroupDriver", "systemd", "/etc/k.yaml:4"),
        ("podLogsDir", "/other-logs", "/etc/k.d/20-logs.conf:3"),
        (
            "evictionHard.memory.available",
            "400Mi",
            "the kubelet's --eviction-hard",
        ),
        (
            "containerRuntimeEndpoint",
            "unix:///run/containerd/containerd.sock",
            "default",
        ),
        (
            "imageServiceEndpoint",
            "unix:///images.sock",
            "the kubelet's --image-service-endpoint",
        ),
    ] {
        let expected = (value.to_owned(), source.to_owned());
        assert_eq!(row(&settings, key), expected, "{key}");
    }
    let (bare, known) = KubeletSettings::of_running(&process.running(""));
    known.unwrap();
    let default = |value: &str| (value.to_owned(), "default".to_owned());
    assert_eq!(row(&bare, "--root-dir"), default("/var/lib/kubelet"));
    assert_eq!(row(&bare, "podLogsDir"), default("/var/log/pods"));
}

#[test]
fn of_a_file_that_cannot_be_used_nothing_counts_but_the_root_directory_does() {
    let process = Process::with(&[("/k.yaml", "kind: [")]);
    for (line, said) in [
        ("--root-dir=/data --config=/none.yaml", "/none.yaml: "),
        ("--root-dir=/data --config=/k.yaml", "/k.yaml:"),
        (
            "--root-dir=/data --cgroup-driver=x",
            "cgroup-driver: \"x\" is none of",
        ),
        ("--root-dir=/data --config-dir=/none", "/none: "),
    ] {
        let (settings, known) = KubeletSettings::of_running(&process.running(line));
        let error = known.unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
        assert!(settings.effective.is_none());
        assert_eq!(settings.root_dir.unwrap().value, Path::new("/data"));
    }
}

#[test]
fn a_named_file_is_read_here_and_its_kind_decides_whether_flags_are_laid_over_it() {
    let kubelet = format!("{KUBELET}cgroupRoot: /file\n");
    let configz = r#"{"kubeletconfig": {"cgroupRoot": "/in-force", "evictionHard": {}}}"#;
    let process = Process::with(&[("/k", &kubelet), ("/z", configz), ("/own", OWN)]);
    let running = process.running("--cgroup-root=/flag --root-dir=/data");
    let root = |name: &str, running| {
        let settings = KubeletSettings::of_file(&process.path(name), running).unwrap();
        settings.effective.unwrap().cgroup_root.value
    };
    assert_eq!(root("/k", Some(&running)), "/flag");
    assert_eq!(root("/k", None), "/file");
    assert_eq!(root("/z", Some(&running)), "/in-force");
    let own = KubeletSettings::of_file(&process.path("/own"), None).unwrap_err();
    let said = "kind: EvictionConfiguration is not the kubelet's";
    assert!(own.to_string().contains(said), "{own}");
}

#[test]
fn a_place_is_by_our_file_else_by_the_kubelets_else_by_its_defaults() {
    let kubelet = format!(
        "{KUBELET}cgroupRoot: /kubelets\npodLogsDir: /kubelets-logs\ncontainerRuntimeEndpoint: unix:///run/k.sock\n"
    );
    let ours = format!("{OWN}cgroupRoot: /ours\n");
    let process = Process::with(&[("/k", &kubelet), ("/ours", &ours)]);
    let none = EvictionFlags::default();
    let load = |file: Option<PathBuf>| Effective::load(file.as_deref(), &none).unwrap();
    let settings = KubeletSettings::of_file(&process.path("/k"), None).unwrap();
    let layout = PodsLayout::of(&load(Some(process.path("/ours"))), &settings);
    assert_eq!(layout.cgroup_root.value, "/ours");
    assert_eq!(layout.pod_logs.value, Path::new("/kubelets-logs"));
    assert_eq!(layout.runtime.value, "unix:///run/k.sock");
    let layout = PodsLayout::of(&load(None), &settings);
    assert_eq!(layout.cgroup_root.value, "/kubelets");
    let layout = PodsLayout::of(&load(None), &KubeletSettings::default());
    assert_eq!(layout.cgroup_root.value, "");
    assert!(layout.cgroup_root.origin.is_default() && layout.root_dir.is_none());
    // Images may be served apart.
    let apart = process.running("--image-service-endpoint=/run/i.sock");
    let (settings, _) = KubeletSettings::of_running(&apart);
    let layout = PodsLayout::of(&load(None), &settings);
    assert_eq!(layout.runtime.value, "/run/i.sock");
}

//! The kubelet's command line, as far as it says where pods are and when it evicts (`cmd/kubelet/app/options/options.go`). Pure.

use std::ffi::OsString;
use std::path::PathBuf;

/// `None`: not given. Most of them are deprecated in favour of the file, and win over it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletFlags {
    pub config: Option<PathBuf>,
    /// Of drop-ins.
    pub config_dir: Option<PathBuf>,
    pub root_dir: Option<PathBuf>,
    /// The node's name, unless a cloud says otherwise.
    pub hostname_override: Option<String>,
    pub cgroup_root: Option<String>,
    pub cgroup_driver: Option<String>,
    pub runtime_endpoint: Option<String>,
    pub image_endpoint: Option<String>,
    /// Of what it serves itself.
    pub address: Option<String>,
    pub port: Option<String>,
    /// One, or one of each family.
    pub node_ip: Option<String>,
    pub tls_cert_file: Option<PathBuf>,
    /// For certificates that it makes or is given by the cluster.
    pub cert_dir: Option<PathBuf>,
    /// Separated by commas.
    pub enforce: Option<String>,
    pub hard: Option<String>,
    pub soft: Option<String>,
    pub soft_grace: Option<String>,
    pub min_reclaim: Option<String>,
    pub transition_period: Option<String>,
    pub max_pod_grace: Option<String>,
}

impl KubeletFlags {
    /// `arguments`: without the program's name.
    pub(super) fn parse(arguments: Vec<OsString>) -> Result<Self, lexopt::Error> {
        use lexopt::Arg;
        let mut flags = Self::default();
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            let name = match argument {
                // Go's flags take either.
                Arg::Long(name) => name.replace('_', "-"),
                Arg::Short(_) => String::new(),
                // Of a flag that is none of ours.
                Arg::Value(_) => continue,
            };
            if let Some(path) = flags.path(&name) {
                *path = Some(parser.value()?.into());
            } else if let Some(text) = flags.map(&name) {
                let more = parser.value()?.to_string_lossy().into_owned();
                // Given again, it goes on.
                *text = Some(match text.take() {
                    Some(before) => format!("{before},{more}"),
                    None => more,
                });
            } else if let Some(text) = flags.text(&name) {
                *text = Some(parser.value()?.to_string_lossy().into_owned());
            } else {
                // Whether it takes a value at all only the kubelet knows; one that stands apart comes next, by itself.
                let _ = parser.optional_value();
            }
        }
        Ok(flags)
    }

    fn path(&mut self, name: &str) -> Option<&mut Option<PathBuf>> {
        match name {
            "config" => Some(&mut self.config),
            "config-dir" => Some(&mut self.config_dir),
            "root-dir" => Some(&mut self.root_dir),
            "tls-cert-file" => Some(&mut self.tls_cert_file),
            "cert-dir" => Some(&mut self.cert_dir),
            _ => None,
        }
    }

    fn map(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "eviction-hard" => Some(&mut self.hard),
            "eviction-soft" => Some(&mut self.soft),
            "eviction-soft-grace-period" => Some(&mut self.soft_grace),
            "eviction-minimum-reclaim" => Some(&mut self.min_reclaim),
            "enforce-node-allocatable" => Some(&mut self.enforce),
            _ => None,
        }
    }

    fn text(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "hostname-override" => Some(&mut self.hostname_override),
            "address" => Some(&mut self.address),
            "port" => Some(&mut self.port),
            "node-ip" => Some(&mut self.node_ip),
            "cgroup-root" => Some(&mut self.cgroup_root),
            "cgroup-driver" => Some(&mut self.cgroup_driver),
            "container-runtime-endpoint" => Some(&mut self.runtime_endpoint),
            "image-service-endpoint" => Some(&mut self.image_endpoint),
            "eviction-pressure-transition-period" => Some(&mut self.transition_period),
            "eviction-max-pod-grace-period" => Some(&mut self.max_pod_grace),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> KubeletFlags {
        KubeletFlags::parse(line.split(' ').map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn command_lines_as_distributions_write_them() {
        // kubeadm on Debian, with what an administrator has added
        let flags = parse(
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml --node-ip 10.0.0.5 --root-dir /data/kubelet -v=2 --fail-swap-on",
        );
        assert_eq!(flags.config, Some("/var/lib/kubelet/config.yaml".into()));
        assert_eq!(flags.root_dir, Some("/data/kubelet".into()));
        assert_eq!(flags.hard, None);
        // Amazon's image: drop-ins, the name, and older flags
        let flags = parse(
            "--config /etc/kubernetes/kubelet/config.json --config-dir /etc/kubernetes/kubelet/config.json.d --hostname-override=ip-10-0-0-5.ec2.internal --cgroup_driver=systemd --cgroup-root=/ --eviction-hard=memory.available<100Mi --eviction-hard=nodefs.available<10%",
        );
        assert_eq!(
            flags.config_dir,
            Some("/etc/kubernetes/kubelet/config.json.d".into())
        );
        assert_eq!(
            flags.hostname_override.as_deref(),
            Some("ip-10-0-0-5.ec2.internal")
        );
        assert_eq!(flags.cgroup_driver.as_deref(), Some("systemd"));
        assert_eq!(flags.cgroup_root.as_deref(), Some("/"));
        assert_eq!(
            flags.hard.as_deref(),
            Some("memory.available<100Mi,nodefs.available<10%")
        );
    }

    #[test]
    fn the_last_one_counts_and_a_missing_value_is_an_error() {
        let flags = parse("--root-dir=/a --root-dir=/b -v 4 --root-dir=/c --");
        assert_eq!(flags.root_dir, Some("/c".into()));
        assert!(KubeletFlags::parse(vec!["--root-dir".into()]).is_err());
        assert_eq!(parse("--v=2 stray"), KubeletFlags::default());
    }
}

//! Where a running kubelet serves its `/configz`, and by which certificate it is known.

use crate::kube::{KubeletServer, RunningKubelet};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

const PORT: u16 = 10250;
const CERT_DIR: &str = "/var/lib/kubelet/pki";
/// Given by the cluster, and made by itself (`pkg/kubelet/certificate`, `cmd/kubelet/app/server.go`).
const CERTIFICATES: [&str; 2] = ["kubelet-server-current.pem", "kubelet.crt"];

/// What its file says of that.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Served {
    address: Option<String>,
    port: Option<u16>,
    tls_cert_file: Option<PathBuf>,
}

impl Served {
    /// Later files win over earlier ones. What cannot be read is told elsewhere.
    fn of(running: &RunningKubelet) -> Self {
        let flags = &running.flags;
        let drop_ins = flags.config_dir.iter();
        let drop_ins = drop_ins.flat_map(|dir| running.drop_ins(dir).unwrap_or_default());
        let mut served = Self::default();
        for file in flags.config.iter().cloned().chain(drop_ins) {
            let text = running.read(&file).unwrap_or_default();
            let over: Self = serde_saphyr::from_str(&text).unwrap_or_default();
            served = Self {
                address: over.address.or(served.address),
                port: over.port.or(served.port),
                tls_cert_file: over.tls_cert_file.or(served.tls_cert_file),
            };
        }
        served
    }
}

/// `None`: its certificate is not to be seen here, or what name is in it. `node`: its node's name, if that is known.
pub fn server_of(running: &RunningKubelet, node: Option<&str>) -> Option<KubeletServer> {
    let flags = &running.flags;
    let served = Served::of(running);
    let port = flags.port.as_ref().and_then(|port| port.parse().ok());
    let certificate = flags.tls_cert_file.clone().or(served.tls_cert_file);
    let files = match certificate.filter(|path| path != Path::new("")) {
        Some(given) => vec![given],
        None => {
            let dir = flags.cert_dir.clone().unwrap_or_else(|| CERT_DIR.into());
            CERTIFICATES.map(|name| dir.join(name)).into()
        }
    };
    let certificates: String = files
        .iter()
        .filter_map(|file| running.read(file).ok())
        .collect();
    let address = flags.address.clone().or(served.address);
    let name = flags.hostname_override.as_deref().or(node)?;
    (!certificates.is_empty()).then(|| KubeletServer {
        address: address_of(address.as_deref(), flags.node_ip.as_deref()),
        port: port.or(served.port).unwrap_or(PORT),
        name: name.to_lowercase(),
        certificates,
    })
}

/// Where it listens at all addresses, the node's own; on the node itself any of them would do.
fn address_of(listening: Option<&str>, node: Option<&str>) -> IpAddr {
    let is_one = |address: &IpAddr| !address.is_unspecified();
    let node = node.and_then(|all| all.split(',').next());
    let mut named = [listening, node].into_iter().flatten();
    let one = named.find_map(|text| text.parse().ok().filter(is_one));
    one.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let process = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = process.path().join("root").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "k.yaml",
            "address: 0.0.0.0\nport: 1\ntlsCertFile: /tls.crt\n",
        );
        write("k.d/1.conf", "port: 2\n");
        write("other.yaml", "address: 10.0.0.9\n");
        write("tls.crt", "T");
        write("pki/kubelet.crt", "S");
        write("pki/kubelet-server-current.pem", "C");
        let running = RunningKubelet::for_tests(process.path(), line);
        let found = server_of(&running, Some("Node"))?;
        Some(format!("{found} {} {}", found.name, found.certificates))
    }

    #[test]
    fn flags_win_over_files_and_where_it_listens_everywhere_it_is_asked_on_its_node() {
        for (line, found) in [
            (
                "--config=/k.yaml",
                Some("https://127.0.0.1:1/configz node T"),
            ),
            (
                "--config=/k.yaml --config-dir=/k.d --node-ip=10.0.0.5,fd00::5 --hostname-override=n",
                Some("https://10.0.0.5:2/configz n T"),
            ),
            (
                "--config=/other.yaml --cert-dir=/pki --port=3",
                Some("https://10.0.0.9:3/configz node CS"),
            ),
            (
                "--address=:: --node-ip=fd00::5 --tls-cert-file=/pki/kubelet.crt",
                Some("https://[fd00::5]:10250/configz node S"),
            ),
            ("--cert-dir=/none", None),
        ] {
            assert_eq!(of(line).as_deref(), found, "{line}");
        }
    }
}

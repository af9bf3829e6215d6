//! What the kubelet has in force, by its own word: its `/configz`, asked of itself with our account's token. Through the API server
//! that would take the right to get `nodes/proxy`, which lets its owner run programs in every pod; here `nodes/configz` is enough
//! (KubeletFineGrainedAuthz, on by default since Kubernetes 1.33).

use super::cluster::{ClusterError, config};
use crate::sys::causes::causes;
use kube::{Client, Config, Error};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// It answers from its memory.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where the kubelet listens, and who it proves to be.
#[derive(Debug, Clone)]
pub struct KubeletServer {
    pub address: IpAddr,
    pub port: u16,
    /// In its certificate.
    pub name: String,
    /// That certificate with those of its authority, in PEM, as the kubelet reads it itself: whoever else listens there has no
    /// such key, and is not given our token.
    pub certificates: String,
}

impl std::fmt::Display for KubeletServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = std::net::SocketAddr::new(self.address, self.port);
        write!(f, "https://{place}/configz")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigzError {
    /// Outside of a pod, and no file says who we are.
    #[error("there is no account to ask with")]
    NoAccount,
    #[error(transparent)]
    Account(ClusterError),
    #[error(
        "the right to get nodes/configz is missing: bind the ClusterRole of rbac.yaml, which comes with the manifests, to this account (kubelets before 1.32 do not know it)"
    )]
    Forbidden,
    #[error("{0}")]
    Failed(String),
    #[error("no answer within {} s", .0.as_secs())]
    NoAnswer(Duration),
}

/// As text. `kubeconfig`: who we are, else the pod's service account.
pub fn configz(server: &KubeletServer, kubeconfig: Option<&Path>) -> Result<String, ConfigzError> {
    let failed = |error: std::io::Error| ConfigzError::Failed(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let asked = tokio::time::timeout(PATIENCE, ask(server, kubeconfig)).await;
        asked.unwrap_or(Err(ConfigzError::NoAnswer(PATIENCE)))
    })
}

async fn ask(server: &KubeletServer, kubeconfig: Option<&Path>) -> Result<String, ConfigzError> {
    let ours = config(kubeconfig).await.map_err(|error| match error {
        ClusterError::ServiceAccount(_) => ConfigzError::NoAccount,
        error => ConfigzError::Account(error),
    })?;
    let client = Client::try_from(of_kubelet(ours, server)?).map_err(told)?;
    let question = http::Request::get("/configz").body(Vec::new());
    let question = question.map_err(|error| ConfigzError::Failed(error.to_string()))?;
    client.request_text(question).await.map_err(told)
}

/// The same account, another server.
fn of_kubelet(ours: Config, server: &KubeletServer) -> Result<Config, ConfigzError> {
    let failed = |error: &dyn std::fmt::Display| ConfigzError::Failed(error.to_string());
    let place = std::net::SocketAddr::new(server.address, server.port);
    let url = format!("https://{place}").parse();
    // A kubelet's certificate may be the cluster's.
    let file = ours.root_cert_file.as_ref();
    let cluster = file.map(std::fs::read_to_string).transpose();
    let cluster = cluster.map_err(|error| failed(&error))?.unwrap_or_default();
    let mut trusted = ours.root_cert.clone().unwrap_or_default();
    for certificates in [&server.certificates, &cluster] {
        for certificate in CertificateDer::pem_slice_iter(certificates.as_bytes()) {
            let certificate = certificate.map_err(|error| failed(&error))?;
            trusted.push(certificate.to_vec());
        }
    }
    let mut config = Config::new(url.map_err(|error| failed(&error))?);
    config.auth_info = ours.auth_info;
    config.root_cert = Some(trusted);
    config.tls_server_name = Some(server.name.clone());
    Ok(config)
}

fn told(error: Error) -> ConfigzError {
    match &error {
        // In words, not as an object of the API.
        Error::Api(status) if status.code == 403 => ConfigzError::Forbidden,
        error => ConfigzError::Failed(causes(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(certificates: &str) -> KubeletServer {
        KubeletServer {
            address: IpAddr::from([127, 0, 0, 1]),
            port: 10250,
            name: "n".to_owned(),
            certificates: certificates.to_owned(),
        }
    }

    #[test]
    fn the_kubelet_has_to_prove_itself_even_where_the_api_server_need_not() {
        let mut ours = Config::new("https://api.example:6443".parse().unwrap());
        ours.accept_invalid_certs = true;
        ours.auth_info.username = Some("u".to_owned());
        ours.root_cert = Some(vec![vec![1]]);
        let pem = "-----BEGIN CERTIFICATE-----\nAgM=\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nBAU=\n-----END PRIVATE KEY-----\n";
        let config = of_kubelet(ours, &server(&format!("{key}{pem}"))).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:10250/");
        assert!(!config.accept_invalid_certs && config.root_cert_file.is_none());
        assert_eq!(config.root_cert, Some(vec![vec![1], vec![2, 3]]));
        assert_eq!(config.tls_server_name.as_deref(), Some("n"));
        assert_eq!(config.auth_info.username.as_deref(), Some("u"));
    }
}

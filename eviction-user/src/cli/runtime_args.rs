//! The container runtime of this node, asked where it keeps images and writable layers.

use crate::config::PodsLayout;
use crate::cri::{self, Answer, CriError};
use crate::kube::RunningKubelet;
use crate::sys::distant::Opening;
use crate::sys::filesystem::FileSystem;
use crate::sys::process_root::hold;
use clap::Args;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// How long the runtime may take: it answers from its memory.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct RuntimeArgs {
    /// The container runtime's socket, as in unix:///run/containerd/containerd.sock: the runtime says where
    /// images and writable layers lie. [default: the kubelet's imageServiceEndpoint, else its
    /// containerRuntimeEndpoint]
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    container_runtime_endpoint: Option<String>,
}

/// What is no address at all is wrong input; a socket that is silent or not there yet is waited for.
fn endpoint(given: &str) -> Result<String, CriError> {
    cri::socket_of(given).map(|_| given.to_owned())
}

impl RuntimeArgs {
    pub(super) fn is_given(&self) -> bool {
        self.container_runtime_endpoint.is_some()
    }

    /// `node`: whose kubelet it works for.
    pub(super) fn runtime(&self, layout: &PodsLayout, node: Option<&str>) -> Runtime {
        let (endpoint, by) = match &self.container_runtime_endpoint {
            Some(given) => (given.clone(), "--container-runtime-endpoint".to_owned()),
            None => {
                let decided = &layout.runtime;
                (decided.value.clone(), decided.origin.to_string())
            }
        };
        Runtime {
            endpoint,
            by,
            node: node.map(str::to_owned),
        }
    }
}

/// Whom to ask.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    endpoint: String,
    /// Who says that it is there.
    by: String,
    node: Option<String>,
}

impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.endpoint, self.by)
    }
}

/// What it has said, and what is there.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) images: FileSystem,
    pub(super) containers: Option<FileSystem>,
}

impl Told {
    pub(super) fn name(&self) -> &str {
        self.answer
            .runtime
            .as_deref()
            .unwrap_or("the image service")
    }
}

impl Runtime {
    /// Not before its patience has ended; never to be called by the thread that decides.
    pub(super) fn ask(&self) -> Result<Told, String> {
        let answer = self.answer().map_err(|error| error.to_string())?;
        let images = there(&answer.images)?;
        let containers = answer.containers.as_deref().map(there).transpose()?;
        Ok(Told {
            answer,
            images,
            containers,
        })
    }

    fn answer(&self) -> Result<Answer, CriError> {
        let path = cri::socket_of(&self.endpoint)?;
        // In a pod only the kubelet may have a socket of that name. It is looked for anew each time: it may have been restarted.
        let held = match RunningKubelet::find(self.node.as_deref()) {
            Ok(kubelet) => kubelet.hold(path),
            Err(_) => hold(path),
        };
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let socket = held.map_err(named).map_err(CriError::Socket)?;
        cri::ask(socket.as_fd(), PATIENCE)
    }
}

/// What the runtime names is on the node, and in a container only what is mounted there.
fn there(path: &Path) -> Result<FileSystem, String> {
    Opening::start(path).wait().map_err(|error| {
        format!(
            "it keeps them in {}, but {error}; mount it here",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_of_a_socket_is_wrong_input() {
        let socket = "unix:///run/containerd/containerd.sock";
        assert_eq!(endpoint(socket).unwrap(), socket);
        assert_eq!(endpoint("/run/crio.sock").unwrap(), "/run/crio.sock");
        for wrong in ["tcp://1.2.3.4:5", "containerd.sock", ""] {
            let error = endpoint(wrong).unwrap_err().to_string();
            assert!(
                error.contains("is not the address of a unix socket"),
                "{error}"
            );
        }
    }
}

//! The container runtime of this node, asked where it keeps images and writable layers.

use crate::config::{PodsLayout, Sourced};
use crate::cri::{self, Answer, CriError, Sockets};
use crate::kube::RunningKubelet;
use crate::sys::distant::Opening;
use crate::sys::filesystem::FileSystem;
use crate::sys::process_root::hold;
use clap::Args;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// How long the runtime may take: it answers from its memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where containerd, CRI-O and cri-dockerd have their sockets unless they are told otherwise.
const USUAL: [&str; 3] = [
    "unix:///run/containerd/containerd.sock",
    "unix:///var/run/crio/crio.sock",
    "unix:///run/cri-dockerd.sock",
];

#[derive(Debug, Args)]
pub(super) struct RuntimeArgs {
    /// The container runtime's socket, as in unix:///run/containerd/containerd.sock: the runtime says where
    /// images and writable layers lie, and removes what nobody needs. [default: the kubelet's
    /// containerRuntimeEndpoint, for images its imageServiceEndpoint if it has one; if nothing is known of
    /// the kubelet, the usual one of containerd, CRI-O or cri-dockerd]
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

    /// Where images are. `node`: whose kubelet it works for.
    pub(super) fn runtime(&self, layout: &PodsLayout, node: Option<&str>) -> Runtime {
        self.at(&layout.runtime, node)
    }

    /// Where containers are, with where images are if that is elsewhere.
    pub(super) fn services(
        &self,
        layout: &PodsLayout,
        node: Option<&str>,
    ) -> (Runtime, Option<Runtime>) {
        let containers = self.at(&layout.containers, node);
        let images = self.at(&layout.runtime, node);
        let is_apart = images.endpoints != containers.endpoints;
        (containers, is_apart.then_some(images))
    }

    fn at(&self, decided: &Sourced<String>, node: Option<&str>) -> Runtime {
        let (endpoints, by) = match &self.container_runtime_endpoint {
            Some(given) => (
                vec![given.clone()],
                "--container-runtime-endpoint".to_owned(),
            ),
            None if decided.origin.is_default() => {
                let others = USUAL.into_iter().map(str::to_owned);
                let others = others.filter(|usual| *usual != decided.value);
                let all = [decided.value.clone()].into_iter().chain(others);
                (all.collect(), decided.origin.to_string())
            }
            None => (vec![decided.value.clone()], decided.origin.to_string()),
        };
        Runtime {
            endpoints,
            by,
            node: node.map(str::to_owned),
        }
    }
}

/// Whom to ask.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    /// The first one that is there.
    endpoints: Vec<String>,
    /// Who says that it is there.
    by: String,
    node: Option<String>,
}

impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.endpoints.join(" or "), self.by)
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
        cri::ask(self.hold()?.as_fd(), PATIENCE)
    }

    /// Its socket, held open by its name.
    pub(super) fn hold(&self) -> Result<OwnedFd, CriError> {
        // In a pod only the kubelet may have a socket of that name. It is looked for anew each time: it may have been restarted.
        let kubelet = RunningKubelet::find(self.node.as_deref());
        let held = |endpoint: &String| {
            let path = cri::socket_of(endpoint)?;
            let held = match &kubelet {
                Ok(kubelet) => kubelet.hold(path),
                Err(_) => hold(path),
            };
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            held.map_err(named).map_err(CriError::Socket)
        };
        let mut first = None;
        for endpoint in &self.endpoints {
            match held(endpoint) {
                Ok(socket) => return Ok(socket),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| CriError::NoSocket(String::new())))
    }
}

/// Both sockets, for who is to remove something there.
pub(super) fn sockets(containers: &Runtime, images: Option<&Runtime>) -> Result<Sockets, CriError> {
    Ok(Sockets {
        containers: containers.hold()?,
        images: images.map(Runtime::hold).transpose()?,
    })
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
    fn the_usual_sockets_are_tried_only_where_nobody_names_one() {
        let args = RuntimeArgs {
            container_runtime_endpoint: None,
        };
        let nobody = Sourced {
            value: USUAL[0].to_owned(),
            origin: crate::config::Origin::Default,
        };
        let runtime = args.at(&nobody, None);
        assert_eq!(runtime.endpoints, USUAL);
        let said = runtime.to_string();
        assert!(
            said.contains("crio.sock or unix:///run/cri-dockerd.sock"),
            "{said}"
        );
        let named = Sourced {
            value: "/k.sock".to_owned(),
            origin: crate::config::Origin::Configz,
        };
        assert_eq!(args.at(&named, None).endpoints, ["/k.sock"]);
        let args = RuntimeArgs {
            container_runtime_endpoint: Some("/given.sock".to_owned()),
        };
        assert_eq!(args.at(&nobody, None).endpoints, ["/given.sock"]);
    }

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

//! What the runtime has.

use super::ask::CriError;
use super::call::{call, connect, refused};
use super::messages::{
    Container, ContainerStatusResponse, Empty, Image, ListContainersResponse, ListImagesResponse,
    ListPodSandboxResponse, OfOne, PodSandbox, PodSandboxStatusResponse, SANDBOX_READY,
};
use super::reclaim::Sockets;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// For a question, which the runtime answers from its memory.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const LIST_CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";
const LIST_SANDBOXES: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
const CONTAINER_STATUS: &str = "/runtime.v1.RuntimeService/ContainerStatus";
const SANDBOX_STATUS: &str = "/runtime.v1.RuntimeService/PodSandboxStatus";
const LIST_IMAGES: &str = "/runtime.v1.ImageService/ListImages";

/// The runtime's two services, which may be two processes.
pub(super) struct Runtime {
    pub(super) containers: Channel,
    pub(super) images: Channel,
}

impl Runtime {
    pub(super) async fn open(sockets: &Sockets) -> Result<Self, CriError> {
        let containers = within(connect(sockets.containers.as_fd())).await?;
        let images = match &sockets.images {
            Some(apart) => within(connect(apart.as_fd())).await?,
            None => containers.clone(),
        };
        Ok(Self { containers, images })
    }

    pub(super) async fn containers(&self) -> Result<Vec<Container>, CriError> {
        let told: ListContainersResponse = ask(&self.containers, LIST_CONTAINERS, Empty {}).await?;
        Ok(told.containers)
    }

    pub(super) async fn sandboxes(&self) -> Result<Vec<PodSandbox>, CriError> {
        let told: ListPodSandboxResponse = ask(&self.containers, LIST_SANDBOXES, Empty {}).await?;
        Ok(told.items)
    }

    pub(super) async fn images(&self) -> Result<Vec<Image>, CriError> {
        let told: ListImagesResponse = ask(&self.images, LIST_IMAGES, Empty {}).await?;
        Ok(told.images)
    }

    /// By whatever name: of containers in any state, of their volumes that are images, and of sandboxes (the pause image, which
    /// a runtime pins only where its own configuration names it).
    pub(super) async fn used(
        &self,
        containers: &[Container],
        sandboxes: &[PodSandbox],
    ) -> Result<BTreeSet<String>, CriError> {
        let mut used = BTreeSet::new();
        for container in containers {
            used.extend(names_of(container));
            used.extend(self.image_volumes(&container.id).await?);
        }
        for sandbox in sandboxes.iter().filter(|one| one.state == SANDBOX_READY) {
            used.extend(self.image_of_sandbox(&sandbox.id).await?);
        }
        Ok(used)
    }

    async fn image_volumes(&self, container: &str) -> Result<Vec<String>, CriError> {
        let question = OfOne {
            id: container.to_owned(),
            verbose: false,
        };
        let told =
            ask_of_one::<ContainerStatusResponse>(&self.containers, CONTAINER_STATUS, question)
                .await?;
        let mounts = told
            .and_then(|told| told.status)
            .map(|status| status.mounts);
        let images = mounts.into_iter().flatten().filter_map(|mount| mount.image);
        Ok(images.map(|spec| spec.image).collect())
    }

    /// As containerd and CRI-O tell it to whoever asks for more than the standard has.
    async fn image_of_sandbox(&self, sandbox: &str) -> Result<Option<String>, CriError> {
        let question = OfOne {
            id: sandbox.to_owned(),
            verbose: true,
        };
        let told =
            ask_of_one::<PodSandboxStatusResponse>(&self.containers, SANDBOX_STATUS, question)
                .await?;
        let info = told.and_then(|told| told.info.get("info").cloned());
        let info: Option<serde_json::Value> =
            info.and_then(|info| serde_json::from_str(&info).ok());
        let image = info.and_then(|info| Some(info.get("image")?.as_str()?.to_owned()));
        Ok(image.filter(|name| !name.is_empty()))
    }
}

/// The names of its image: runtimes differ in which of them they fill.
pub(super) fn names_of(container: &Container) -> impl Iterator<Item = String> {
    let asked_for = container.image.iter().map(|spec| spec.image.clone());
    [container.image_id.clone(), container.image_ref.clone()]
        .into_iter()
        .chain(asked_for)
        .filter(|name| !name.is_empty())
}

/// `None`: it is gone by now.
async fn ask_of_one<A: prost::Message + Default + 'static>(
    channel: &Channel,
    path: &'static str,
    question: OfOne,
) -> Result<Option<A>, CriError> {
    within(async {
        match call(channel, path, question).await {
            Ok(told) => Ok(Some(told)),
            Err(status) if is_gone(&status) => Ok(None),
            Err(status) => Err(refused(status)),
        }
    })
    .await
}

async fn ask<A: prost::Message + Default + 'static>(
    channel: &Channel,
    path: &'static str,
    question: Empty,
) -> Result<A, CriError> {
    within(async { call(channel, path, question).await.map_err(refused) }).await
}

async fn within<T>(asked: impl Future<Output = Result<T, CriError>>) -> Result<T, CriError> {
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.unwrap_or(Err(CriError::NoAnswer(PATIENCE)))
}

pub(super) fn is_gone(status: &Status) -> bool {
    status.code() == Code::NotFound
}

/// How much there is that might be removed, for whoever wants to know whether the runtime can be asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inventory {
    pub containers: usize,
    pub images: usize,
}

/// Waits for some seconds at most.
pub fn take_stock(sockets: &Sockets) -> Result<Inventory, CriError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CriError::Socket)?;
    runtime.block_on(async {
        let asked = Runtime::open(sockets).await?;
        Ok(Inventory {
            containers: asked.containers().await?.len(),
            images: asked.images().await?.len(),
        })
    })
}

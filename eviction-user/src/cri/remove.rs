//! Removing, one after the other, within a time.

use super::ask::CriError;
use super::call::{call, refused};
use super::messages::{Container, Empty, Image, ImageSpec, OfOne, PodSandbox, RemoveImageRequest};
use super::survey::{Runtime, is_gone};
use crate::ports::Removed;
use bytesize::ByteSize;
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::transport::Channel;

/// For one removal: the layers of a big image are deleted before the answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

const REMOVE_CONTAINER: &str = "/runtime.v1.RuntimeService/RemoveContainer";
const STOP_SANDBOX: &str = "/runtime.v1.RuntimeService/StopPodSandbox";
const REMOVE_SANDBOX: &str = "/runtime.v1.RuntimeService/RemovePodSandbox";
const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";

/// What has been removed so far, and what has not been.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Nothing is removed, only counted.
    pub(super) is_dry: bool,
    pub(super) removed: Removed,
    /// Containers that would be gone by now, in a dry run.
    pub(super) would_be_gone: BTreeSet<String>,
    tried: usize,
    failed: usize,
    /// The first failure.
    why: Option<String>,
}

impl Done {
    pub(super) fn begin(is_dry: bool) -> Self {
        Self {
            is_dry,
            ..Self::default()
        }
    }

    /// `Err`: how many failed, and why the first one did.
    pub(super) fn failures(&self) -> Result<(), String> {
        match &self.why {
            None => Ok(()),
            Some(why) => Err(format!(
                "{} of {} could not be removed, the first: {why}",
                self.failed, self.tried
            )),
        }
    }

    pub(super) async fn container(
        &mut self,
        runtime: &Runtime,
        one: &Container,
    ) -> Result<(), CriError> {
        let question = of(&one.id);
        let channel = &runtime.containers;
        if self
            .step(channel, REMOVE_CONTAINER, question, || {
                format!("container {}", one.id)
            })
            .await?
        {
            self.removed.containers += 1;
            if self.is_dry {
                self.would_be_gone.insert(one.id.clone());
            }
        }
        Ok(())
    }

    /// Stopped first, as the kubelet does: what it has of the network is given back only then.
    pub(super) async fn sandbox(
        &mut self,
        runtime: &Runtime,
        one: &PodSandbox,
    ) -> Result<(), CriError> {
        let channel = &runtime.containers;
        let name = || format!("sandbox {}", one.id);
        if self.step(channel, STOP_SANDBOX, of(&one.id), name).await? {
            self.tried -= 1;
            if self
                .step(channel, REMOVE_SANDBOX, of(&one.id), name)
                .await?
            {
                self.removed.sandboxes += 1;
            }
        }
        Ok(())
    }

    pub(super) async fn image(&mut self, runtime: &Runtime, one: &Image) -> Result<(), CriError> {
        let name = one.tags.first().or(one.digests.first()).unwrap_or(&one.id);
        // By its id: all its names go.
        let question = RemoveImageRequest {
            image: Some(ImageSpec {
                image: one.id.clone(),
            }),
        };
        let channel = &runtime.images;
        if self
            .step(channel, REMOVE_IMAGE, question, || format!("image {name}"))
            .await?
        {
            self.removed.images += 1;
            self.removed.image_bytes += one.size;
            let what = if self.is_dry {
                "would be removed"
            } else {
                "was removed"
            };
            tracing::info!("unused image {name} ({}) {what}", ByteSize::b(one.size));
        }
        Ok(())
    }

    /// `false`: not by us. `Err`: there is no answer, so none is to be expected to the next question either.
    async fn step<Q>(
        &mut self,
        channel: &Channel,
        path: &'static str,
        question: Q,
        name: impl Fn() -> String,
    ) -> Result<bool, CriError>
    where
        Q: prost::Message + Send + Sync + 'static,
    {
        self.tried += 1;
        if self.is_dry {
            return Ok(true);
        }
        let answer = tokio::time::timeout(PATIENCE, call::<Q, Empty>(channel, path, question));
        match answer.await {
            Err(_) => Err(CriError::NoAnswer(PATIENCE)),
            Ok(Ok(Empty {})) => Ok(true),
            // The kubelet was faster.
            Ok(Err(status)) if is_gone(&status) => Ok(false),
            Ok(Err(status)) => {
                self.failed += 1;
                self.why
                    .get_or_insert_with(|| format!("{}: {}", name(), refused(status)));
                Ok(false)
            }
        }
    }
}

fn of(id: &str) -> OfOne {
    OfOne {
        id: id.to_owned(),
        verbose: false,
    }
}

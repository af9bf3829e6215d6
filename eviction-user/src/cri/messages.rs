//! The few messages of the Container Runtime Interface that are needed, by hand: `runtime.v1` of
//! `k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`, whose numbers never change. Fields that nobody here reads are left out.

use std::collections::BTreeMap;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VersionRequest {
    /// Of the kubelet's API; runtimes ignore it.
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(super) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(super) runtime_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ImageFsInfoRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) image_filesystems: Vec<FilesystemUsage>,
    /// Of writable layers; empty where they lie with the images.
    #[prost(message, repeated, tag = "2")]
    pub(super) container_filesystems: Vec<FilesystemUsage>,
}

/// What is used there is counted by ourselves.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FilesystemUsage {
    #[prost(message, optional, tag = "2")]
    pub(super) fs_id: Option<FilesystemIdentifier>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FilesystemIdentifier {
    /// A directory on it, whatever its name says.
    #[prost(string, tag = "1")]
    pub(super) mountpoint: String,
}

/// Of a list: all of them; of a removal: nothing more is said.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) containers: Vec<Container>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) sandbox: String,
    #[prost(message, optional, tag = "3")]
    pub(super) metadata: Option<ContainerMetadata>,
    /// As it was asked for.
    #[prost(message, optional, tag = "4")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub(super) image_ref: String,
    #[prost(int32, tag = "6")]
    pub(super) state: i32,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "7")]
    pub(super) created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(string, tag = "10")]
    pub(super) image_id: String,
}

/// `ContainerState`.
pub(super) const CONTAINER_EXITED: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ContainerMetadata {
    /// As the pod names it.
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub(super) created_at: i64,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `PodSandboxState`.
pub(super) const SANDBOX_READY: i32 = 0;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) images: Vec<Image>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Image {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub(super) size: u64,
    #[prost(bool, tag = "8")]
    pub(super) pinned: bool,
}

/// What a request about one container or sandbox has: its id.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OfOne {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    /// Of a status: more than is standardized, too.
    #[prost(bool, tag = "2")]
    pub(super) verbose: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ContainerStatus {
    #[prost(message, repeated, tag = "14")]
    pub(super) mounts: Vec<Mount>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Mount {
    /// Of a volume that is an image.
    #[prost(message, optional, tag = "9")]
    pub(super) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PodSandboxStatusResponse {
    /// The runtime's own JSON, by names that it chooses.
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RemoveImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
}

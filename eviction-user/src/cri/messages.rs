//! The few messages of the Container Runtime Interface that are needed, by hand: `runtime.v1` of
//! `k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`, whose numbers never change. Fields that nobody here reads are left out.

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

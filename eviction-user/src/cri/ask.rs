//! One question, one answer.

use super::messages::{
    FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, VersionRequest, VersionResponse,
};
use std::error::Error;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

const IMAGE_FS_INFO: &str = "/runtime.v1.ImageService/ImageFsInfo";
const VERSION: &str = "/runtime.v1.RuntimeService/Version";

/// Where the runtime keeps what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its name and version; `None`: only images are served there.
    pub runtime: Option<String>,
    pub images: PathBuf,
    /// Writable layers, where the runtime names a place for them; `None`: with the images.
    pub containers: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum CriError {
    #[error(
        "{0:?} is not the address of a unix socket, as in unix:///run/containerd/containerd.sock"
    )]
    NoSocket(String),
    #[error("its socket cannot be reached: {0}")]
    Socket(io::Error),
    #[error("it does not take the connection: {0}")]
    Connection(String),
    #[error("it does not answer within {} s", .0.as_secs())]
    NoAnswer(Duration),
    #[error("it does not speak runtime.v1 of the Container Runtime Interface (CRI)")]
    NoCri,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("it names no file system for its images")]
    NoImageFs,
    #[error("it says {0:?}, which is no absolute path")]
    NoPath(String),
}

/// The socket that an endpoint of the kubelet's means: `unix:///PATH`, or as it was written once, the path alone.
pub fn socket_of(endpoint: &str) -> Result<&Path, CriError> {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    let path = Path::new(path);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(CriError::NoSocket(endpoint.to_owned()))
}

/// `socket`: held open by its name (`O_PATH`), as whoever found it sees it. Waits for `patience` at most.
pub fn ask(socket: BorrowedFd<'_>, patience: Duration) -> Result<Answer, CriError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CriError::Socket)?;
    runtime.block_on(async {
        let asked = tokio::time::timeout(patience, answer(socket)).await;
        asked.unwrap_or(Err(CriError::NoAnswer(patience)))
    })
}

async fn answer(socket: BorrowedFd<'_>) -> Result<Answer, CriError> {
    // A name of its own, so that a socket with a long path can be reached, too, and one that only another process has.
    let name = format!("unix:///proc/self/fd/{}", socket.as_raw_fd());
    let connection = async { Endpoint::from_shared(name)?.connect().await };
    let channel = connection
        .await
        .map_err(|error| CriError::Connection(innermost(&error)))?;
    let info: ImageFsInfoResponse = call(&channel, IMAGE_FS_INFO, ImageFsInfoRequest {})
        .await
        .map_err(refused)?;
    let asked = VersionRequest {
        version: "v1".to_owned(),
    };
    let version: Result<VersionResponse, _> = call(&channel, VERSION, asked).await;
    let version = version.ok().filter(|told| !told.runtime_name.is_empty());
    Ok(Answer {
        runtime: version.map(|told| format!("{} {}", told.runtime_name, told.runtime_version)),
        images: first(&info.image_filesystems)?.ok_or(CriError::NoImageFs)?,
        containers: first(&info.container_filesystems)?,
    })
}

/// The one that the kubelet takes, too.
fn first(usages: &[FilesystemUsage]) -> Result<Option<PathBuf>, CriError> {
    let named = usages.iter().find_map(|usage| usage.fs_id.as_ref());
    let Some(id) = named else {
        return Ok(None);
    };
    let path = PathBuf::from(&id.mountpoint);
    if path.is_absolute() {
        return Ok(Some(path));
    }
    Err(CriError::NoPath(id.mountpoint.clone()))
}

async fn call<Q, A>(channel: &Channel, path: &'static str, question: Q) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = Grpc::new(channel.clone());
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(innermost(&error)))?;
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(question), path, ProstCodec::<Q, A>::default());
    answer.await.map(tonic::Response::into_inner)
}

fn refused(status: Status) -> CriError {
    match status.code() {
        Code::Unimplemented => CriError::NoCri,
        code => CriError::Refused(format!("{} ({code:?})", status.message())),
    }
}

/// What really happened; the outer ones say only that something did.
fn innermost(error: &dyn Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

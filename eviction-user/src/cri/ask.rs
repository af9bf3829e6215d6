//! One question, one answer.

use super::call::{call, connect, refused};
use super::messages::{
    FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, VersionRequest, VersionResponse,
};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    let channel = connect(socket).await?;
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

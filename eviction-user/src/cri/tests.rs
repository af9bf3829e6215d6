//! Against a real gRPC server on a unix socket.

use super::messages::{
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest, ImageFsInfoResponse, VersionRequest,
    VersionResponse,
};
use super::{Answer, CriError, ask, socket_of};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use rustix::fs::{Mode, OFlags, open};
use std::future::{Ready, ready};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::server::{Grpc, UnaryService};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

mod reclaim;

const PATIENCE: Duration = Duration::from_secs(10);

/// Says the same to everybody.
#[derive(Clone)]
struct Saying<A>(Result<A, Status>);

impl<Q, A: Clone> UnaryService<Q> for Saying<A> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, _: tonic::Request<Q>) -> Self::Future {
        ready(self.0.clone().map(Response::new))
    }
}

struct Runtime {
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// `version`: `None`: another process serves that.
    fn saying(info: Result<ImageFsInfoResponse, Status>, version: Option<VersionResponse>) -> Self {
        let mut router = Router::new().route(
            "/runtime.v1.ImageService/ImageFsInfo",
            post(async move |request: Request| {
                let codec = ProstCodec::<ImageFsInfoResponse, ImageFsInfoRequest>::default();
                Grpc::new(codec).unary(Saying(info), request).await
            }),
        );
        if let Some(version) = version {
            router = router.route(
                "/runtime.v1.RuntimeService/Version",
                post(async move |request: Request| {
                    let codec = ProstCodec::<VersionResponse, VersionRequest>::default();
                    Grpc::new(codec).unary(Saying(Ok(version)), request).await
                }),
            );
        }
        Self::serving(router)
    }

    fn serving(router: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runtime.sock");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = {
            let _within = runtime.enter();
            UnixListener::bind(path).unwrap()
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let server = Server::builder().add_routes(Routes::from(router));
            let served = server.serve_with_incoming(UnixListenerStream::new(listener));
            runtime.block_on(async {
                tokio::select! {
                    ended = served => ended.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            folder,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn socket(&self) -> OwnedFd {
        held(&self.folder.path().join("runtime.sock"))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()));
    }
}

fn held(path: &Path) -> OwnedFd {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn info(images: &[&str], containers: &[&str]) -> ImageFsInfoResponse {
    let usages = |paths: &[&str]| {
        let usage = |path: &&str| FilesystemUsage {
            fs_id: Some(FilesystemIdentifier {
                mountpoint: (*path).to_owned(),
            }),
        };
        paths.iter().map(usage).collect()
    };
    ImageFsInfoResponse {
        image_filesystems: usages(images),
        container_filesystems: usages(containers),
    }
}

fn asked(
    info: Result<ImageFsInfoResponse, Status>,
    version: Option<VersionResponse>,
) -> Result<Answer, String> {
    let runtime = Runtime::saying(info, version);
    ask(runtime.socket().as_fd(), PATIENCE).map_err(|error| error.to_string())
}

#[test]
fn the_first_of_each_kind_counts_as_for_the_kubelet() {
    let version = VersionResponse {
        runtime_name: "containerd".to_owned(),
        runtime_version: "v2.4.2".to_owned(),
    };
    let answer = asked(Ok(info(&["/images", "/more"], &[])), Some(version)).unwrap();
    let expected = Answer {
        runtime: Some("containerd v2.4.2".to_owned()),
        images: PathBuf::from("/images"),
        containers: None,
    };
    assert_eq!(answer, expected);
    // An image service apart from the runtime has no version of it.
    let answer = asked(Ok(info(&["/images"], &["/layers", "/more"])), None).unwrap();
    assert_eq!(answer.runtime, None);
    assert_eq!(answer.containers, Some(PathBuf::from("/layers")));
}

#[test]
fn what_is_no_answer_says_why() {
    for (told, said) in [
        (Ok(info(&[], &[])), "names no file system"),
        (
            Ok(info(&["images"], &[])),
            "\"images\", which is no absolute path",
        ),
        (Err(Status::unimplemented("")), "does not speak runtime.v1"),
        (
            Err(Status::internal("no snapshotter")),
            "refuses: no snapshotter (Internal)",
        ),
    ] {
        let error = asked(told, None).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn nobody_waits_for_a_runtime_that_hangs_or_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deaf.sock");
    let deaf = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let brief = Duration::from_millis(300);
    let error = ask(held(&path).as_fd(), brief).unwrap_err();
    assert!(matches!(error, CriError::NoAnswer(_)), "{error}");
    drop(deaf);
    let error = ask(held(&path).as_fd(), PATIENCE).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Connection refused"), "{text}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = ask(held(&file).as_fd(), PATIENCE).unwrap_err();
    assert!(matches!(error, CriError::Connection(_)), "{error}");
}

#[test]
fn a_socket_is_named_as_kubelets_name_theirs() {
    for (endpoint, path) in [
        ("unix:///run/crio/crio.sock", "/run/crio/crio.sock"),
        ("/run/a.sock", "/run/a.sock"),
    ] {
        assert_eq!(socket_of(endpoint).unwrap(), Path::new(path));
    }
    for endpoint in [
        "",
        "tcp://127.0.0.1:1",
        "unix://run/a.sock",
        "npipe://./pipe/a",
    ] {
        let error = socket_of(endpoint).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{endpoint:?} is not the address")),
            "{error}"
        );
    }
}

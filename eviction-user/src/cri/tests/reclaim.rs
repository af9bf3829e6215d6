//! A runtime that has things, and loses them.

use super::{Runtime, held};
use crate::cri::messages::{
    CONTAINER_EXITED, Container, ContainerMetadata, ContainerStatus, ContainerStatusResponse,
    Empty, Image, ImageSpec, ListContainersResponse, ListImagesResponse, ListPodSandboxResponse,
    Mount, OfOne, PodSandbox, PodSandboxStatusResponse, RemoveImageRequest, SANDBOX_READY,
};
use crate::cri::{CriError, Inventory, RuntimeReclaim, Sockets, take_stock};
use crate::model::{ReclaimCall, Signal};
use crate::ports::{NodeReclaim, PodFate, ReclaimEnd, ReclaimOrder, ReclaimReport, Removed};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Default)]
struct State {
    containers: Vec<Container>,
    sandboxes: Vec<PodSandbox>,
    images: Vec<Image>,
    /// Images that are volumes, by container.
    volumes: BTreeMap<String, String>,
    /// What is not removed, and why.
    refused: BTreeMap<String, Code>,
    /// In the order in which it was asked for.
    asked: Vec<String>,
}

type Shared = Arc<Mutex<State>>;

impl State {
    fn asked(&mut self, what: &str, id: &str) -> Result<(), Status> {
        self.asked.push(format!("{what} {id}"));
        match self.refused.get(id) {
            Some(code) => Err(Status::new(*code, "no")),
            None => Ok(()),
        }
    }
}

struct Answering<F>(F);

impl<Q, A, F: Fn(Q) -> Result<A, Status>> UnaryService<Q> for Answering<F> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, question: tonic::Request<Q>) -> Self::Future {
        ready((self.0)(question.into_inner()).map(Response::new))
    }
}

fn route<Q, A>(
    router: Router,
    path: &str,
    state: &Shared,
    answer: fn(&mut State, Q) -> Result<A, Status>,
) -> Router
where
    Q: prost::Message + Default + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let state = Arc::clone(state);
    router.route(
        &format!("/runtime.v1.{path}"),
        post(async move |request: Request| {
            let answering = Answering(move |question| answer(&mut state.lock().unwrap(), question));
            Grpc::new(ProstCodec::<A, Q>::default())
                .unary(answering, request)
                .await
        }),
    )
}

fn serving(state: &Shared) -> Runtime {
    let mut router = Router::new();
    router = route(
        router,
        "RuntimeService/ListContainers",
        state,
        |s, _: Empty| {
            Ok(ListContainersResponse {
                containers: s.containers.clone(),
            })
        },
    );
    router = route(
        router,
        "RuntimeService/ListPodSandbox",
        state,
        |s, _: Empty| {
            Ok(ListPodSandboxResponse {
                items: s.sandboxes.clone(),
            })
        },
    );
    router = route(
        router,
        "RuntimeService/ContainerStatus",
        state,
        |s, of: OfOne| {
            let image = s.volumes.get(&of.id).cloned();
            let image = image.map(|image| ImageSpec { image });
            let mounts = vec![Mount { image }];
            Ok(ContainerStatusResponse {
                status: Some(ContainerStatus { mounts }),
            })
        },
    );
    router = route(
        router,
        "RuntimeService/PodSandboxStatus",
        state,
        |_, of: OfOne| {
            let text = r#"{"pid":1,"image":"pause:1"}"#.to_owned();
            let info = of.verbose.then(|| ("info".to_owned(), text));
            Ok(PodSandboxStatusResponse {
                info: info.into_iter().collect(),
            })
        },
    );
    router = route(
        router,
        "RuntimeService/RemoveContainer",
        state,
        |s, of: OfOne| {
            s.asked("remove", &of.id)?;
            s.containers.retain(|one| one.id != of.id);
            Ok(Empty {})
        },
    );
    router = route(
        router,
        "RuntimeService/StopPodSandbox",
        state,
        |s, of: OfOne| s.asked("stop", &of.id).map(|()| Empty {}),
    );
    router = route(
        router,
        "RuntimeService/RemovePodSandbox",
        state,
        |s, of: OfOne| {
            s.asked("remove", &of.id)?;
            s.sandboxes.retain(|one| one.id != of.id);
            Ok(Empty {})
        },
    );
    router = route(router, "ImageService/ListImages", state, |s, _: Empty| {
        Ok(ListImagesResponse {
            images: s.images.clone(),
        })
    });
    router = route(
        router,
        "ImageService/RemoveImage",
        state,
        |s, of: RemoveImageRequest| {
            let id = of.image.unwrap_or_default().image;
            s.asked("remove", &id)?;
            s.images.retain(|one| one.id != id);
            Ok(Empty {})
        },
    );
    Runtime::serving(router)
}

fn labels(pod: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("io.kubernetes.pod.uid".to_owned(), pod.to_owned())])
}

fn container(pod: &str, id: &str, state: i32, image: &str) -> Container {
    Container {
        id: id.into(),
        sandbox: format!("box-{pod}"),
        metadata: Some(ContainerMetadata { name: "c".into() }),
        state,
        created_at: 1,
        labels: labels(pod),
        image_id: image.into(),
        ..Container::default()
    }
}

fn sandbox(pod: &str, state: i32) -> PodSandbox {
    PodSandbox {
        id: format!("box-{pod}"),
        state,
        created_at: 1,
        labels: labels(pod),
    }
}

fn image(id: &str) -> Image {
    Image {
        id: id.into(),
        tags: vec![format!("{id}:1")],
        digests: Vec::new(),
        size: 100,
        pinned: false,
    }
}

/// A pod that runs with an image as its volume, one that is over, and images that one of them needs, or nobody.
fn node() -> Shared {
    let images = ["run", "done", "volume", "free", "pause"];
    Arc::new(Mutex::new(State {
        containers: vec![
            container("alive", "runs", 1, "run"),
            container("over", "ended", CONTAINER_EXITED, "done"),
        ],
        sandboxes: vec![sandbox("alive", SANDBOX_READY), sandbox("over", 1)],
        images: images.map(image).into(),
        volumes: BTreeMap::from([("runs".to_owned(), "volume".to_owned())]),
        ..State::default()
    }))
}

fn fate(pod: &str) -> PodFate {
    if pod == "over" {
        PodFate::Over
    } else {
        PodFate::Alive
    }
}

fn reclaimer(socket: std::path::PathBuf) -> Box<dyn NodeReclaim> {
    let sockets = move || -> Result<Sockets, CriError> {
        Ok(Sockets {
            containers: held(&socket),
            images: Some(held(&socket)),
        })
    };
    let reclaim = RuntimeReclaim {
        sockets: Box::new(sockets),
        fate: Box::new(fate),
        minimum_age: Duration::from_secs(60),
        disks: Vec::new(),
    };
    reclaim.start().unwrap()
}

fn order(calls: &'static [ReclaimCall], dry_run: bool) -> ReclaimOrder {
    ReclaimOrder {
        signal: Signal::ImageFsAvailable,
        calls,
        dry_run,
    }
}

fn run(reclaimer: &mut dyn NodeReclaim, order: ReclaimOrder) -> ReclaimReport {
    reclaimer.begin(order);
    loop {
        if let Some(report) = reclaimer.report() {
            return report;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn asked(state: &Shared) -> Vec<String> {
    state.lock().unwrap().asked.clone()
}

fn once(state: &Shared, order: ReclaimOrder) -> ReclaimReport {
    let runtime = serving(state);
    let mut reclaimer = reclaimer(runtime.folder.path().join("runtime.sock"));
    run(&mut *reclaimer, order)
}

const ALL: Removed = Removed {
    containers: 1,
    sandboxes: 1,
    images: 2,
    image_bytes: 200,
};

#[test]
fn case_36_what_nobody_needs_is_removed_and_what_anybody_needs_is_not() {
    let state = node();
    let report = once(&state, order(ReclaimCall::BOTH, false));
    assert_eq!(report.end, ReclaimEnd::Done);
    assert_eq!(report.removed, Some(ALL));
    let expected = ["remove ended", "stop box-over", "remove box-over"];
    let asked = asked(&state);
    assert_eq!(asked[..3], expected);
    // The one that was in use until its container went was used last.
    assert_eq!(asked[3..], ["remove free", "remove done"]);
}

#[test]
fn only_what_the_signal_allows_is_removed() {
    let state = node();
    let report = once(&state, order(ReclaimCall::DEAD_CONTAINERS, false));
    assert_eq!(report.removed.unwrap().images, 0);
    assert_eq!(asked(&state).len(), 3);
    let state = node();
    once(&state, order(ReclaimCall::UNUSED_IMAGES, false));
    assert_eq!(
        asked(&state),
        ["remove free"],
        "a dead container keeps its image"
    );
}

#[test]
fn a_dry_run_removes_nothing_and_says_what_it_would() {
    let state = node();
    let report = once(&state, order(ReclaimCall::BOTH, true));
    assert_eq!(report.end, ReclaimEnd::Done);
    assert_eq!(report.removed, Some(ALL));
    assert_eq!(asked(&state), [""; 0]);
}

#[test]
fn case_38_what_is_refused_is_told_and_the_rest_is_removed_and_who_was_faster_is_no_failure() {
    let state = node();
    {
        let mut state = state.lock().unwrap();
        state.refused.insert("ended".to_owned(), Code::Internal);
        state.refused.insert("free".to_owned(), Code::NotFound);
        state.images.push(image("free2"));
    }
    let report = once(&state, order(ReclaimCall::BOTH, false));
    let ReclaimEnd::Refused(why) = &report.end else {
        panic!("{report:?}");
    };
    assert!(
        why.contains(
            "1 of 3 could not be removed, the first: container ended: it refuses: no (Internal)"
        ),
        "{why}"
    );
    let removed = report.removed.unwrap();
    assert_eq!(
        (removed.containers, removed.sandboxes, removed.images),
        (0, 0, 1)
    );
}

#[test]
fn case_38_a_runtime_that_is_silent_or_not_there_is_told_within_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deaf.sock");
    let deaf = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut silent = reclaimer(path.clone());
    let report = run(&mut *silent, order(ReclaimCall::BOTH, false));
    let said = "the container runtime does not answer within 5 s".to_owned();
    assert_eq!(report.end, ReclaimEnd::Silent(said));
    assert_eq!(report.removed, Some(Removed::default()));
    drop(deaf);
    let mut refused = reclaimer(path);
    let report = run(&mut *refused, order(ReclaimCall::BOTH, false));
    assert!(
        matches!(&report.end, ReclaimEnd::Refused(why) if why.contains("refused")),
        "{report:?}"
    );
}

#[test]
fn a_young_image_stays() {
    let state = node();
    let runtime = serving(&state);
    let mut reclaimer = reclaimer(runtime.folder.path().join("runtime.sock"));
    run(&mut *reclaimer, order(ReclaimCall::UNUSED_IMAGES, false));
    state.lock().unwrap().images.push(image("young"));
    let report = run(&mut *reclaimer, order(ReclaimCall::UNUSED_IMAGES, false));
    assert_eq!(report.removed, Some(Removed::default()));
    assert_eq!(asked(&state), ["remove free"]);
}

#[test]
fn what_there_is_is_counted_for_whoever_asks_whether_it_would_work() {
    let runtime = serving(&node());
    let sockets = Sockets {
        containers: runtime.socket(),
        images: None,
    };
    let expected = Inventory {
        containers: 2,
        images: 5,
    };
    assert_eq!(take_stock(&sockets).unwrap(), expected);
}

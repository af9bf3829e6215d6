//! Metrics and health over HTTP, on an ordinary thread of its own: whoever asks can delay nobody but who else asks.

mod connections;

use super::metrics::{Answer, MEDIA_TYPE, Metrics};
use crate::sys::clock;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use connections::Limited;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// So long answers that are under way may still take at the end.
const ENDING: Duration = Duration::from_millis(500);

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    running: Option<(watch::Sender<()>, JoinHandle<()>)>,
}

impl Server {
    pub fn start(listener: TcpListener, metrics: Metrics) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (alive, mut gone) = watch::channel(());
        let thread = std::thread::Builder::new()
            .name("eviction-http".into())
            .spawn(move || {
                let serving = serve(listener, metrics, gone.clone());
                let over = async {
                    ended(&mut gone).await;
                    tokio::time::sleep(ENDING).await;
                };
                let done = runtime.block_on(async {
                    tokio::select! {
                        done = serving => done,
                        () = over => Ok(()),
                    }
                });
                if let Err(e) = done {
                    tracing::error!("metrics are no longer served: {e}");
                }
            })?;
        Ok(Self {
            running: Some((alive, thread)),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((alive, thread)) = self.running.take() {
            drop(alive);
            // It has said itself what went wrong.
            let _ = thread.join();
        }
    }
}

/// Ready when the server is dropped.
async fn ended(gone: &mut watch::Receiver<()>) {
    while gone.changed().await.is_ok() {}
}

async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    mut gone: watch::Receiver<()>,
) -> io::Result<()> {
    let listener = Limited::new(tokio::net::TcpListener::from_std(listener)?);
    axum::serve(listener, router(metrics))
        .with_graceful_shutdown(async move { ended(&mut gone).await })
        .await
}

fn router(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(text))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .fallback(nothing_else)
        .with_state(Arc::new(metrics))
}

async fn text(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        // Writing into a string does not fail; an encoder that gives up is ours to mend.
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

async fn livez(State(metrics): State<Arc<Metrics>>) -> Response {
    answer(metrics.health.live(clock::now()))
}

async fn readyz(State(metrics): State<Arc<Metrics>>) -> Response {
    answer(metrics.health.ready(clock::now()))
}

async fn nothing_else() -> Response {
    let said = "there are /metrics, /livez and /readyz\n";
    (StatusCode::NOT_FOUND, said).into_response()
}

fn answer(answer: Answer) -> Response {
    match answer {
        Ok(said) => said.into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::telemetry::metrics::{Vitals, metrics};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn what_does_not_turn_is_unavailable_and_the_end_waits_for_no_client() {
        let an_hour_ago = clock::now().as_nanos() - 3_600_000_000_000;
        let vitals = Arc::new(Vitals::new(Timestamp::from_nanos(an_hour_ago)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::start(listener, metrics(vitals, Vec::new(), Vec::new()).0).unwrap();
        for (path, begins, says) in [
            ("/livez", "HTTP/1.0 503 ", "has not begun to turn"),
            ("/readyz", "HTTP/1.0 503 ", "no line is armed yet"),
            (
                "/metrics",
                "HTTP/1.0 200 ",
                "content-type: application/openmetrics-text; version=1.0.0",
            ),
            (
                "/",
                "HTTP/1.0 404 ",
                "there are /metrics, /livez and /readyz",
            ),
        ] {
            let answer = get(address, path);
            assert!(answer.starts_with(begins), "{path}: {answer}");
            assert!(answer.contains(says), "{path}: {answer}");
        }
        let mut stays = TcpStream::connect(address).unwrap();
        stays.write_all(b"GET /metrics").unwrap();
        let began = clock::now();
        drop(server);
        assert!(clock::elapsed_since(began) < Duration::from_secs(5));
        assert!(TcpStream::connect(address).is_err(), "nobody listens");
    }
}

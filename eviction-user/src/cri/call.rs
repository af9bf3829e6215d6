//! A connection with a runtime, and one question over it.

use super::ask::CriError;
use std::error::Error;
use std::os::fd::{AsRawFd, BorrowedFd};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// As the kubelet allows: a list of all containers comes in one message.
const LARGEST: usize = 16 << 20;

/// `socket`: held open by its name (`O_PATH`).
pub(super) async fn connect(socket: BorrowedFd<'_>) -> Result<Channel, CriError> {
    // A name of its own, so that a socket with a long path can be reached, too, and one that only another process has.
    let name = format!("unix:///proc/self/fd/{}", socket.as_raw_fd());
    let connection = async { Endpoint::from_shared(name)?.connect().await };
    connection
        .await
        .map_err(|error| CriError::Connection(innermost(&error)))
}

pub(super) async fn call<Q, A>(
    channel: &Channel,
    path: &'static str,
    question: Q,
) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = Grpc::new(channel.clone()).max_decoding_message_size(LARGEST);
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(innermost(&error)))?;
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(question), path, ProstCodec::<Q, A>::default());
    answer.await.map(tonic::Response::into_inner)
}

pub(super) fn refused(status: Status) -> CriError {
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

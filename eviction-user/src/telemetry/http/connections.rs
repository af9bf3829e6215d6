//! Connections, few at a time and none for long. Each takes a file descriptor, and the process needs its own to look and
//! to kill: clients that open many or never close any must not use them up.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// A scraper or two, probes, and people. Who comes next waits for one of them to go.
const MOST: usize = 16;
/// A scraper that keeps its connection connects anew.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) struct Limited {
    listener: TcpListener,
    free: Arc<Semaphore>,
    longest: Duration,
}

impl Limited {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::to(listener, MOST, LONGEST)
    }

    fn to(listener: TcpListener, most: usize, longest: Duration) -> Self {
        let free = Arc::new(Semaphore::new(most));
        Self {
            listener,
            free,
            longest,
        }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.free).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            end: Box::pin(sleep(self.longest)),
            _place: place,
        };
        (connection, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    /// Never `None`, since nobody closes the semaphore.
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.stream)
    }

    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        self.stream().poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_time(cx)?;
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::Write;

    async fn limited(most: usize, longest: Duration) -> (Limited, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Limited::to(listener, most, longest), address)
    }

    #[tokio::test]
    async fn one_too_many_waits_until_another_has_gone() {
        let (mut listener, address) = limited(1, LONGEST).await;
        let _first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let (held, _) = listener.accept().await;
        let wait = Duration::from_millis(50);
        let next = tokio::time::timeout(wait, listener.accept()).await;
        assert!(next.is_err(), "there is no place for it");
        drop(held);
        let _ = listener.accept().await;
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_is_cut_off() {
        let (mut listener, address) = limited(1, Duration::from_millis(50)).await;
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let (mut connection, _) = listener.accept().await;
        client.write_all(b"G").unwrap();
        let mut read = async || {
            let mut bytes = [0; 8];
            let mut into = ReadBuf::new(&mut bytes);
            let reading = poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut into));
            reading.await.map(|()| into.filled().to_vec())
        };
        assert_eq!(read().await.unwrap(), b"G");
        assert_eq!(read().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

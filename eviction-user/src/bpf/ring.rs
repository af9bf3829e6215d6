//! Events as they come, from both rings. Memory goes first: a storm of inodes cannot delay it.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use aya::maps::{MapData, MapError, PerCpuArray, RingBuf};
use eviction_ebpf::abi::{DecodeError, Event};
use tokio::io::unix::AsyncFd;

#[derive(Debug, thiserror::Error)]
pub enum RingError {
    #[error("the ring buffer cannot be registered with the event loop (is there a tokio runtime?)")]
    Register(#[source] io::Error),
    #[error("waiting for the ring buffer")]
    Wait(#[source] io::Error),
    #[error("a record of the ring buffer is no event of ours")]
    Decode(#[from] DecodeError),
}

/// A ring that keeps its descriptor open and unchanged, which is what [`AsyncFd`] relies on.
struct OwnedRing(RingBuf<MapData>);

impl AsRawFd for OwnedRing {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for OwnedRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl OwnedRing {
    fn pop(&mut self) -> Option<Result<Event, DecodeError>> {
        // The record is copied out (64 bytes) and given back before anything else happens.
        self.0.next().map(|record| Event::decode(&record))
    }
}

struct Ring(AsyncFd<OwnedRing>);

impl Ring {
    fn new(ring: RingBuf<MapData>) -> Result<Self, RingError> {
        // SAFETY: `OwnedRing` owns the map's descriptor for its whole life and has no way to exchange it.
        let registered = unsafe { AsyncFd::register(OwnedRing(ring)) };
        Ok(Self(
            registered.map_err(|error| RingError::Register(error.into()))?,
        ))
    }

    fn pop(&mut self) -> Option<Result<Event, DecodeError>> {
        self.0.get_mut().pop()
    }
}

/// Both rings; without any, it waits for ever.
pub struct Events {
    rings: Option<Rings>,
}

struct Rings {
    memory: Ring,
    files: Ring,
}

impl Events {
    /// Must be called within a tokio runtime with I/O.
    pub(super) fn new(
        memory: RingBuf<MapData>,
        files: RingBuf<MapData>,
    ) -> Result<Self, RingError> {
        Ok(Self {
            rings: Some(Rings {
                memory: Ring::new(memory)?,
                files: Ring::new(files)?,
            }),
        })
    }

    /// A source that never yields, for a node without eBPF.
    pub const fn never() -> Self {
        Self { rings: None }
    }

    /// The next event. Cancel safe: an event is taken out of its ring only when it is returned.
    pub async fn next(&mut self) -> Result<Event, RingError> {
        match &mut self.rings {
            Some(rings) => rings.next().await,
            None => std::future::pending().await,
        }
    }

    /// An event that is there already, without waiting.
    pub fn try_next(&mut self) -> Option<Result<Event, RingError>> {
        Some(self.rings.as_mut()?.pop()?.map_err(RingError::from))
    }
}

impl Rings {
    fn pop(&mut self) -> Option<Result<Event, DecodeError>> {
        self.memory.pop().or_else(|| self.files.pop())
    }

    async fn next(&mut self) -> Result<Event, RingError> {
        loop {
            if let Some(event) = self.pop() {
                return Ok(event?);
            }
            // Readiness is taken back only after the ring was found empty *after* it was signalled: what comes in between
            // signals anew.
            tokio::select! {
                biased;
                guard = self.memory.0.readable_mut() => {
                    let mut guard = guard.map_err(RingError::Wait)?;
                    if let Some(event) = guard.get_inner_mut().pop() {
                        return Ok(event?);
                    }
                    guard.clear_ready();
                }
                guard = self.files.0.readable_mut() => {
                    let mut guard = guard.map_err(RingError::Wait)?;
                    if let Some(event) = guard.get_inner_mut().pop() {
                        return Ok(event?);
                    }
                    guard.clear_ready();
                }
            }
        }
    }
}

/// Events that found their ring full, since the programs were loaded. Each such crossing is reported at the next unit spent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DropCounts {
    pub memory: u64,
    pub files: u64,
}

pub(super) struct Drops {
    pub(super) memory: PerCpuArray<MapData, u64>,
    pub(super) files: PerCpuArray<MapData, u64>,
}

impl Drops {
    pub(super) fn read(&self) -> Result<DropCounts, MapError> {
        let sum = |counter: &PerCpuArray<MapData, u64>| {
            counter.get(&0, 0).map(|values| values.iter().sum())
        };
        Ok(DropCounts {
            memory: sum(&self.memory)?,
            files: sum(&self.files)?,
        })
    }
}

//! The container runtime of a Kubernetes node, asked over its socket where it keeps images and writable layers (CRI,
//! `ImageFsInfo`). Asked with a time limit and never by the thread that decides.

mod ask;
mod messages;
#[cfg(test)]
mod tests;

pub use ask::{Answer, CriError, ask, socket_of};

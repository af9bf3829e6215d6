//! The container runtime of a Kubernetes node over its socket (CRI): asked where it keeps images and writable layers
//! (`ImageFsInfo`), and told to remove what nobody needs. With time limits, and never by the thread that decides.

mod ask;
mod call;
mod images;
mod messages;
mod reclaim;
mod remains;
mod remove;
mod survey;
#[cfg(test)]
mod tests;

pub use ask::{Answer, CriError, ask, socket_of};
pub use reclaim::{RuntimeReclaim, Sockets};
pub use survey::{Inventory, take_stock};

//! The flight recorder: what the engine was told and what it decided, in files that survive a crash.
//!
//! A file is [`codec::MAGIC`], a version, and frames; a frame is a length, a checksum and a deflated
//! CBOR [`Frame`]. The first frame is a [`Head`] with the engine's configuration, and in the middle of
//! a run also its state, so that each file can be replayed alone. The engine is deterministic: its
//! inputs alone bring back every decision, byte for byte ([`Player`]).
//!
//! The fast thread hands over copies through a bounded queue ([`Recorder`]) and never waits. What finds
//! no room is counted, and the next input comes with the engine's state, so that a gap costs the
//! inputs in it and no more.

pub mod codec;
mod directory;
mod drain;
mod frame;
mod note;
mod player;
mod reader;
mod recorder;
mod strip;
#[cfg(test)]
mod tests;
pub mod victims;
mod writer;

pub use codec::Damage;
pub use directory::{DirectoryError, Limits, Store, files};
pub use frame::{Frame, Gap, Head, Platform, Told};
pub use note::Note;
pub use player::{Change, Decided, PlayError, Player};
pub use reader::{OpenError, Reader, Spoiled};
pub use recorder::{Recorder, StartError};
pub use strip::{StripError, strip};
pub use writer::{RunFacts, Writer};

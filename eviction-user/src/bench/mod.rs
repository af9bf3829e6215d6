//! Benchmarks as commands: how soon a crossing is heard of ([`notify`]), what the hooks cost ([`cost`]), what an idle node
//! pays ([`idle`]), how far past the line a victim comes ([`kill`]). They measure the product's own parts in place:
//! `notify` its kernel side and its fast thread, the others a whole `eviction run`.

mod busy;
pub mod cost;
mod cpus;
mod error;
mod folder;
mod helper;
pub mod idle;
pub mod kill;
pub mod notify;
mod product;
mod scratch;
pub mod stats;
mod stop;
mod storm;

pub use error::BenchError;
pub use helper::serve as help;
pub use stop::Stop;
pub use storm::Storm;

//! What Kubernetes calls things on its nodes.

mod identity;

pub use identity::PodCgroup;

//! What `cargo xtask` does, as a library: the suites of `eviction-tests` boot their guests through [`vm`].
//!
//! - [`setup`] brings a fresh Debian machine to the point where everything else works
//! - [`build`] makes the static binaries
//! - [`image`] packs the program as a container image
//! - [`check`] reads the sources: formatting, lints, layers, sizes
//! - [`suites`] runs the test suites and counts
//! - [`bench`] measures against the kubelet
//! - [`soak`] is the long form of what the suites run for a short while
//! - [`vm`] boots a guest kernel and runs a command in it
//! - [`cluster`] brings up a real Kubernetes node and takes it down
//! - [`manifests`] renders the Helm chart, and from it the kustomize base
//! - [`mutants`] proves that the tests of the policy can fail

pub mod bench;
pub mod build;
pub mod check;
pub mod clock;
pub mod cluster;
pub mod console;
pub mod demo;
pub mod image;
pub mod manifests;
pub mod mutants;
pub mod process;
pub mod setup;
pub mod soak;
pub mod suites;
pub mod vm;
pub mod workspace;

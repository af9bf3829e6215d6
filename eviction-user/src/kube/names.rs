//! Names of ours in the API.

/// On an evicted pod: the id of the record that tells why. A change of an annotation is also what lets the kubelet act at once
/// instead of putting its own status back (measured with kubelet 1.36).
pub const RECORD: &str = "eviction.dev/record";
/// Who says it, in events.
pub(super) const REPORTER: &str = "eviction";

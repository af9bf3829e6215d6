//! Names of ours in the API.

/// What stands before all of them.
macro_rules! group {
    () => {
        "eviction.dev"
    };
}
pub(super) const GROUP: &str = group!();

/// On an evicted pod: the id of the record that tells why. A change of an annotation is also what lets the kubelet act at once
/// instead of putting its own status back (measured with kubelet 1.36).
pub const RECORD: &str = concat!(group!(), "/record");
/// Who says it, in events.
pub(super) const REPORTER: &str = "eviction";

/// Is this a name of ours?
pub(super) fn is_ours(name: &str) -> bool {
    name.strip_prefix(GROUP)
        .is_some_and(|rest| rest.starts_with('/'))
}

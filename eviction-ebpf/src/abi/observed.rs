//! What is told beside the events that say "look now": OOM victims, reclaim stalls, cgroups that come and go.

/// [`super::Event::slot`] of an OOM victim.
pub const VICTIM_SLOT: u32 = u32::MAX;

/// A cgroup's own name, its closing 0 included. Longer ones (at most 255 bytes) are found by a walk.
pub const NAME_ROOM: usize = 128;
/// Holds 400 changes; what finds no room is counted and repaired by a walk.
pub const CGROUP_RING_BYTES: u32 = 64 * 1024;
/// Cgroups whose stalls are summed, and tasks that stall at one moment; the least recently used goes.
pub const STALL_ROOM: u32 = 4096;

/// A cgroup of the memory hierarchy has been made or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct CgroupEvent {
    pub id: u64,
    pub parent: u64,
    /// 1: made, 0: removed.
    pub made: u32,
    /// Bytes in `name` with the closing 0, as the kernel's string copy answers: `NAME_ROOM` may mean that it was cut.
    pub length: i32,
    pub name: [u8; NAME_ROOM],
}

/// Time that tasks of a cgroup spent reclaiming memory before they got any.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Stall {
    pub total_ns: u64,
    pub times: u64,
}

/// What could not be kept, by index in `names::map::LOST`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Loss {
    /// Changes of cgroups that found their ring full.
    Cgroups = 0,
    /// Stalls whose beginning was no longer known.
    Stalls = 1,
    /// No loss by itself: counters of growth ever begun. Those that are no longer there had to make room.
    GrowthBegun = 2,
}

impl Loss {
    pub const KINDS: u32 = 3;
}

const _: () = {
    assert!(size_of::<CgroupEvent>() == 24 + NAME_ROOM);
    assert!(size_of::<Stall>() == 16);
    assert!(CGROUP_RING_BYTES.is_power_of_two());
};

#[cfg(not(target_arch = "bpf"))]
mod read {
    use bytes::Buf;

    use super::{super::DecodeError, CgroupEvent, NAME_ROOM};

    impl CgroupEvent {
        pub fn decode(mut record: &[u8]) -> Result<Self, DecodeError> {
            let (expected, found) = (size_of::<Self>(), record.len());
            if found != expected {
                return Err(DecodeError::Size { expected, found });
            }
            let mut event = Self {
                id: record.get_u64_ne(),
                parent: record.get_u64_ne(),
                made: record.get_u32_ne(),
                length: record.get_i32_ne(),
                name: [0; NAME_ROOM],
            };
            record.copy_to_slice(&mut event.name);
            Ok(event)
        }

        /// `None`: too long for the event, unreadable, or no text.
        pub fn own_name(&self) -> Option<&str> {
            let length = usize::try_from(self.length).ok()?;
            let name = self.name.get(..length.checked_sub(1)?)?;
            if length == NAME_ROOM || name.is_empty() {
                return None;
            }
            core::str::from_utf8(name).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::{super::DecodeError, *};

    fn event(name: &[u8], length: i32) -> CgroupEvent {
        let mut record: Vec<u8> = Vec::new();
        record.extend(7_u64.to_ne_bytes());
        record.extend(1_u64.to_ne_bytes());
        record.extend(1_u32.to_ne_bytes());
        record.extend(length.to_ne_bytes());
        record.extend(name);
        record.resize(24 + NAME_ROOM, 0);
        CgroupEvent::decode(&record).unwrap()
    }

    #[test]
    fn a_record_becomes_the_change_that_was_sent() {
        let made = event(b"pod1", 5);
        assert_eq!((made.id, made.parent, made.made), (7, 1, 1));
        assert_eq!(made.own_name(), Some("pod1"));
        assert!(matches!(
            CgroupEvent::decode(&[0; 9]),
            Err(DecodeError::Size {
                expected: 152,
                found: 9
            })
        ));
    }

    #[test]
    fn a_name_that_was_cut_or_could_not_be_read_is_none() {
        let longest = [b'x'; NAME_ROOM - 2];
        let table: [(&[u8], i32, bool); 6] = [
            (&longest, 127, true),
            (&[b'x'; NAME_ROOM - 1], 128, false),
            (b"pod1", -14, false),
            (b"", 1, false),
            (b"", 0, false),
            (b"\xff\xfe", 3, false),
        ];
        for (name, length, known) in table {
            assert_eq!(event(name, length).own_name().is_some(), known, "{length}");
        }
    }
}

#[cfg(not(target_arch = "bpf"))]
mod pod {
    // SAFETY: `repr(C)` integers without padding (asserted above); every bit pattern is valid.
    unsafe impl aya::Pod for super::Stall {}
}

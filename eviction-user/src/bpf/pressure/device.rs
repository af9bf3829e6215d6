//! Lines of file systems, which come and go while the programs stay.

use super::{ArmedSlot, KernelEvents, WantedDevice};
use crate::{
    bpf::{Attached, Family, SlotError},
    model::Signal,
    sys::mount::FsKind,
};

impl KernelEvents {
    /// Takes a slot for a line, or a share in the one that its device has. `false`: no hook that is attached sees it.
    pub(in crate::bpf) fn watch(&mut self, wanted: &WantedDevice) -> Result<bool, SlotError> {
        let WantedDevice {
            signal,
            family,
            device,
            ref kind,
        } = *wanted;
        if !self.attached.sees(family, kind) {
            return Ok(false);
        }
        let family = self.attached.report().serving(family);
        let same = |slot: &&mut ArmedSlot| slot.family == family && slot.device == Some(device);
        if let Some(slot) = self.slots.iter_mut().find(same) {
            slot.also_for(signal);
            return Ok(true);
        }
        let handle = self.attached.device_slot(family, device)?;
        let mut slot = ArmedSlot::new(handle, signal, family);
        slot.device = Some(device);
        let links_unseen = family == Family::Inodes && *kind == FsKind::Tmpfs;
        slot.leaks = links_unseen || family == Family::WrittenBytes;
        self.slots.push(slot);
        Ok(true)
    }

    /// Gives up a file system's line, and with its last one the slot.
    pub(in crate::bpf) fn release(&mut self, signal: Signal) {
        self.uncounted.remove(&signal);
        let of_signal = |slot: &ArmedSlot| slot.device.is_some() && slot.signals.contains(&signal);
        let Some(position) = self.slots.iter().position(of_signal) else {
            return;
        };
        let slot = &mut self.slots[position];
        slot.signals.retain(|other| *other != signal);
        slot.vigils.retain(|vigil| vigil.signal() != signal);
        if !slot.signals.is_empty() {
            return;
        }
        let slot = self.slots.remove(position);
        if let Some(device) = slot.device {
            self.has_released = true;
            self.attached.drop_device(slot.family, device, slot.handle);
        }
    }

    /// The hook that sees what a line is about.
    pub(in crate::bpf) fn hook_for(&self, family: Family, kind: &FsKind) -> Option<&'static str> {
        self.attached.rung_for(family, kind).map(|rung| rung.name())
    }

    pub(in crate::bpf) fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Has it any line at all?
    pub(in crate::bpf) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// The programs alone, to be detached by whoever has the time.
    pub(in crate::bpf) fn into_attached(self) -> Attached {
        self.attached
    }
}

//! A guest's network device. QEMU itself is the network behind it: what the guest asks for goes out through QEMU's sockets, so it
//! reaches what the namespace that QEMU runs in reaches, and that namespace's own addresses, too.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sched::{CloneFlags, setns};

use super::GuestError;

#[derive(Clone, Debug)]
pub struct UserNetwork {
    /// The network namespace, as a file.
    pub namespace: PathBuf,
    /// Of the guest, and of the namespace as well: who connects to it there is passed on.
    pub guest: Ipv4Addr,
    /// Where the guest sends what is not for itself.
    pub gateway: Ipv4Addr,
    /// Both are in this network: how many bits of their addresses name it.
    pub prefix: u8,
    /// TCP ports of the guest that are reached from the namespace.
    pub ports: Vec<u16>,
}

impl UserNetwork {
    /// For QEMU's `-netdev`.
    pub(super) fn option(&self, id: &str) -> String {
        let Self {
            guest,
            gateway,
            prefix,
            ..
        } = self;
        let mut option = format!(
            "user,id={id},ipv6=off,net={gateway}/{prefix},host={gateway},dhcpstart={guest}"
        );
        for port in &self.ports {
            option.push_str(&format!(",hostfwd=tcp:{guest}:{port}-{guest}:{port}"));
        }
        option
    }

    /// Lets QEMU run in the namespace.
    pub(super) fn enter(&self, command: &mut Command) -> Result<(), GuestError> {
        let namespace = File::open(&self.namespace).map_err(|cause| GuestError::File {
            path: self.namespace.clone(),
            cause,
        })?;
        // SAFETY: between fork and exec one system call on a descriptor that is open.
        unsafe {
            command.pre_exec(move || Ok(setns(&namespace, CloneFlags::CLONE_NEWNET)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_passed_on_from_the_guests_own_address() {
        let network = UserNetwork {
            namespace: PathBuf::from("/run/netns/x"),
            guest: Ipv4Addr::new(198, 18, 0, 79),
            gateway: Ipv4Addr::new(198, 18, 0, 66),
            prefix: 26,
            ports: vec![10, 20],
        };
        assert_eq!(
            network.option("n"),
            "user,id=n,ipv6=off,net=198.18.0.66/26,host=198.18.0.66,dhcpstart=198.18.0.79,\
             hostfwd=tcp:198.18.0.79:10-198.18.0.79:10,hostfwd=tcp:198.18.0.79:20-198.18.0.79:20"
        );
    }
}

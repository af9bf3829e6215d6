//! A network namespace with one address of its own, reachable from the host and from nowhere else.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process::capture;
use crate::vm::UserNetwork;

/// Reserved for benchmarks between networks (RFC 2544), so nobody's real network; a /30 of it is taken, because a wider range
/// may hide what the machine reaches through it.
const RANGE: [u8; 2] = [198, 18];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Network {
    /// The namespace; its two ends of the cable are named after it.
    pub namespace: String,
    /// Of the namespace.
    pub address: Ipv4Addr,
}

impl Network {
    /// `name`: at most 13 letters, for an interface's name takes 15.
    pub fn make(name: &str) -> Result<Self> {
        let [host, inside] = free_pair()?;
        let network = Self {
            namespace: name.to_owned(),
            address: inside,
        };
        let made = network.set_up(host);
        if made.is_err() {
            Self::remove(name);
        }
        made.map(|()| network)
    }

    fn set_up(&self, host: Ipv4Addr) -> Result<()> {
        let name = self.namespace.as_str();
        let [outer, inner] = &ends(name);
        let (outer_address, inner_address) = (format!("{host}/30"), format!("{}/30", self.address));
        let gateway = host.to_string();
        let steps: [&[&str]; 8] = [
            &["netns", "add", name],
            &[
                "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name,
            ],
            &["addr", "add", &outer_address, "dev", outer],
            &["link", "set", outer, "up"],
            &["-n", name, "addr", "add", &inner_address, "dev", inner],
            &["-n", name, "link", "set", inner, "up"],
            &["-n", name, "link", "set", "lo", "up"],
            // The kubelet wants a default route to find the node's address by.
            &["-n", name, "route", "add", "default", "via", &gateway],
        ];
        for step in steps {
            ip(step)?;
        }
        Ok(())
    }

    /// The namespace, to be entered.
    pub fn open(&self) -> Result<File> {
        let path = PathBuf::from("/run/netns").join(&self.namespace);
        File::open(&path).with_context(|| format!("cannot open {}", path.display()))
    }

    /// For a guest whose addresses lie beside ours: one of its own, at which the namespace and the host reach its `ports`.
    pub fn for_guest(&self, ports: Vec<u16>) -> Result<UserNetwork> {
        let [a, b, c, _] = self.address.octets();
        let [gateway, guest] = [66, 79].map(|last| Ipv4Addr::new(a, b, c, last));
        let name = self.namespace.as_str();
        let (guests, own) = (format!("{guest}/32"), self.address.to_string());
        // Who connects to it in the namespace must not come from it, or the guest takes the answer for itself.
        ip(&[
            "-n", name, "route", "replace", "local", &guests, "dev", "lo", "src", &own,
        ])?;
        ip(&["route", "replace", &guests, "via", &own])?;
        Ok(UserNetwork {
            namespace: PathBuf::from("/run/netns").join(name),
            guest,
            gateway,
            prefix: 26,
            ports,
        })
    }

    /// Takes away what there is of it.
    pub fn remove(name: &str) {
        // The other end of the cable goes with either; what is missing already is not there.
        let _ = ip(&["link", "del", &ends(name)[0]]);
        let _ = ip(&["netns", "del", name]);
    }
}

/// Of the cable: the host's, and the one inside.
fn ends(name: &str) -> [String; 2] {
    ["-h", "-n"].map(|end| format!("{name}{end}"))
}

fn ip(arguments: &[&str]) -> Result<String> {
    Ok(capture(Command::new("ip").args(arguments))?)
}

/// The two addresses of a /30 in which nothing on this machine is.
fn free_pair() -> Result<[Ipv4Addr; 2]> {
    let used = ip(&["-4", "-o", "addr", "show"])? + &ip(&["-4", "route", "show", "table", "all"])?;
    choose(&used).with_context(|| {
        let [a, b] = RANGE;
        format!("every /30 of {a}.{b}.0.0/16 is in use on this machine: take one away (`ip addr`)")
    })
}

fn choose(used: &str) -> Option<[Ipv4Addr; 2]> {
    let [a, b] = RANGE;
    (0..=u8::MAX).find_map(|third| {
        let taken = used.contains(&format!("{a}.{b}.{third}."));
        (!taken).then(|| [1, 2].map(|last| Ipv4Addr::new(a, b, third, last)))
    })
}

/// Makes a name for interfaces and folders out of what a person gave.
pub fn check_name(name: &str) -> Result<()> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || name.len() > 13 || !name.bytes().all(is_letter) {
        bail!("give 1 to 13 small letters and digits: `{name}` is to name a network interface too");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_range_that_nobody_uses_is_taken() {
        let pair = |third| [1, 2].map(|last| Ipv4Addr::new(198, 18, third, last));
        assert_eq!(choose("10.0.0.1/8 dev eth0"), Some(pair(0)));
        assert_eq!(choose("198.18.0.1/30 x\n198.18.1.0/30 y"), Some(pair(2)));
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        assert!(check_name("evk1").is_ok());
        for wrong in ["", "a/b", "Big", "fourteenletter"] {
            let error = check_name(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}` is to name")), "{error}");
        }
    }
}

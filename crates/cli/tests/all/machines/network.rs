//! Machines that are network namespaces of this one, each with a link to a router. Links can be cut, also in
//! one direction.

use std::net::Ipv4Addr;
use std::process::{Command, Output};

/// The machines of a test. They end with it.
pub(crate) struct Network {
    names: Vec<&'static str>,
}

/// The packets that a cut stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All: the link is down, and both ends see that.
    Link,
    /// Those that the machine sends. They disappear without a word.
    From,
    /// Those that it would receive.
    To,
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    let Output { status, stderr, .. } = output;
    match status.success() {
        true => Ok(()),
        false => Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&stderr).trim())),
    }
}

impl Network {
    /// Makes the machines, or says why that is not possible here.
    pub(crate) fn new(names: &[&'static str]) -> Result<Network, String> {
        let network = Network { names: names.to_vec() };
        let router = network.namespace("router");
        ip(&["netns", "add", &router])?;
        for (number, name) in (1..).zip(names) {
            let (namespace, near, far) = (network.namespace(name), network.address(name), format!("10.77.{number}.1"));
            ip(&["netns", "add", &namespace])?;
            ip(&["link", "add", "eth", "netns", &namespace, "type", "veth", "peer", "name", name, "netns", &router])?;
            for (place, link, address) in [(&namespace, "eth", near.to_string()), (&router, name, far.clone())] {
                ip(&["-n", place, "addr", "add", &format!("{address}/24"), "dev", link])?;
                ip(&["-n", place, "link", "set", link, "up"])?;
            }
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", &namespace, "route", "add", "default", "via", &far])?;
        }
        ip(&["netns", "exec", &router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        Ok(network)
    }

    fn namespace(&self, name: &str) -> String {
        format!("anabranch-{}-{name}", std::process::id())
    }

    pub(crate) fn address(&self, name: &str) -> Ipv4Addr {
        let number = self.names.iter().position(|of| *of == name).expect("a machine of this network") as u8 + 1;
        Ipv4Addr::new(10, 77, number, 2)
    }

    /// A command that runs on a machine.
    pub(crate) fn command(&self, machine: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine), program]);
        command
    }

    pub(crate) fn cut(&self, machine: &str, cut: Cut) {
        self.change(machine, cut, ["down", "add"]);
    }

    pub(crate) fn mend(&self, machine: &str, cut: Cut) {
        self.change(machine, cut, ["up", "del"]);
    }

    fn change(&self, machine: &str, cut: Cut, [state, rule]: [&str; 2]) {
        let (router, address) = (self.namespace("router"), self.address(machine).to_string());
        let done = match cut {
            Cut::Link => ip(&["-n", &router, "link", "set", machine, state]),
            Cut::From => ip(&["-n", &router, "rule", rule, "from", &address, "blackhole"]),
            Cut::To => ip(&["-n", &router, "rule", rule, "to", &address, "blackhole"]),
        };
        done.expect("the link changes");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names.iter().copied().chain(["router"]) {
            // It may not be there, if another one could not be made.
            let _ = ip(&["netns", "del", &self.namespace(name)]);
        }
    }
}

//! Where a drive is served.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use crate::wire::PORT;

/// Where to listen: `HOST:PORT`, `:PORT`, `PORT` or `HOST`; loopback if no host is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = text.strip_prefix("localhost").filter(|rest| rest.starts_with(':')).unwrap_or(text);
        let at = if text == "localhost" {
            Some(SocketAddr::new(loopback, PORT))
        } else if let Ok(port) = port.strip_prefix(':').unwrap_or(port).parse() {
            Some(SocketAddr::new(loopback, port))
        } else if let Ok(ip) = text.parse() {
            Some(SocketAddr::new(ip, PORT))
        } else {
            text.parse().ok()
        };
        let expected =
            || format!("{text:?}: expected HOST:PORT, :PORT, PORT or an IP address (loopback by default)");
        at.map(Self).ok_or_else(expected)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

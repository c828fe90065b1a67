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
        let expected =
            || format!("{text:?}: expected HOST:PORT, :PORT, PORT or an IP address (loopback by default)");
        tcp(text, PORT).map(Self).ok_or_else(expected)
    }
}

/// Of `HOST:PORT`, `:PORT`, `PORT` or `HOST`: loopback if no host is given, `port` if no port is.
#[must_use]
pub fn tcp(text: &str, port: u16) -> Option<SocketAddr> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if text == "localhost" {
        return Some(SocketAddr::new(loopback, port));
    }
    let digits = text.strip_prefix("localhost").filter(|rest| rest.starts_with(':')).unwrap_or(text);
    if let Ok(port) = digits.strip_prefix(':').unwrap_or(digits).parse() {
        return Some(SocketAddr::new(loopback, port));
    }
    text.parse().map(|ip| SocketAddr::new(ip, port)).or_else(|_| text.parse()).ok()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

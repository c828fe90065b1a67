//! What is said before the negotiation is secret: nothing but that it has to become so (`NBD_OPT_STARTTLS`, which the
//! protocol calls FORCEDTLS).

use std::io;
use std::time::Instant;

use super::wire::{self, option, reply};
use crate::deadline::{HANDSHAKE, Hearing, send_all};
use crate::listen::Stream;

/// Options that a client may try before it asks for TLS, and bytes of one.
const MOST_OPTIONS: u32 = 64;
const MOST_OPTION: u32 = 8 << 10;

/// Greets a client and hears it until it asks for TLS; the flags that it sent.
///
/// # Errors
/// If it does not ask, or not in time.
pub(super) fn starttls(stream: &Stream) -> io::Result<Vec<u8>> {
    let by = Instant::now() + HANDSHAKE;
    let mut hearing = Hearing::new(stream);
    let end = |kind: io::ErrorKind| Err(io::Error::from(kind));
    send_all(stream, &wire::greeting(), by)?;
    let mut flags = vec![];
    hearing.next(wire::CLIENT_FLAGS_BYTES, false, &mut flags)?;
    let mut bytes = vec![];
    for _ in 0..MOST_OPTIONS {
        hearing.next(wire::OPTION_BYTES, false, &mut bytes)?;
        let Some((number, length @ ..=MOST_OPTION)) = wire::option_header(&bytes) else {
            return end(io::ErrorKind::InvalidData);
        };
        hearing.next(length as usize, true, &mut bytes)?;
        let say = |kind, text: &[u8]| send_all(stream, &wire::option_reply(number, kind, text), by);
        match number {
            option::STARTTLS if length == 0 => {
                say(reply::ACK, &[])?;
                // What came in the clear may not be taken for what is said in secret.
                return if hearing.buffered() == 0 { Ok(flags) } else { end(io::ErrorKind::InvalidData) };
            }
            option::STARTTLS => say(reply::ERR_INVALID, b"of no data")?,
            option::ABORT => {
                say(reply::ACK, &[])?;
                return end(io::ErrorKind::ConnectionAborted);
            }
            // It has no answer but the end.
            option::EXPORT_NAME => return end(io::ErrorKind::PermissionDenied),
            _ => say(reply::ERR_TLS_REQD, b"TLS is required")?,
        }
    }
    end(io::ErrorKind::InvalidData)
}

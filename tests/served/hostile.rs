//! Clients that nobody should have to suffer from.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nandle_serve::nbd::wire::{self, Request, command, option};

/// Asks for what is stored of the whole drive, `times` times, and reads no answer.
pub fn status_flood(socket: &Path, bytes: u64, times: u32) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let option = |number: u32, data: &[u8]| {
        let head = [wire::IHAVEOPT.to_be_bytes().to_vec(), number.to_be_bytes().to_vec()].concat();
        [head, (data.len() as u32).to_be_bytes().to_vec(), data.to_vec()].concat()
    };
    let word = |n: usize| (n as u32).to_be_bytes().to_vec();
    let context = b"base:allocation";
    let contexts = [word(0), word(1), word(context.len()), context.to_vec()].concat();
    let mut hello = 3_u32.to_be_bytes().to_vec();
    hello.extend(option(option::STRUCTURED_REPLY, &[]));
    hello.extend(option(option::SET_META_CONTEXT, &contexts));
    hello.extend(option(option::GO, &[word(0), vec![0, 0]].concat()));
    stream.write_all(&hello).expect("sent");
    for _ in 0..times {
        if stream.write_all(&status_request(bytes)).is_err() {
            break;
        }
    }
    stream
}

/// Asks what is stored of a whole drive.
pub fn status_request(bytes: u64) -> Vec<u8> {
    let length = bytes.min(u64::from(u32::MAX) / 4096 * 4096) as u32;
    wire::request_bytes(&Request { flags: 0, command: command::BLOCK_STATUS, cookie: 1, offset: 0, length })
}

//! TLS around a connection, with certificates: what a client sends and gets is the same inside.
//!
//! A thread for each connection carries bytes between the client's socket, where they are encrypted, and one end of a
//! pair of sockets, at whose other end the client is served like any other.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::Error;
use crate::deadline::{HANDSHAKE, Timed, ready};
use crate::listen::Stream;

/// Bytes that are carried at a time.
const PART: usize = 64 << 10;
/// How long the last bytes of a connection may take to leave.
const FAREWELL: Duration = Duration::from_secs(5);

/// Who the server is, and whom it serves.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Of a directory with `server-cert.pem`, `server-key.pem` and `ca-cert.pem`: clients must have a certificate of
    /// that authority. These are the names that QEMU, nbdkit and libnbd use.
    ///
    /// # Errors
    /// If a file is missing or makes no sense.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let bad = |name: &str, e: &dyn std::fmt::Display| {
            let (file, all) = (dir.join(name), "ca-cert.pem, server-cert.pem and server-key.pem");
            Error::input(format!(
                "--tls-certificates: {}: {e}; expected a directory with {all}",
                file.display()
            ))
        };
        let certificates = |name: &str| {
            let all = CertificateDer::pem_file_iter(dir.join(name)).map_err(|e| bad(name, &e))?;
            let all = all.collect::<Result<Vec<_>, _>>().map_err(|e| bad(name, &e))?;
            if all.is_empty() { Err(bad(name, &"no certificate in it")) } else { Ok(all) }
        };
        let (ca, cert, key) = ("ca-cert.pem", "server-cert.pem", "server-key.pem");
        let mut authorities = RootCertStore::empty();
        for certificate in certificates(ca)? {
            authorities.add(certificate).map_err(|e| bad(ca, &e))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider.clone());
        let clients = clients.build().map_err(|e| bad(ca, &e))?;
        let secret = PrivateKeyDer::from_pem_file(dir.join(key)).map_err(|e| bad(key, &e))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| bad(cert, &e))?
            .with_client_cert_verifier(clients)
            .with_single_cert(certificates(cert)?, secret)
            .map_err(|e| bad(cert, &e))?;
        Ok(Self(Arc::new(config)))
    }

    /// The handshake with a client.
    ///
    /// # Errors
    /// If it fails, or takes too long.
    pub(crate) fn accept(&self, stream: &Stream) -> io::Result<Secured> {
        let by = Instant::now() + HANDSHAKE;
        let mut connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            if connection.wants_write() {
                send_some(&mut connection, stream)?;
                if connection.wants_write() {
                    ready(stream.fd(), PollFlags::OUT, by)?;
                }
                continue;
            }
            if connection.read_tls(&mut Timed::until(stream, by))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(e) = connection.process_new_packets() {
                // The client is told why.
                let _ = send_some(&mut connection, stream);
                return Err(io::Error::other(e));
            }
        }
        Ok(Secured { connection })
    }
}

/// A connection whose handshake is done.
pub(crate) struct Secured {
    connection: ServerConnection,
}

/// The client's socket, which is never waited for.
struct Outside<'a>(&'a Stream);

impl Read for Outside<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.fd(), buf, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Outside<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(send(self.0.fd(), buf, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn not_now(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Sends what the socket takes at once.
fn send_some(connection: &mut ServerConnection, stream: &Stream) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(&mut Outside(stream)) {
            Ok(_) => {}
            Err(e) if not_now(&e) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Secured {
    /// Has the client served by `serve`, at the end of a connection where its bytes are plain; a thread of this name
    /// carries them.
    pub fn serve(
        self,
        stream: &Stream,
        thread: &str,
        serve: impl FnOnce(&Arc<Stream>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (ours, inside) = UnixStream::pair()?;
        std::thread::scope(|scope| {
            let carrier = std::thread::Builder::new().name(thread.into());
            carrier.spawn_scoped(scope, || self.carry(stream, &inside))?;
            let ours = Arc::new(Stream::Unix(ours));
            let result = serve(&ours);
            ours.shut(Shutdown::Both);
            result
        })
    }

    /// Carries bytes between the client and whoever serves it at the other end of `inside`, until that one is done or
    /// the connection fails.
    fn carry(mut self, stream: &Stream, inside: &UnixStream) {
        let _ = self.carry_all(stream, inside);
        let _ = inside.shutdown(Shutdown::Both);
        self.connection.send_close_notify();
        let by = Instant::now() + FAREWELL;
        while self.connection.wants_write()
            && send_some(&mut self.connection, stream).is_ok()
            && ready(stream.fd(), PollFlags::OUT, by).is_ok()
        {}
        stream.shut(Shutdown::Both);
    }

    fn carry_all(&mut self, stream: &Stream, inside: &UnixStream) -> io::Result<()> {
        let connection = &mut self.connection;
        connection.set_buffer_limit(None);
        let mut part = vec![0; PART];
        // What the client sent and the server has not taken.
        let (mut plain, mut given) = (Vec::new(), 0);
        let mut ended = false;
        loop {
            // Data may have come with the end of the handshake.
            if plain.is_empty() {
                match connection.reader().read(&mut part) {
                    Ok(0) => ended = true,
                    Ok(n) => plain.extend(&part[..n]),
                    Err(e) if not_now(&e) => {}
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => ended = true,
                    Err(e) => return Err(e),
                }
                if ended && plain.is_empty() {
                    let _ = inside.shutdown(Shutdown::Write);
                }
            }
            let mut sides = [PollFlags::empty(); 2];
            if plain.is_empty() && !ended {
                sides[0] |= PollFlags::IN;
            }
            if connection.wants_write() {
                sides[0] |= PollFlags::OUT;
            } else {
                sides[1] |= PollFlags::IN;
            }
            if !plain.is_empty() {
                sides[1] |= PollFlags::OUT;
            }
            let fds: [BorrowedFd<'_>; 2] = [stream.fd(), inside.as_fd()];
            let mut polled = [0, 1].map(|n| PollFd::from_borrowed_fd(fds[n], sides[n]));
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            let [outer, inner] = polled.map(|side| side.revents());
            let broken = PollFlags::HUP | PollFlags::ERR;
            // A side of which nothing is wanted any more, and that is gone, would be told of again and again.
            if outer.intersects(broken) && !sides[0].intersects(PollFlags::IN) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if sides[0].contains(PollFlags::IN) && !outer.is_empty() {
                match connection.read_tls(&mut Outside(stream)) {
                    Ok(0) => ended = true,
                    Ok(_) => {
                        connection.process_new_packets().map_err(io::Error::other)?;
                    }
                    Err(e) if not_now(&e) => {}
                    Err(e) => return Err(e),
                }
            }
            if !plain.is_empty() {
                match send(inside, &plain[given..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(n) => given += n,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
                if given == plain.len() {
                    plain.clear();
                    given = 0;
                }
            }
            if sides[1].contains(PollFlags::IN) && !inner.is_empty() {
                match recv(inside, &mut part, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Ok(()),
                    Ok((n, _)) => connection.writer().write_all(&part[..n])?,
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            send_some(connection, stream)?;
        }
    }
}

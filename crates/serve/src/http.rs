//! What a served drive is doing, by HTTP: a page for people, JSON for `nandle stat` and `nandle top`,
//! Prometheus' text format.
//!
//! Only GET and HEAD, of finished texts ([`crate::live`]): a client costs the drive nothing, however
//! slow or hostile it is. A request has `PATIENCE` to come whole and its answer as long to leave.

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Error;
use crate::deadline::{Timed, send_all};
use crate::listen::{Clients, Listening, Manner, Place, Stream};
use crate::live::Watcher;

/// Clients at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 32;
/// The port if none is given.
pub const PORT: u16 = 8420;
/// Bytes of a request's head.
const MOST_HEAD: usize = 8 << 10;
/// Fields of a request's head.
const MOST_FIELDS: usize = 64;
/// Bytes of an answer that is taken by [`get`].
const MOST_ANSWER: u64 = 64 << 20;
/// How long a request may take to come, and its answer to leave; also how long a client may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client that was refused is heard out.
const FAREWELL: Duration = Duration::from_secs(1);

const PAGE_HEAD: &str = include_str!("live/head.html");
const PAGE_BODY: &str = include_str!("live/body.html");

/// Where to listen, or to ask: `unix:PATH`, `HOST:PORT`, `:PORT`, `PORT` or `HOST`; loopback if no host is
/// given, port [`PORT`] if no port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub Place);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Place::parse(text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/'), PORT)
            .or_else(|_| Place::parse(text, PORT))
            .map(Self)
    }
}

impl Address {
    /// The same with other permissions, if it is a socket in the file system.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        Self(self.0.with_mode(mode))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Tcp(at) => write!(f, "http://{at}/"),
            Place::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A port or socket at which the page is shown, until dropped.
pub struct Server {
    listening: Listening<()>,
}

impl Server {
    /// Listens at `address` and shows what `watcher` sees to whoever comes, until dropped.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(address: &Address, watcher: Watcher) -> Result<Self, Error> {
        let manner = Manner { option: "--http", thread: "http", most: MOST_CLIENTS };
        let names = match &address.0 {
            Place::Tcp(_) => Some(Names::of_this_machine()),
            Place::Unix { .. } => None,
        };
        let serve = move |stream: &Arc<Stream>, slot, clients: &Clients<()>| {
            let _ = converse(stream, &watcher, names.as_ref(), &|| clients.comes_again(slot));
        };
        Ok(Self { listening: Listening::start(&address.0, manner, serve)? })
    }

    /// Where it listens, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Address {
        Address(self.listening.place().clone())
    }
}

/// The names under which this server may be meant. A page of another site whose name has come to stand for this
/// machine's address (DNS rebinding) asks for it under that name.
struct Names {
    machine: String,
}

impl Names {
    fn of_this_machine() -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { machine }
    }

    /// Whether all names in the request are addresses, `localhost` or this machine's name.
    fn are_meant(&self, request: &Request) -> bool {
        request.hosts.iter().all(|host| {
            let name = match host.rsplit_once(':') {
                Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
                _ => host,
            };
            let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
            let known = ["localhost", self.machine.as_str()];
            address.parse::<IpAddr>().is_ok() || known.iter().any(|known| name.eq_ignore_ascii_case(known))
        })
    }
}

/// What is asked.
struct Request {
    /// Whom the client means.
    hosts: Vec<String>,
    path: String,
    /// The answer has no body.
    head: bool,
    /// The connection stays.
    keep: bool,
}

/// What is answered.
struct Answer {
    status: (u16, &'static str),
    kind: &'static str,
    body: Body,
}

enum Body {
    Text(String),
    Live(Arc<crate::live::View>),
    Metrics(Arc<crate::live::View>),
    Summary(Arc<String>),
}

impl Body {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Live(view) => &view.live,
            Self::Metrics(view) => &view.metrics,
            Self::Summary(text) => text,
        }
    }
}

type Status = (u16, &'static str);
const OK: Status = (200, "OK");
const BAD_REQUEST: Status = (400, "Bad Request");
const NOT_FOUND: Status = (404, "Not Found");
const NOT_ALLOWED: Status = (405, "Method Not Allowed");
const TIMEOUT: Status = (408, "Request Timeout");
const MISDIRECTED: Status = (421, "Misdirected Request");
const TOO_LARGE: Status = (413, "Content Too Large");
const HEAD_TOO_LARGE: Status = (431, "Request Header Fields Too Large");
const GONE: Status = (503, "Service Unavailable");
const VERSION: Status = (505, "HTTP Version Not Supported");

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

fn refusal(status: Status) -> Answer {
    Answer { status, kind: PLAIN, body: Body::Text(format!("{} {}\n", status.0, status.1)) }
}

fn converse(
    stream: &Stream,
    watcher: &Watcher,
    names: Option<&Names>,
    comes_again: &dyn Fn(),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let request = match receive(stream, &mut bytes)? {
            Some(Ok(request)) if names.is_some_and(|names| !names.are_meant(&request)) => {
                send(stream, &refusal(MISDIRECTED), request.head, false)?;
                return drain(stream);
            }
            Some(Ok(request)) => request,
            Some(Err(status)) => {
                send(stream, &refusal(status), false, false)?;
                return drain(stream);
            }
            None => return Ok(()),
        };
        send(stream, &answer(&request.path, watcher), request.head, request.keep)?;
        if !request.keep {
            return Ok(());
        }
        comes_again();
    }
}

/// Reads the head of a request; what came after it stays in `bytes`. None if there is none.
fn receive(stream: &Stream, bytes: &mut Vec<u8>) -> io::Result<Option<Result<Request, Status>>> {
    let mut reader = Timed::until(stream, Instant::now() + PATIENCE);
    loop {
        match parse(bytes) {
            Ok(Some((request, used))) => {
                bytes.drain(..used);
                return Ok(Some(Ok(request)));
            }
            Ok(None) if bytes.len() >= MOST_HEAD => return Ok(Some(Err(HEAD_TOO_LARGE))),
            Ok(None) => {}
            Err(status) => return Ok(Some(Err(status))),
        }
        let mut part = [0; 2048];
        match reader.read(&mut part) {
            Ok(0) => return Ok(None),
            Ok(n) => bytes.extend(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                return Ok(if bytes.is_empty() { None } else { Some(Err(TIMEOUT)) });
            }
            Err(e) => return Err(e),
        }
    }
}

/// The request at the beginning of `bytes`, and the bytes of its head; none if it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Status> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HEAD_TOO_LARGE),
        Err(httparse::Error::Version) => return Err(VERSION),
        Err(_) => return Err(BAD_REQUEST),
    };
    let head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(NOT_ALLOWED),
    };
    let mut hosts = vec![];
    let mut keep = request.version == Some(1);
    for field in &*request.headers {
        let value = std::str::from_utf8(field.value).map_err(|_| BAD_REQUEST)?.trim();
        if field.name.eq_ignore_ascii_case("connection") {
            let has = |word: &str| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
            keep = (keep || has("keep-alive")) && !has("close");
        }
        if field.name.eq_ignore_ascii_case("host") {
            hosts.push(value.to_owned());
        }
        // A body would have to be read past; nothing here has a use for one.
        let body = field.name.eq_ignore_ascii_case("content-length") && value != "0"
            || field.name.eq_ignore_ascii_case("transfer-encoding");
        if body {
            return Err(TOO_LARGE);
        }
    }
    let mut target = request.path.unwrap_or("/");
    // RFC 9112, section 3.2: exactly one name; that of an absolute target goes first.
    if request.version == Some(1) && hosts.len() != 1 || hosts.len() > 1 {
        return Err(BAD_REQUEST);
    }
    if let Some((scheme, rest)) = target.split_once("://")
        && scheme.eq_ignore_ascii_case("http")
    {
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        hosts = vec![host.to_owned()];
        target = if path.starts_with('/') { path } else { "/" };
    }
    let path = target.split(['?', '#']).next().unwrap_or("/").to_owned();
    Ok(Some((Request { hosts, path, head, keep }, used)))
}

fn answer(path: &str, watcher: &Watcher) -> Answer {
    let good = |kind, body| Answer { status: OK, kind, body };
    match path {
        "/" => good("text/html; charset=utf-8", Body::Text(page())),
        "/live.json" => good(JSON, Body::Live(watcher.view())),
        "/metrics" => good("text/plain; version=0.0.4; charset=utf-8", Body::Metrics(watcher.view())),
        "/summary.json" => watcher.summary().map_or_else(|| refusal(GONE), |s| good(JSON, Body::Summary(s))),
        _ => refusal(NOT_FOUND),
    }
}

/// The page: one file that asks for nothing but `live.json`.
#[must_use]
pub fn page() -> String {
    let style = nandle_lab::report::STYLE;
    format!("{PAGE_HEAD}<style>\n{style}</style>\n{PAGE_BODY}")
}

fn send(stream: &Stream, answer: &Answer, head: bool, keep: bool) -> io::Result<()> {
    let (code, reason) = answer.status;
    let body = answer.body.text();
    let mut bytes = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:\r\n{}{}\r\n",
        answer.kind,
        body.len(),
        if code == NOT_ALLOWED.0 { "Allow: GET, HEAD\r\n" } else { "" },
        if keep { "" } else { "Connection: close\r\n" },
    )
    .into_bytes();
    if !head {
        bytes.extend(body.as_bytes());
    }
    send_all(stream, &bytes, Instant::now() + PATIENCE)
}

/// Hears a client out for a moment: a connection that is closed over unread bytes is reset, and the
/// answer with it.
fn drain(stream: &Stream) -> io::Result<()> {
    stream.shut(Shutdown::Write);
    let mut reader = Timed::until(stream, Instant::now() + FAREWELL);
    while reader.read(&mut [0; 2048])? > 0 {}
    Ok(())
}

/// Asks a server at `address` for `path`; the body.
///
/// # Errors
/// If nobody is there, the answer is not there as a whole within 10 seconds, or it is none with 200.
pub fn get(address: &Address, path: &str) -> io::Result<String> {
    ask(address, path, PATIENCE)
}

fn ask(address: &Address, path: &str, patience: Duration) -> io::Result<String> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no whole answer within {patience:?}"));
    let timed_out = |e: &io::Error| e.kind() == io::ErrorKind::TimedOut;
    ask_by(address, path, Instant::now() + patience).map_err(|e| if timed_out(&e) { late() } else { e })
}

fn ask_by(address: &Address, path: &str, by: Instant) -> io::Result<String> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let stream = address.0.connect(by)?;
    let host = match &address.0 {
        Place::Tcp(at) => at.to_string(),
        Place::Unix { .. } => "localhost".into(),
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    send_all(&stream, request.as_bytes(), by)?;
    let mut bytes = Vec::new();
    Timed::until(&stream, by).take(MOST_ANSWER).read_to_end(&mut bytes)?;
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let head = match response.parse(&bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        _ => return Err(bad("not an answer by HTTP")),
    };
    let length = response.headers.iter().find(|f| f.name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> = length.and_then(|f| std::str::from_utf8(f.value).ok()?.trim().parse().ok());
    let body = bytes.get(head..).unwrap_or_default();
    if length.is_none_or(|length| length != body.len()) {
        return Err(bad("an answer that is not whole"));
    }
    match response.code {
        Some(200) => String::from_utf8(body.to_vec()).map_err(|_| bad("an answer that is no text")),
        code => Err(bad(&format!("status {}", code.unwrap_or(0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_taken_or_refused() {
        let status =
            |text: &str| parse(text.as_bytes()).map(|r| r.map(|(r, used)| (r.path, r.head, r.keep, used)));
        let get = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        let path = |text: &str| status(text).map(|r| r.map(|r| r.0));
        assert_eq!(status(&format!("{get}GET")), Ok(Some(("/metrics".into(), false, true, get.len()))));
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n").map(|r| r.map(|r| r.2)), Ok(Some(false)));
        assert_eq!(
            status("HEAD / HTTP/1.1\r\nHost: a\r\nconnection: x, Close\r\n\r\n")
                .map(|r| r.map(|r| (r.1, r.2))),
            Ok(Some((true, false)))
        );
        assert_eq!(status("GET / HTTP/1.1\r\nHos"), Ok(None));
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), Err(NOT_ALLOWED));
        assert_eq!(status("GET / HTTP/2.0\r\n\r\n"), Err(VERSION));
        assert_eq!(status("\x16\x03\x01\x02"), Err(BAD_REQUEST));
        assert_eq!(status("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"), Err(TOO_LARGE));
        assert_eq!(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(TOO_LARGE));
        // RFC 9112, section 3.2: an HTTP/1.1 request has one Host, also if its target is absolute.
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), Err(BAD_REQUEST));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), Err(BAD_REQUEST));
        for (target, expected) in [
            ("http://localhost:1/metrics", "/metrics"),
            ("HTTP://[::1]/live.json?x", "/live.json"),
            ("http://localhost", "/"),
            ("http://localhost?x/y", "/"),
            ("ftp://localhost/", "ftp://localhost/"),
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(path(&text), Ok(Some(expected.into())), "{target}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MOST_FIELDS + 1));
        assert_eq!(status(&many), Err(HEAD_TOO_LARGE));
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let names = Names { machine: "work".into() };
        let meant = |target: &str, host: &str| {
            let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let request = parse(text.as_bytes()).ok().flatten().expect("a request").0;
            names.are_meant(&request)
        };
        for good in
            ["127.0.0.1:8420", "[::1]:8420", "[fe80::1]", "192.0.2.1", "localhost", "LocalHost:1", "Work:80"]
        {
            assert!(meant("/", good) && meant(&format!("http://{good}/"), "example.org"), "{good}");
        }
        for bad in
            ["example.org", "127.0.0.1.example.org:8420", "localhost.example.org", "work.example.org", ""]
        {
            assert!(!meant("/", bad) && !meant(&format!("http://{bad}/"), "localhost"), "{bad}");
        }
        let old = parse(b"GET / HTTP/1.0\r\n\r\n").ok().flatten().expect("a request").0;
        assert!(names.are_meant(&old), "HTTP/1.0 needs no name");
    }

    #[test]
    fn a_server_that_drips_is_not_waited_for() {
        use std::io::Write;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = Address(Place::Tcp(listener.local_addr().expect("an address")));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let began = Instant::now();
        let e = ask(&at, "/", Duration::from_millis(200)).expect_err("no answer");
        assert!(e.to_string().contains("no whole answer within 200ms"), "{e}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn addresses_have_a_port_of_their_own() {
        let shown = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        for (text, at) in [
            ("localhost", "http://127.0.0.1:8420/"),
            ("8421", "http://127.0.0.1:8421/"),
            ("http://127.0.0.1:9/", "http://127.0.0.1:9/"),
            ("unix:x", "unix:x"),
            ("/run/x", "unix:/run/x"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(at), "{text}");
        }
        assert!(shown("host:x").is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..300), likely: bool) {
            let mut all = if likely { b"GET / HTTP/1.1\r\nA: ".to_vec() } else { vec![] };
            all.extend(&bytes);
            if let Ok(Some((_, used))) = parse(&all) {
                prop_assert!(used <= all.len());
            }
        }
    }
}

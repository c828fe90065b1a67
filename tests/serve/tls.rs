//! Goal: NBD and NVMe/TCP by TLS are the same disk, for clients with a certificate and for nobody else.
//! Method: the real server; nbdinfo, nbdcopy and qemu-img as clients where they are installed, and our initiator through
//! a tunnel of OpenSSL's own client, with certificates made for the test; and bytes of our own where nothing secret was
//! agreed on.
#![cfg(target_os = "linux")]

use crate::served;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nandle_serve::nbd::wire::{self, option, reply};
use nandle_serve::nvme_tcp::host::{Host, Options, blocks, check};
use nandle_serve::nvme_tcp::wire::op;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use served::{SMALL, Served, good, has};

/// A directory with an authority, and a certificate of it for `who`.
fn certificates(dir: &Path, issuer: &(String, Issuer<'_, KeyPair>), who: &str) {
    let purpose = match who {
        "server" => ExtendedKeyUsagePurpose::ServerAuth,
        _ => ExtendedKeyUsagePurpose::ClientAuth,
    };
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("names");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![purpose];
    // One of the authority's name would look as if it had signed itself.
    params.distinguished_name.push(DnType::CommonName, who);
    let certificate = params.signed_by(&key, &issuer.1).expect("a certificate");
    std::fs::create_dir_all(dir).expect("a directory");
    let write = |name: String, text: &str| std::fs::write(dir.join(name), text).expect("written");
    write("ca-cert.pem".into(), &issuer.0);
    write(format!("{who}-cert.pem"), &certificate.pem());
    write(format!("{who}-key.pem"), &key.serialize_pem());
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let pem = params.self_signed(&key).expect("a certificate").pem();
    (pem, Issuer::new(params, key))
}

/// What a program that must fail says.
fn bad(program: &str, args: &[&str], dir: &Path) -> String {
    let out = Command::new(program).args(args).current_dir(dir).output().expect("it starts");
    assert!(!out.status.success(), "{program} {args:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn clients_with_a_certificate_have_the_disk_and_others_do_not() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path();
    let (ours, theirs) = (authority(), authority());
    certificates(&dir.join("pki"), &ours, "server");
    certificates(&dir.join("friend"), &ours, "client");
    certificates(&dir.join("stranger"), &theirs, "client");
    // A stranger may know whom to trust.
    std::fs::copy(dir.join("pki/ca-cert.pem"), dir.join("stranger/ca-cert.pem")).expect("copied");
    let args = ["--timing", "off", "--tls-certificates", "pki", "--nbd", "127.0.0.1:0"];
    let mut server = Served::start(dir, &[SMALL, &args].concat());
    let _unix = server.line("nbd");
    let at = server.line("nbd").trim().rsplit_once(':').expect("a port").1.to_owned();
    let uri =
        |who: &str| format!("nbds://localhost:{at}/nandle?tls-certificates={}", dir.join(who).display());
    // In the clear there is nothing but the way to TLS, and nothing is taken along into it.
    let mut plain = std::net::TcpStream::connect(format!("127.0.0.1:{at}")).expect("a connection");
    let ask = |number: u32| {
        let head = [wire::IHAVEOPT.to_be_bytes().to_vec(), number.to_be_bytes().to_vec()].concat();
        [head, 0_u32.to_be_bytes().to_vec()].concat()
    };
    plain.write_all(&[3_u32.to_be_bytes().to_vec(), ask(option::LIST)].concat()).expect("sent");
    let mut said = [0; 18 + 20];
    plain.read_exact(&mut said).expect("a greeting and an answer");
    assert_eq!(wire::u32_at(&said, 18 + 12), Some(reply::ERR_TLS_REQD));
    drop(plain);
    let mut smuggler = std::net::TcpStream::connect(format!("127.0.0.1:{at}")).expect("a connection");
    let early = [3_u32.to_be_bytes().to_vec(), ask(option::STARTTLS), ask(option::LIST)].concat();
    smuggler.write_all(&early).expect("sent");
    let mut all = vec![];
    let _ = smuggler.read_to_end(&mut all);
    assert!(all.len() <= 18 + 20, "{all:?}");
    if has("nbdinfo") && has("nbdcopy") {
        let info = good("nbdinfo", &[&uri("friend")], dir);
        assert!(info.contains("newstyle-fixed with TLS") && info.contains("can_multi_conn: true"), "{info}");
        for (who, uri) in
            [("stranger", uri("stranger")), ("in the clear", format!("nbd://localhost:{at}/nandle"))]
        {
            let why = bad("nbdinfo", &[&uri], dir);
            assert!(!why.is_empty(), "{who}");
        }
        // Several connections, large requests, both ways.
        let bytes =
            good("nbdinfo", &["--size", &uri("friend")], dir).trim().parse::<usize>().expect("a size");
        let data: Vec<u8> =
            (0..bytes as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
        std::fs::write(dir.join("data"), &data).expect("written");
        good("nbdcopy", &["--connections=3", "data", &uri("friend")], dir);
        good("nbdcopy", &["--connections=3", &uri("friend"), "back"], dir);
        assert!(std::fs::read(dir.join("back")).expect("copied") == data, "read back something else");
    }
    if has("qemu-img") {
        let secret = format!("tls-creds-x509,id=t,endpoint=client,dir={}", dir.join("friend").display());
        let image = format!("driver=nbd,host=localhost,port={at},export=nandle,tls-creds=t");
        let asked = ["info", "--object", &secret, "--image-opts", &image];
        assert!(good("qemu-img", &asked, dir).contains("virtual size"));
    }
    server.stop();
}

#[test]
fn certificates_that_make_no_sense_are_refused() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path();
    let serve = || {
        let args = ["serve", "--nbd", "unix:socket", "--tls-certificates", "pki"];
        let out = Command::new(served::program()).args(args).current_dir(dir).output().expect("it runs");
        assert_eq!(out.status.code(), Some(2));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(serve().contains("pki/ca-cert.pem"), "{}", serve());
    certificates(&dir.join("pki"), &authority(), "server");
    for name in ["ca-cert.pem", "server-cert.pem", "server-key.pem"] {
        let path = dir.join("pki").join(name);
        let good = std::fs::read(&path).expect("there");
        std::fs::write(&path, "nothing").expect("written");
        let said = serve();
        assert!(said.contains(name) && said.lines().count() == 1, "{said}");
        std::fs::write(&path, good).expect("written");
    }
}

/// Carries bytes until there are none. Not `io::copy`: a splice keeps the pipe's other end from reading.
fn carry(mut from: impl Read, mut to: impl Write) {
    let mut part = [0; 8192];
    while let Ok(n @ 1..) = from.read(&mut part) {
        if to.write_all(&part[..n]).is_err() {
            return;
        }
    }
}

/// An address where each connection is carried to `to` by a process of OpenSSL's client, as `who`.
fn tunnel(to: SocketAddr, who: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let run = move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut carrier = Command::new("openssl")
                .args([
                    "s_client",
                    "-quiet",
                    "-verify_quiet",
                    "-verify_return_error",
                    "-CAfile",
                    "ca-cert.pem",
                ])
                .args(["-cert", "client-cert.pem", "-key", "client-key.pem", "-connect", &to.to_string()])
                .current_dir(&who)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("openssl");
            let (into, from) =
                (carrier.stdin.take().expect("a pipe"), carrier.stdout.take().expect("a pipe"));
            let reader = client.try_clone().expect("a second handle");
            std::thread::spawn(move || carry(reader, into));
            std::thread::spawn(move || {
                carry(from, &client);
                let _ = client.shutdown(Shutdown::Both);
                let _ = carrier.kill();
                let _ = carrier.wait();
            });
        }
    };
    std::thread::spawn(run);
    at
}

#[test]
fn hosts_with_a_certificate_have_the_namespace_and_others_do_not() {
    if !has("openssl") {
        return;
    }
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = temp.path();
    let (ours, theirs) = (authority(), authority());
    certificates(&dir.join("pki"), &ours, "server");
    certificates(&dir.join("friend"), &ours, "client");
    certificates(&dir.join("stranger"), &theirs, "client");
    std::fs::copy(dir.join("pki/ca-cert.pem"), dir.join("stranger/ca-cert.pem")).expect("copied");
    let args = ["--timing", "off", "--tls-certificates", "pki", "--nvme-tcp", "127.0.0.1:0"];
    let mut server = Served::start(dir, &[SMALL, &args].concat());
    let at = server.nvme();
    let patience = Some(std::time::Duration::from_secs(20));
    let options = Options { patience, ..Options::default() };
    // In the clear nothing is answered but that TLS was expected.
    let mut plain = TcpStream::connect(at).expect("a connection");
    let mut initialise = [0; 128];
    (initialise[2], initialise[4]) = (128, 128);
    plain.write_all(&initialise).expect("sent");
    let mut said = vec![];
    let _ = plain.read_to_end(&mut said);
    assert!(
        said.len() < 16 && said.first().is_none_or(|&kind| kind == 0x15),
        "an alert, or nothing: {said:?}"
    );
    assert!(Host::connect(tunnel(at, dir.join("stranger")), &options).is_err(), "a stranger is served");
    let mut host = Host::connect(tunnel(at, dir.join("friend")), &options).expect("a subsystem");
    let data: Vec<u8> = (0..64_u32 << 10).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    for lba in [0, 64, 200] {
        check(&host.io.command(blocks(op::WRITE, lba, 64), &data, 0).expect("an answer")).expect("written");
    }
    for lba in [0, 64, 200] {
        let done = host.io.command(blocks(op::READ, lba, 64), &[], 64 * 4096).expect("an answer");
        assert!(done.data == data, "block {lba}");
    }
    server.stop();
}

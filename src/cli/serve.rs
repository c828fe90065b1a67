//! `nandle serve`: a drive and its transports, from start to end; `nandle flashalloc`, which talks to one.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nandle_host::drive::Refusal;
use nandle_lab::config::{self, Drive, SchemeNames};
use nandle_lab::measure::{Context, summarise};
use nandle_lab::memory;
use nandle_lab::units::bytes;
use nandle_serve::driver::End;
use nandle_serve::listen::Place;
use nandle_serve::live::{self, Monitor};
use nandle_serve::tls::Tls;
use nandle_serve::{Device, Driver, Ended, Options, Timing, ctl, fuse, http, image, nbd, nvme_tcp};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};

use super::terminal::{Failure, put, remark, say};
use super::{args, outputs};
use crate::table;

/// How long a drive may take to take a connection, and then for each object.
const PATIENCE: Duration = Duration::from_secs(10);
/// Schemes that are simulated beside the served one.
const MOST_SHADOWS: usize = 8;

/// Places of damage that are told of.
const MOST_DAMAGE: usize = 50;

impl From<nandle_serve::Error> for Failure {
    fn from(e: nandle_serve::Error) -> Self {
        if e.is_input() { Self::Input(e.to_string()) } else { Self::Ran(e.to_string()) }
    }
}

/// `nandle serve`
pub fn serve(args: Box<args::Serve>) -> Result<(), Failure> {
    let none = args.nbd.is_empty() && args.nvme_tcp.is_empty() && args.vhost_user.is_empty();
    if none && args.fuse.is_none() && args.ublk.is_none() {
        return Err(Failure::Input(
            "nandle serve: nobody could reach the device; expected --nbd ADDR, --nvme-tcp ADDR, --ublk, --fuse DIR or --vhost-user SOCKET (or several)"
                .into(),
        ));
    }
    if args.tls_certificates.is_some() && args.nbd.is_empty() && args.nvme_tcp.is_empty() {
        return Err(Failure::Input(
            "--tls-certificates: neither NBD nor NVMe/TCP is served; expected --nbd ADDR or --nvme-tcp ADDR with it"
                .into(),
        ));
    }
    outputs::check(args.image.as_deref(), args.record.as_deref(), args.json.as_deref())?;
    warn_of_strangers(&args);
    if args.power_cut_after.is_some() && args.image.is_none() {
        return Err(Failure::Input(
            "--power-cut-after: nothing would be left of a device in memory; expected --image FILE with it"
                .into(),
        ));
    }
    // A file that may not grow is an error to tell of, no end.
    signal_hook::flag::register(SIGXFSZ, Arc::default())
        .map_err(|e| Failure::Ran(format!("signals: {e}")))?;
    let (drive, opened) = device(&args)?;
    let state = match &opened {
        Some(image::Opened { array: None, .. }) => "new",
        Some(image::Opened { damage, .. }) if !damage.is_empty() => "as it was left, damaged",
        _ => "as it was left",
    };
    let files = match opened.as_ref().map_or(1, |opened| opened.files) {
        1 => String::new(),
        several => format!(", in {several} files"),
    };
    let shadows = shadows(&args, &drive)?;
    let timing = match args.timing {
        args::Timing::Real => Timing::Real,
        args::Timing::Off => Timing::Off,
        args::Timing::None => Timing::None,
    };
    let options = Options {
        timing,
        dilation: args.dilation,
        seed: args.seed,
        power_cut_after: args.power_cut_after,
        record: args.record.clone(),
        shadows,
    };
    let (driver, device) = Driver::start(&drive, opened, &options)?;
    let most = drive.config.geometry.raw_bytes();
    if let Some((there, whose)) = memory::available()
        && most > there
    {
        let (most, there) = (bytes(most), bytes(there));
        remark(&format!(
            "nandle: note: contents are kept in memory, {most} once all of it is written; {there} are to be had ({whose})"
        ));
    }
    let name = &drive.config.name;
    let scheme = drive.scheme();
    let size = bytes(drive.layout.logical_bytes);
    let sector = drive.config.geometry.sector_bytes;
    let mut text = format!("{name} | {scheme} | {size} in sectors of {sector} bytes\n");
    let about = format!("{name} ({scheme})");
    let tls = args.tls_certificates.as_deref().map(Tls::load).transpose()?;
    let servers = args
        .nbd
        .iter()
        .map(|at| {
            nbd::Server::start(&at.clone().with_mode(args.socket_mode), device.clone(), &about, tls.as_ref())
        })
        .collect::<Result<Vec<_>, _>>()?;
    for server in &servers {
        text += &format!("nbd    {}\n", server.address());
    }
    // The same device from the same image keeps its name; two devices on a machine have two.
    let path = args.image.as_deref().map(|path| std::fs::canonicalize(path).unwrap_or(path.to_owned()));
    let identity = format!("{name} {} {} {path:?}", drive.resolved_scheme(), args.seed);
    let hosts = args
        .nvme_tcp
        .iter()
        .map(|at| {
            let model = nvme_tcp::model::Model::new(&drive.config, device.shape(), &identity);
            nvme_tcp::Server::start(*at, device.clone(), model, tls.as_ref())
        })
        .collect::<Result<Vec<_>, _>>()?;
    for host in &hosts {
        let at = host.address().0;
        let how = if tls.is_some() { " (through a tunnel of TLS)" } else { "" };
        text +=
            &format!("nvme   nvme connect -t tcp -a {} -s {} -n {}{how}\n", at.ip(), at.port(), host.nqn());
    }
    let guests = args
        .vhost_user
        .iter()
        .map(|path| guests(path, args.socket_mode, &device))
        .collect::<Result<Vec<_>, _>>()?;
    for path in &args.vhost_user {
        text += &format!("vhost  {}\n", path.display());
    }
    let mounted = args.fuse.as_deref().map(|path| fuse::mount(path, device.clone())).transpose()?;
    if let Some(mounted) = &mounted {
        text += &format!("fuse   {}\n", mounted.file().display());
    }
    let disk = args.ublk.map(|number| ublk::Server::prepare(number, &device)).transpose()?;
    if let Some(disk) = &disk {
        text += &format!("ublk   {}\n", disk.path().display());
    }
    if let Some(path) = &args.image {
        text += &format!("image  {} ({state}{files})\n", path.display());
    }
    if !options.shadows.is_empty() {
        let names: Vec<String> = driver.shadows().iter().map(|s| s.scheme().to_owned()).collect();
        text += &format!("shadow {}\n", names.join(", "));
        if state != "new" && args.image.is_some() {
            text += "       (they begin as new drives, without what is in the image)\n";
        }
    }
    let control = args
        .ctl
        .as_deref()
        .map(|path| ctl::Server::start(path, args.socket_mode, &device, &drive, args.seed))
        .transpose()?;
    if let Some(path) = control.as_ref().and_then(ctl::Server::path) {
        text += &format!("ctl    {}\n", path.display());
    }
    let monitor = if args.http.is_empty() {
        None
    } else {
        Some(Monitor::start(&drive, device.clone(), driver.shadows(), timing, args.seed)?)
    };
    let watcher = monitor.iter().map(Monitor::watcher).collect::<Vec<_>>();
    let pages = args.http.iter().zip(watcher.iter().cycle());
    let pages = pages
        .map(|(at, w)| http::Server::start(&at.clone().with_mode(args.socket_mode), w.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    for page in &pages {
        text += &format!("http   {}\n", page.address());
    }
    listen_for_signals(device.clone(), disk.as_ref().map(ublk::Server::handle))?;
    let is_block_device = disk.is_some();
    let run = move || {
        if is_block_device {
            ublk::serves_the_kernel();
        }
        driver.run()
    };
    let fail = |e: std::io::Error| Failure::Ran(format!("a thread for the drive: {e}"));
    let running = std::thread::Builder::new().name("drive".into()).spawn(run).map_err(fail)?;
    // The kernel reads from a new block device before it says that it is there: the drive must run.
    let started = disk.as_ref().map_or(Ok(()), |disk| disk.start().map_err(Failure::from));
    let told = started.and_then(|()| say(&text));
    if told.is_err() {
        device.stop();
    }
    let ended = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    told?;
    let mut ended = ended?;
    if let Some(disk) = disk {
        let path = disk.path();
        if !disk.end()? {
            remark(&format!("nandle: {} is in use: it goes when it is unmounted and closed", path.display()));
        }
    }
    drop(control);
    drop(pages);
    drop(monitor);
    drop(servers);
    drop(hosts);
    drop(guests);
    drop(mounted);
    // The last answers have left only now.
    if let Some(punctuality) = &mut ended.report.punctuality {
        *punctuality = device.punctuality();
    }
    conclude(&args, drive.names(), &ended)
}

/// Says which addresses others than this machine may reach.
fn warn_of_strangers(args: &args::Serve) {
    let nvme = args.nvme_tcp.iter().map(|at| ("--nvme-tcp", Place::Tcp(at.0), "read and write the drive"));
    let nbd = args.nbd.iter().map(|at| ("--nbd", at.0.clone(), "read and write the drive"));
    let disks = nbd.chain(nvme).filter(|_| args.tls_certificates.is_none());
    let http = args.http.iter().map(|at| ("--http", at.0.clone(), "see what the drive does"));
    for (option, place, what) in disks.chain(http) {
        if let Place::Tcp(at) = place
            && place.is_public()
        {
            remark(&format!(
                "nandle: {option} {at}: whoever reaches this address can {what}; nobody is asked who they are"
            ));
        }
    }
}

/// The drives that `--shadow` asks for, as it calls them: the served one under other schemes. Those that the device
/// has no room for are told of and left out.
fn shadows(args: &args::Serve, drive: &Drive) -> Result<Vec<(String, Drive)>, Failure> {
    let Some(list) = &args.shadow else { return Ok(vec![]) };
    let schemes = config::split_outside_brackets(list, ',');
    if schemes.len() > MOST_SHADOWS {
        return Err(Failure::Input(format!(
            "--shadow: {} schemes; expected at most {MOST_SHADOWS}",
            schemes.len()
        )));
    }
    let mut all = Vec::new();
    for scheme in schemes.into_iter().map(str::trim) {
        config::is_known(scheme).map_err(|e| Failure::Input(format!("--shadow: {e}")))?;
        match config::amended(drive.config.clone(), Some(scheme), &[]) {
            Ok(shadow) if shadow.layout.logical_bytes == drive.layout.logical_bytes => {
                all.push((scheme.to_owned(), shadow));
            }
            Ok(shadow) => left_out(
                scheme,
                &format!(
                    "it leaves hosts {}, the served drive has {}",
                    bytes(shadow.layout.logical_bytes),
                    bytes(drive.layout.logical_bytes)
                ),
            ),
            Err(e) => left_out(scheme, &e),
        }
    }
    Ok(all)
}

/// A shadow that does not fit is no reason not to serve.
fn left_out(scheme: &str, why: &dyn std::fmt::Display) {
    remark(&format!("nandle: --shadow {scheme} does not fit this device and is left out: {why}"));
}

/// `nandle flashalloc`
pub fn flashalloc(args: &args::FlashAlloc) -> Result<(), Failure> {
    if args.ranges.len() > 256 {
        return Err(Failure::Input(format!("{} ranges: expected at most 256", args.ranges.len())));
    }
    let to = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::TimedOut => Failure::Ran(format!("--to {}: {e}", args.to)),
        _ => {
            Failure::Input(format!("--to {}: {e}; expected a drive under `nandle serve --nvme-tcp`", args.to))
        }
    };
    let refused = |what: &str, why: Refusal| match why {
        Refusal::Io(e) if what.is_empty() => to(e),
        Refusal::Io(e) => Failure::Input(format!("{what}: {e}; expected a file on the drive")),
        why => {
            Failure::Ran(format!("{what}{}the drive refused: {why}", if what.is_empty() { "" } else { ": " }))
        }
    };
    let mut drive = nandle_host::Drive::connect(args.to, Some(PATIENCE)).map_err(to)?;
    for path in &args.files {
        let name = path.display().to_string();
        let fail = |e: std::io::Error| refused(&name, Refusal::Io(e));
        let file = std::fs::File::open(path).map_err(fail)?;
        let place = nandle_host::Place::of(file.as_fd(), args.offset).map_err(fail)?;
        let extents =
            drive.flashalloc_file(&place, file.as_fd(), 0, u64::MAX).map_err(|e| refused(&name, e))?;
        let size = extents.iter().map(|e| e.bytes).sum();
        say(&format!("{name}: one object of {} ranges, {}\n", extents.len(), bytes(size)))?;
    }
    if args.ranges.is_empty() {
        return Ok(());
    }
    drive.flashalloc_blocks(&args.ranges).map_err(|e| refused("", e))?;
    say(&format!("one object of {} ranges\n", args.ranges.len()))
}

/// The device, and the image that it is in: without a word on the device, the image's own.
fn device(args: &args::Serve) -> Result<(Drive, Option<image::Opened>), Failure> {
    let Some(path) = &args.image else { return Ok((args.device.load()?, None)) };
    let drive = match image::header(path)? {
        Some(header) if args.device.is_silent() => config::check(header.config)?,
        Some(header) if args.device.device.is_none() => {
            config::amended(header.config, args.device.scheme.as_deref(), &args.device.sets)?
        }
        _ => args.device.load()?,
    };
    let durability = match args.durability {
        args::Durability::Process => image::Durability::Process,
        args::Durability::Host => image::Durability::Host,
    };
    let opened = image::open(path, &drive, image::How { durability, damaged_ok: args.damaged_ok })?;
    for damage in opened.damage.iter().take(MOST_DAMAGE) {
        eprintln!("nandle: {}: {}", path.display(), damage.what);
    }
    if opened.damage.len() > MOST_DAMAGE {
        eprintln!("nandle: {}: and {} more", path.display(), opened.damage.len() - MOST_DAMAGE);
    }
    Ok((drive, Some(opened)))
}

#[cfg(all(feature = "ublk", target_os = "linux"))]
use nandle_serve::ublk;
#[cfg(not(all(feature = "ublk", target_os = "linux")))]
mod ublk {
    use super::{Device, Failure};

    /// There is none.
    pub enum Server {}
    pub enum Handle {}

    impl Server {
        pub fn prepare(_: Option<u32>, _: &Device) -> Result<Self, Failure> {
            let what = "--ublk: this program was built without it; expected --nbd ADDR instead";
            Err(Failure::Input(what.into()))
        }
        pub fn start(&self) -> Result<(), Failure> {
            match *self {}
        }
        pub fn path(&self) -> std::path::PathBuf {
            match *self {}
        }
        pub fn handle(&self) -> Handle {
            match *self {}
        }
        pub fn end(self) -> Result<bool, Failure> {
            match self {}
        }
    }

    impl Handle {
        pub fn stop(&self) {
            match *self {}
        }
    }

    pub fn serves_the_kernel() {}
}

#[cfg(all(feature = "vhost-user", target_os = "linux"))]
fn guests(path: &Path, mode: u32, device: &Device) -> Result<nandle_serve::vhost_user::Server, Failure> {
    Ok(nandle_serve::vhost_user::Server::start(path, mode, device.clone(), "nandle")?)
}
#[cfg(not(all(feature = "vhost-user", target_os = "linux")))]
fn guests(_: &Path, _: u32, _: &Device) -> Result<(), Failure> {
    let what = "--vhost-user: this program was built without it; expected --nbd ADDR instead";
    Err(Failure::Input(what.into()))
}

/// Ctrl-C and SIGTERM end the service (the second one at once), SIGUSR1 prints a report. A block device is taken
/// away before the drive stops: what file systems on it have still to write is written.
fn listen_for_signals(device: Device, disk: Option<ublk::Handle>) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::Ran(format!("signals: {e}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGUSR1]).map_err(fail)?;
    let mut disk = disk;
    let run = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                if let Some(report) = device.report() {
                    remark(&format!("{report}"));
                }
            } else if asked {
                std::process::exit(130);
            } else {
                asked = true;
                let (device, disk) = (device.clone(), disk.take());
                let stop = move || {
                    if let Some(disk) = disk {
                        disk.stop();
                    }
                    device.stop();
                };
                // That may take its time, and the second signal must be heard.
                if std::thread::Builder::new().name("stop".into()).spawn(stop).is_err() {
                    std::process::exit(1);
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(run).map_err(fail)?;
    Ok(())
}

fn conclude(args: &args::Serve, scheme: SchemeNames, ended: &Ended) -> Result<(), Failure> {
    if let End::PowerCut { lost } = ended.end {
        let after = args.power_cut_after.unwrap_or_else(|| ended.report.commands.iter().sum());
        return say(&format!(
            "power cut after {after} commands, {lost} of them under way\n{}\n",
            ended.report
        ));
    }
    let Some(ssd) = &ended.ssd else { return Ok(()) };
    let context = Context {
        workload: "served".into(),
        scheme,
        seed: args.seed,
        complete: true,
        cpu_s: nandle_serve::driver::cpu_s(),
        trace: nandle_lab::measure::summary::Trace {
            submitted: ended.report.commands.iter().sum(),
            completed: ended.report.commands.iter().sum(),
            ..Default::default()
        },
        ..Context::default()
    };
    let summary = summarise(ssd, &ended.meter, context);
    let mut unwritten = Ok(());
    if let Some(path) = &args.json {
        unwritten = put(path, &live::with_shadows(&summary, &ended.report, &ended.shadows));
        if path.as_os_str() == "-" {
            return unwritten;
        }
    }
    let mut text = format!("{}{}\n", table::summary(&summary), ended.report);
    if !ended.shadows.is_empty() {
        let summaries: Vec<_> = ended.shadows.iter().map(|s| (s.scheme(), s.summary())).collect();
        let mut runs = vec![(summary.scheme.as_str(), &summary)];
        runs.extend(summaries.iter().map(|(name, summary)| (*name, &**summary)));
        text += &format!(
            "\nthe same requests under other schemes\n{}",
            table::comparison(&summary.workload, &runs)
        );
        for shadow in &ended.shadows {
            if let Some(complaint) = shadow.complaint() {
                text += &format!("{}: {complaint}\n", shadow.scheme());
            }
        }
    }
    say(&text)?;
    unwritten
}

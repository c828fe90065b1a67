//! Prometheus' text format, version 0.0.4: seconds and bytes, counters since the start of the server.

use std::fmt::Write;

use hdrhistogram::Histogram;
use nandle_lab::measure::per_stream;
use nandle_ssd::nand::Cause;

use super::view::{Book, KIND_NAMES, PAGE_TYPES, programmed_and_written};
use crate::clients::{Punctuality, Row, Tally};

/// Upper limits of the latency histograms, in nanoseconds: 1, 2, 5 from 10 us to 10 s.
const LIMITS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP nandle_{name} {help}\n# TYPE nandle_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.0, "nandle_{name}");
        for (n, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if n == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A histogram; counts up to a limit are exact to the 1% of the figures that they are made of.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram<u64>, sum_s: f64) {
        let bucket = format!("{name}_bucket");
        let mut counts = [0; LIMITS.len()];
        for value in histogram.iter_recorded() {
            let slot = LIMITS.partition_point(|&limit| limit < value.value_iterated_to());
            if let Some(count) = counts.get_mut(slot) {
                *count += value.count_at_value();
            }
        }
        let mut below = 0;
        for (limit, count) in LIMITS.iter().zip(counts) {
            below += count;
            let limit = (*limit as f64 / 1e9).to_string();
            self.sample(&bucket, &[labels, &[("le", limit.as_str())]].concat(), below as f64);
        }
        let all = histogram.len() as f64;
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), all);
        self.sample(&format!("{name}_sum"), labels, sum_s);
        self.sample(&format!("{name}_count"), labels, all);
    }
}

pub(super) fn text(book: &Book) -> String {
    let mut t = Text::default();
    t.family("info", "gauge", "The device that is served.");
    let name = book.drive.config.name.as_str();
    let labels = [
        ("device", name),
        ("scheme", book.scheme.as_str()),
        ("timing", book.timing.name()),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    t.sample("info", &labels, 1.0);
    t.one(
        "logical_bytes",
        "gauge",
        "Size of the device as hosts see it.",
        book.drive.layout.logical_bytes as f64,
    );
    let Some(last) = &book.last else { return t.0 };
    let by_op = |t: &mut Text, name: &str, help: &str, values: &[u64]| {
        t.family(name, "counter", help);
        for (op, &value) in KIND_NAMES.iter().zip(values) {
            t.sample(name, &[("op", op)], value as f64);
        }
    };
    t.family(
        "scheme",
        "gauge",
        "What the schemes count, by its key in summary.json; 0 for those that the drive has not.",
    );
    for &(key, value) in &last.schemes {
        t.sample("scheme", &[("key", key)], value as f64);
    }
    by_op(&mut t, "host_requests_total", "Requests completed, by kind.", &last.requests);
    by_op(&mut t, "host_bytes_total", "Their bytes.", &last.bytes);
    t.one("host_refused_total", "counter", "Requests that the drive refused.", last.refused as f64);
    t.family("host_latency_seconds", "histogram", "Modelled latency, from arrival to completion.");
    for (kind, op) in KIND_NAMES.iter().enumerate() {
        let histogram = &book.total.latency[kind];
        let sum = histogram.mean() * histogram.len() as f64 / 1e9;
        t.histogram(
            "host_latency_seconds",
            &[("op", op)],
            histogram,
            if sum.is_finite() { sum } else { 0.0 },
        );
    }
    if book.timing == crate::Timing::Real {
        t.family(
            "lateness_seconds",
            "histogram",
            "From when an answer was due, as the model says, to when its last byte left.",
        );
        let histogram = &book.total.lateness;
        let sum = histogram.mean() * histogram.len() as f64 / 1e9;
        t.histogram("lateness_seconds", &[], histogram, if sum.is_finite() { sum } else { 0.0 });
        if let Some(punctuality) = &book.punctuality {
            host(&mut t, punctuality);
            clients(&mut t, punctuality);
            transports(&mut t, punctuality);
        }
    }
    if let Some(punctuality) = &book.punctuality {
        charged(&mut t, punctuality);
    }
    let geometry = &book.drive.config.geometry;
    let page = f64::from(geometry.page_bytes);
    for (name, help, table) in [
        (
            "flash_programmed_bytes_total",
            "Bytes programmed, by cause and page type.",
            &last.counters.programs,
        ),
        ("flash_read_bytes_total", "Bytes read from flash, by cause and page type.", &last.counters.reads),
    ] {
        t.family(name, "counter", help);
        for (cause, which) in Cause::NAMED {
            for (kind, page_type) in PAGE_TYPES.iter().enumerate() {
                let pages = table[which as usize][kind];
                t.sample(name, &[("cause", cause), ("page_type", page_type)], pages as f64 * page);
            }
        }
    }
    t.one("flash_erases_total", "counter", "Blocks erased.", last.counters.erases as f64);
    let host = last.stats.host_sectors_programmed as f64 * f64::from(geometry.sector_bytes);
    t.one(
        "host_programmed_bytes_total",
        "counter",
        "Host bytes programmed for the host, without padding.",
        host,
    );
    let (programmed, written) = (last.counters.programs.iter().flatten().sum::<u64>(), last.written);
    if written > 0 {
        let waf = programmed as f64 * page / written as f64;
        t.one(
            "write_amplification",
            "gauge",
            "Bytes programmed per byte written by hosts, since the start.",
            waf,
        );
    }
    t.one(
        "gc_victims_total",
        "counter",
        "Blocks chosen by garbage collection.",
        last.stats.gc_invocations as f64,
    );
    t.one("gc_moved_pages_total", "counter", "Pages moved by collection.", last.stats.gc_moved_pages as f64);
    t.one(
        "writes_stalled_seconds_total",
        "counter",
        "Time in which host writes stood still for want of free blocks.",
        last.stats.foreground_ns as f64 / 1e9,
    );
    t.one("blocks", "gauge", "Blocks of flash.", geometry.blocks() as f64);
    t.one("free_blocks", "gauge", "Erased blocks in the pool.", last.free_blocks as f64);
    t.one(
        "free_blocks_min",
        "gauge",
        "The same, of the plane that has fewest.",
        f64::from(last.free_blocks_min),
    );
    t.one("bad_blocks", "gauge", "Blocks out of use.", last.bad_blocks as f64);
    t.one("read_only", "gauge", "1 if the drive takes no more writes.", f64::from(u8::from(last.read_only)));
    t.one(
        "unreadable_sectors_total",
        "counter",
        "Sectors that could not be read: by the host, and in a damaged image.",
        last.stats.unreadable_sectors as f64,
    );
    if let Some(image) = &last.image {
        let gone = f64::from(u8::from(image.gone.is_some()));
        t.one(
            "image_damaged",
            "gauge",
            "Places of the image that were damaged when it was opened.",
            image.damaged as f64,
        );
        t.one(
            "image_gone",
            "gauge",
            "1 if the image was deleted, replaced or truncated while it was served.",
            gone,
        );
    }
    t.one("outstanding", "gauge", "Commands that the drive works on.", f64::from(last.outstanding));
    t.one("waiting", "gauge", "Requests that wait for a place in the drive.", last.waiting as f64);
    let streams = per_stream(&book.drive.config, &last.stats, last.written);
    for (name, help, media) in [
        ("stream_host_bytes_total", "Host bytes programmed for a stream.", false),
        ("stream_media_bytes_total", "Bytes programmed for a stream, copies included.", true),
    ] {
        t.family(name, "counter", help);
        for stream in &streams {
            let labels = [("stream", stream.stream.to_string()), ("kind", stream.kind.clone())];
            let labels = labels.each_ref().map(|(label, text)| (*label, text.as_str()));
            t.sample(name, &labels, if media { stream.media_bytes } else { stream.host_bytes } as f64);
        }
    }
    if written > 0 {
        t.family(
            "stream_write_amplification_part",
            "gauge",
            "Bytes programmed for a stream per byte written by hosts: with those of parity, the parts of write_amplification.",
        );
        for stream in &streams {
            let labels = [("stream", &*stream.stream.to_string()), ("kind", &*stream.kind)];
            t.sample("stream_write_amplification_part", &labels, stream.waf_part);
        }
        let parity = last.counters.programs[Cause::Parity as usize].iter().sum::<u64>() as f64 * page;
        let labels = [("stream", ""), ("kind", "parity")];
        t.sample("stream_write_amplification_part", &labels, parity / written as f64);
    }
    shadows(&mut t, book);
    t.0
}

fn host(t: &mut Text, punctuality: &Punctuality) {
    let kept_up = f64::from(u8::from(punctuality.overload.is_empty()));
    t.one("kept_up", "gauge", "1 if the host was never too slow for the drive so far.", kept_up);
    let ns: u64 = punctuality.overload.iter().map(|o| o.to.saturating_sub(o.from)).sum();
    t.one(
        "overload_seconds_total",
        "counter",
        "Time in which the host was too slow for the drive: figures of that time are not the drive's.",
        ns as f64 / 1e9,
    );
    t.one(
        "dilation",
        "gauge",
        "How much slower the drive's clock is than the wall clock.",
        punctuality.dilation,
    );
}

/// The labels of a client.
fn labelled(row: &Row, f: impl FnOnce(&[(&str, &str)])) {
    let connection = row.connection.map_or_else(String::new, |n| n.to_string());
    f(&[("transport", row.transport), ("what", &row.what), ("connection", &connection)]);
}

fn clients(t: &mut Text, punctuality: &Punctuality) {
    let mut each = |name: &str, kind: &str, help: &str, f: &dyn Fn(&Tally) -> f64| {
        t.family(name, kind, help);
        for row in punctuality.clients.iter().filter(|row| row.tally.answers > 0) {
            labelled(row, |labels| t.sample(name, labels, f(&row.tally)));
        }
    };
    each("client_answers_total", "counter", "Answers to a client.", &|tally| tally.answers as f64);
    each("client_bytes_total", "counter", "Bytes that they read and wrote.", &|tally| tally.bytes as f64);
    each("client_modelled_mean_seconds", "gauge", "Mean latency by the model.", &|tally| {
        tally.modelled.mean_ns() / 1e9
    });
    each("client_achieved_mean_seconds", "gauge", "Mean latency from arrival to departure.", &|tally| {
        tally.achieved.mean_ns() / 1e9
    });
}

/// The lines of the report: what was asked, modelled and achieved by transport.
fn transports(t: &mut Text, punctuality: &Punctuality) {
    let tallies = punctuality.by_transport();
    let mut each = |name: &str, kind: &str, help: &str, f: &dyn Fn(&Tally) -> Option<f64>| {
        t.family(name, kind, help);
        for (transport, tally) in &tallies {
            if let Some(value) = f(tally) {
                t.sample(name, &[("transport", transport)], value);
            }
        }
    };
    each("transport_answers_total", "counter", "Answers by a transport.", &|tally| {
        Some(tally.answers as f64)
    });
    each("transport_bytes_total", "counter", "Bytes that they read and wrote.", &|tally| {
        Some(tally.bytes as f64)
    });
    each(
        "transport_asked_iops",
        "gauge",
        "Requests that arrived in a second, from the first to the last.",
        &Tally::asked_iops,
    );
    each(
        "transport_modelled_iops",
        "gauge",
        "What as many requests under way would get if each took as long as modelled.",
        &|tally| Some(tally.modelled_iops()),
    );
    each(
        "transport_achieved_iops",
        "gauge",
        "Requests that were answered in a second, from the first arrival to the last departure.",
        &|tally| Some(tally.achieved_iops()),
    );
    each("transport_modelled_mean_seconds", "gauge", "Mean latency by the model.", &|tally| {
        Some(tally.modelled.mean_ns() / 1e9)
    });
    each("transport_achieved_mean_seconds", "gauge", "Mean latency from arrival to departure.", &|tally| {
        Some(tally.achieved.mean_ns() / 1e9)
    });
}

/// What the flash programmed for each client.
fn charged(t: &mut Text, punctuality: &Punctuality) {
    for (name, help, copied) in [
        ("client_programmed_bytes_total", "Bytes programmed for what a client wrote.", false),
        ("client_copied_bytes_total", "Bytes programmed to move what it had written.", true),
    ] {
        t.family(name, "counter", help);
        for row in &punctuality.clients {
            let bytes = if copied { row.flash.copied } else { row.flash.programmed };
            labelled(row, |labels| t.sample(name, labels, bytes as f64));
        }
    }
}

fn shadows(t: &mut Text, book: &Book) {
    if book.shadows.is_empty() {
        return;
    }
    let mut each = |name: &str, kind: &str, help: &str, f: &dyn Fn(&super::Shadow) -> f64| {
        t.family(name, kind, help);
        for shadow in &book.shadows {
            t.sample(name, &[("scheme", shadow.scheme())], f(shadow));
        }
    };
    each("shadow_written_bytes_total", "counter", "Bytes written by hosts to a shadow.", &|s| {
        programmed_and_written(&s.summary()).1 as f64
    });
    each("shadow_programmed_bytes_total", "counter", "Bytes that a shadow programmed.", &|s| {
        programmed_and_written(&s.summary()).0 as f64
    });
    each(
        "shadow_missed_total",
        "counter",
        "Commands that a shadow missed: its figures do not compare.",
        &|s| s.missed() as f64,
    );
    each("shadow_queued", "gauge", "Commands that wait for a shadow.", &|s| s.queued() as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_buckets_add_up() {
        let mut t = Text::default();
        t.sample("x", &[("a", "b\"c\\d\ne")], 1.5);
        assert_eq!(t.0, "nandle_x{a=\"b\\\"c\\\\d\\ne\"} 1.5\n");
        let mut histogram = super::super::snapshot::histogram();
        for ns in [5_000, 15_000, 15_000, 700_000, 20_000_000_000_u64] {
            histogram.record(ns).expect("it grows");
        }
        let mut t = Text::default();
        t.histogram("h", &[], &histogram, 20.0);
        let value = |le: &str| {
            let line = t.0.lines().find(|l| l.starts_with(&format!("nandle_h_bucket{{le=\"{le}\"}}")));
            line.and_then(|l| l.split(' ').nth(1)).expect("a bucket").to_owned()
        };
        assert_eq!(
            (value("0.00001"), value("0.00002"), value("0.001")),
            ("1".into(), "3".into(), "4".into())
        );
        assert_eq!((value("10"), value("+Inf")), ("4".into(), "5".into()));
    }
}

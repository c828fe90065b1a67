//! Each policy on a drive of its kind, beside what the drive does without it.

use std::sync::atomic::AtomicBool;

use nandle_lab::Error;
use nandle_lab::config::{Outside, Wanted};
use nandle_lab::measure::Summary;
use nandle_lab::run::Run;
use nandle_lab::workload::Asked;
use nandle_ssd::schemes::Scheme;

use super::{buffer, mapping, page_type, stream, victim};

/// A policy, where it has the choice, and the figure that it is there for.
pub struct Trial {
    /// What reports call it.
    pub name: &'static str,
    /// Scheme of the drive, as `--scheme` takes it.
    pub scheme: &'static str,
    /// Settings, as `--set` takes them.
    pub sets: &'static [&'static str],
    /// Name of the workload.
    pub workload: &'static str,
    /// What the figure is, and where it is in the summary.
    pub figure: (&'static str, fn(&Summary) -> f64),
    /// The policy.
    pub policy: Box<dyn Scheme>,
}

/// All five.
pub fn all() -> Vec<Trial> {
    vec![
        Trial {
            name: "Fullest",
            scheme: "lru+page",
            sets: &[],
            workload: "tpcc",
            figure: ("read-modify-writes", |s| s.rmw.count as f64),
            policy: Box::new(buffer::Fullest),
        },
        Trial {
            name: "LeastWorn",
            scheme: "lru+page",
            sets: &["wear.dynamic=false"],
            workload: "kv-cache",
            figure: ("deviation of erases", |s| s.wear.erase_stddev),
            policy: Box::new(victim::LeastWorn),
        },
        Trial {
            name: "Prompt",
            scheme: "size-based",
            sets: &["cell.program_order=relaxed"],
            workload: "mixed",
            figure: ("mean write latency, us", |s| s.host.write.lat_ns.mean / 1e3),
            policy: Box::new(page_type::Prompt),
        },
        Trial {
            name: "HotAndCold",
            scheme: "multi-stream(2)",
            sets: &["buffer.bytes=0"],
            workload: "hm",
            figure: ("pages that collection moved", |s| s.flash.programs.gc as f64),
            policy: Box::new(stream::HotAndCold),
        },
        Trial {
            name: "Halves",
            scheme: "multi-version",
            sets: &["scheme.multi_version.table_share=1"],
            workload: "fin",
            figure: ("WAF", |s| s.waf.unwrap_or(f64::NAN)),
            policy: Box::new(mapping::Halves),
        },
    ]
}

impl Trial {
    /// The run with the policy, or without it.
    ///
    /// # Errors
    /// If the drive cannot be made.
    pub fn run(&self, with: bool) -> Result<Summary, Error> {
        // A small drive: it is full and collects within a second.
        let small = ["geometry.blocks_per_plane=32", "op_ratio=0.3"];
        let sets: Vec<String> = small.iter().chain(self.sets).map(|set| (*set).to_owned()).collect();
        let mut drive = Wanted { device: "demo-page", scheme: Some(self.scheme), sets: &sets }.load()?;
        let asked =
            Asked { workload: self.workload.into(), seed: 1, requests: Some(100_000), ..Asked::default() };
        if with {
            let policy = self.policy.boxed();
            drive.outside.push(Outside::new(self.name, "", move || policy.boxed())); // the one line
        }
        let run = Run {
            drive,
            asked,
            seed: 1,
            verify: true,
            power_cuts: None,
            output: None,
            io_log: false,
            explain: 0,
        };
        Ok(run.go(&AtomicBool::new(false), &mut |_| {})?.summary)
    }

    /// The figure without the policy and with it.
    pub fn line(&self, without: &Summary, with: &Summary) -> String {
        let (name, figure) = self.figure;
        let short = |value: f64| if value < 100.0 { format!("{value:.3}") } else { format!("{value:.0}") };
        format!(
            "{:<12}{:<18}{:<10}{name:<30}{:>9}{:>9}",
            self.name,
            self.scheme,
            self.workload,
            short(figure(without)),
            short(figure(with))
        )
    }
}

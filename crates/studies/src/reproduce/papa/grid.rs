//! Every policy on every trace.

use nandle_lab::Error;
use nandle_trace::Request;

use super::super::Bench;
use super::claims::{CLAIMS, OF_TRACES};
use super::outcome::{Outcome, measure};
use super::plan::{POLICIES, Plan};

/// Every policy on every trace; nothing if only claims of the traces are asked for.
pub(super) fn measure_all(
    bench: &Bench<'_>,
    plan: &Plan,
    traces: &[(String, Vec<Request>)],
    cached: &[bool],
) -> Result<Vec<Outcome>, Error> {
    let runs: Vec<&str> = CLAIMS.iter().copied().filter(|c| !OF_TRACES.contains(c)).collect();
    if !bench.wants(&runs) {
        return Ok(Vec::new());
    }
    let mut jobs = Vec::new();
    for (name, trace) in traces {
        for &cached in cached.iter().filter(|&&cached| cached == bench.wants(&["papa-cached"]) || !cached) {
            jobs.extend(POLICIES.iter().map(|&policy| (name, trace, policy, cached)));
        }
    }
    bench.each(
        &jobs,
        |(name, _, policy, cached)| format!("{name} {policy}{}", if *cached { ", cached" } else { "" }),
        |&(name, trace, policy, cached)| measure(plan, name, trace, policy, cached),
    )
}

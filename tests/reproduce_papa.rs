//! Goal: PAPA's experiment runs from end to end, and what makes the scheme comes out: partial writes
//! and their reads on fast pages, faster writes, more erases.
//! Method: a 128th of the paper's size; `NANDLE_SCALE=32` (or less, down to 1) asks for more, and
//! `--nocapture` shows the tables.

use nandle_lab::reproduce::papa::{Outcome, Pages, Plan, WORKLOADS, claims, measure, table};
use nandle_ssd::allocation::AllocationKind;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn the_experiment_shows_what_the_scheme_is_for() {
    let scale = setting("NANDLE_SCALE", 128);
    let plan = Plan {
        scale,
        fewer_blocks: setting("NANDLE_FEWER", 1),
        op_ratio: setting("NANDLE_OP", if scale > 32 { 0.8 } else { 0.15 }),
        ahead: setting("NANDLE_AHEAD", true),
        ..Plan::quick()
    };
    let only = std::env::var("NANDLE_ONLY").unwrap_or_default();
    let wanted = |w: &&str| only.is_empty() || only.split(',').any(|o| o == *w);
    let mut pages = Vec::new();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for workload in WORKLOADS.into_iter().filter(wanted) {
        let trace = plan.trace(workload).expect("a workload of this name");
        pages.push(Pages::of(&trace));
        for cached in [false, true] {
            for &(policy, ..) in AllocationKind::ALL {
                outcomes.push(measure(&plan, workload, &trace, policy, cached).expect("a valid device"));
            }
        }
        println!("{workload} is done");
    }
    println!("{}", table(&outcomes));
    for claim in claims(&pages, &outcomes) {
        println!(
            "{:24} {:6} {:45} paper {:6.3} ours {:6.3} {}",
            claim.id,
            claim.place,
            claim.what,
            claim.paper,
            claim.ours,
            if claim.met() { "met" } else { "not met" }
        );
    }
    for o in outcomes.iter().filter(|o| o.policy == AllocationKind::Papa) {
        let base = outcomes.iter().find(|b| {
            (b.workload.as_str(), b.cached, b.policy)
                == (o.workload.as_str(), o.cached, AllocationKind::Strict)
        });
        let base = base.expect("every policy was run");
        let label = format!("{} cached {}", o.workload, o.cached);
        assert!(
            o.alone.write_ns < base.alone.write_ns,
            "{label}: {} of {}",
            o.alone.write_ns,
            base.alone.write_ns
        );
        assert!(o.alone.rmw_ns < base.alone.rmw_ns, "{label}");
        assert!(o.erases >= base.erases, "{label}");
        assert!(o.rmw_shares()[0] > base.rmw_shares()[0], "{label}: {:?}", o.rmw_shares());
    }
}

//! Goal: PAPA's experiment runs from end to end and its policies come out in the paper's order.
//! Method: a 128th of the paper's size; `NANDLE_SCALE=32` (or less, down to 1) asks for more, and
//! `--nocapture` shows the tables.

use nandle_lab::reproduce::papa::{Outcome, Pages, Plan, WORKLOADS, claims, measure, table};
use nandle_ssd::allocation::AllocationKind;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn policies_come_out_in_the_papers_order() {
    let scale = setting("NANDLE_SCALE", 128);
    let plan = Plan {
        scale,
        op_ratio: setting("NANDLE_OP", if scale > 32 { 0.8 } else { 0.15 }),
        ahead: setting("NANDLE_AHEAD", true),
        ..Plan::quick()
    };
    let only: String = setting("NANDLE_ONLY", String::new());
    let mut pages = Vec::new();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for workload in WORKLOADS.into_iter().filter(|w| only.is_empty() || only.split(',').any(|o| o == *w)) {
        let trace = plan.trace(workload).expect("a workload of this name");
        pages.push(Pages::of(&trace));
        for cached in [false, true] {
            for &(policy, ..) in AllocationKind::ALL {
                let outcome = measure(&plan, workload, &trace, policy, cached).expect("a valid device");
                print!(
                    "{}",
                    table(std::slice::from_ref(&outcome)).lines().nth(1).unwrap_or_default().to_owned()
                        + "\n"
                );
                outcomes.push(outcome);
            }
        }
    }
    for claim in claims(&pages, &outcomes) {
        println!(
            "{:26} {:7} {:45} paper {:6.3} ours {:6.3} {}",
            claim.id,
            claim.place,
            claim.what,
            claim.paper,
            claim.ours,
            if claim.met() { "met" } else { "not met" }
        );
    }
    println!("{}", table(&outcomes));
}

//! Goal: PAPA's experiment runs from end to end, and what makes the scheme comes out: partial writes
//! and their reads on fast pages, faster writes, more erases.
//! Method: a 128th of the paper's size, Table II's blocks, collected ahead of need; `nandle reproduce papa` runs the
//! whole.

use nandle_ssd::nand::CellKind;
use nandle_studies::reproduce::papa::{Outcome, POLICIES, Plan, WORKLOADS, measure};

fn small() -> Plan {
    Plan { scale: 128, op_ratio: 0.8, ahead: true, ..Plan::quick(1) }
}

fn every_policy(plan: &Plan, workload: &str, cached: bool) -> Vec<Outcome> {
    let trace = plan.trace(workload).expect("a workload of this name");
    let run = |policy| measure(plan, workload, &trace, policy, cached).expect("a valid device");
    POLICIES.iter().map(|&policy| run(policy)).collect()
}

fn of<'a>(outcomes: &'a [Outcome], policy: &str) -> &'a Outcome {
    outcomes.iter().find(|o| o.policy == policy).expect("every policy was run")
}

#[test]
fn the_experiment_shows_what_the_scheme_is_for() {
    for workload in WORKLOADS {
        for cached in [false, true] {
            let outcomes = every_policy(&small(), workload, cached);
            let (papa, base) = (of(&outcomes, "papa"), of(&outcomes, "strict"));
            let label = format!("{workload} cached {cached}");
            assert!(
                papa.alone.write_ns < base.alone.write_ns,
                "{label}: {} of {}",
                papa.alone.write_ns,
                base.alone.write_ns
            );
            assert!(papa.alone.rmw_ns < base.alone.rmw_ns, "{label}");
            assert!(papa.erases >= base.erases, "{label}");
            assert!(papa.rmw_shares()[0] > base.rmw_shares()[0], "{label}: {:?}", papa.rmw_shares());
        }
    }
}

#[test]
fn it_holds_with_four_bits_a_cell() {
    let plan = Plan { cell: CellKind::Qlc, ..small() };
    for workload in ["prxy", "fin"] {
        let outcomes = every_policy(&plan, workload, false);
        let (papa, base) = (of(&outcomes, "papa"), of(&outcomes, "strict"));
        assert!(base.write_shares()[3] > 0.2, "{workload}: {:?}", base.write_shares());
        assert!(papa.write_shares()[0] > base.write_shares()[0], "{workload}: {:?}", papa.write_shares());
        assert!(papa.alone.write_ns < base.alone.write_ns, "{workload}");
        assert!(papa.alone.rmw_ns < base.alone.rmw_ns, "{workload}");
    }
}

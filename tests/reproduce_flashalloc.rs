//! Goal: FlashAlloc does for its workloads what the paper says, as far as it does.
//! Method: one chip of the paper's drive, a workload under two stream policies;
//! `nandle reproduce flashalloc` runs the whole.

use nandle_lab::reproduce::flashalloc::{drive, run};
use nandle_ssd::streams::StreamsKind;

/// Fig 5a: with an object for every overwrite nothing is left to copy.
#[test]
fn random_2_mib_overwrites_need_no_copies() {
    let [vanilla, ours] = [StreamsKind::ByTime, StreamsKind::FlashAlloc].map(|policy| {
        let config = drive(16, policy).expect("a preset");
        run("fio-2m-8", &config, 1, policy == StreamsKind::FlashAlloc, false).expect("it runs")
    });
    assert!(vanilla.waf() > 1.8, "{}", vanilla.waf());
    // The files were laid out without objects: their blocks are merged in the first half.
    assert!(ours.waf() < 1.2, "{:?}", ours);
    assert!(ours.waf_late() < 1.06, "{}", ours.waf_late());
    assert!(ours.throughput() > 1.4 * vanilla.throughput());
    assert!(ours.calls[1] < ours.calls[0] / 50, "{:?}", ours.calls);
}

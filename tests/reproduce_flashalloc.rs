//! Goal: FlashAlloc does for its workloads what the paper says, as far as it does.
//! Method: the paper's drive with fewer blocks, each workload under each stream policy.
//! `cargo run --release --example reproduce_flashalloc` prints the whole comparison.

use nandle_lab::config::Wanted;
use nandle_lab::reproduce::flashalloc::{drive, run};
use nandle_ssd::streams::StreamsKind;

fn cosmos() -> nandle_ssd::DeviceConfig {
    Wanted { device: "flashalloc-cosmos", ..Default::default() }.load().expect("a preset").config
}

/// Fig 5a: with an object for every overwrite nothing is left to copy.
#[test]
fn random_2_mib_overwrites_need_no_copies() {
    let [vanilla, ours] = [StreamsKind::ByTime, StreamsKind::FlashAlloc]
        .map(|policy| run("fio-2m-8", &drive(cosmos(), 8, policy), 1).expect("it runs"));
    assert!(vanilla.waf() > 1.8, "{}", vanilla.waf());
    // The files were laid out without objects: their blocks are merged in the first half.
    assert!(ours.waf() < 1.2, "{:?}", ours);
    assert!(ours.waf_late() < 1.06, "{}", ours.waf_late());
    assert!(ours.throughput() > 1.4 * vanilla.throughput());
    assert!(ours.calls[1] < ours.calls[0] / 50, "{:?}", ours.calls);
}

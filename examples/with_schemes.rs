//! The whole command line of nandle, with two schemes more:
//! `cargo run --release --example with_schemes -- run --scheme lru+page+fullest --workload tpcc`.

#[path = "extending/buffer.rs"]
mod buffer;
#[path = "extending/victim.rs"]
mod victim;

use nandle::{Outside, register};

fn main() -> std::process::ExitCode {
    let schemes = [
        Outside::new("fullest", "Of the 64 oldest pages the fullest one.", || Box::new(buffer::Fullest)),
        Outside::new("least-worn", "Of the emptiest blocks the least worn one.", || {
            Box::new(victim::LeastWorn)
        }),
    ];
    schemes.into_iter().for_each(|scheme| register(scheme).expect("the drive has no such name"));
    nandle::main()
}

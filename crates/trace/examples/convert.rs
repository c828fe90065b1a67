//! Describes a trace and, given a file and a format, converts it:
//! `cargo run -p nandle-trace --example convert -- samples/msr.csv [out.parquet nandle-parquet]`.
use nandle_trace::{Error, Info, InfoOptions, Options, convert, create, open};
use std::path::Path;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let input = match &arguments[..] {
        [input] | [input, _, _] => Path::new(input),
        _ => return Err(Error::Input("expected: TRACE [OUTPUT FORMAT]".into())),
    };
    let mut trace = open(input, &Options::default())?;
    let info = Info::of(&mut trace, &InfoOptions::default())?;
    println!("{} ({})\n{info}", trace.format(), trace.counts());
    for warning in trace.warnings() {
        eprintln!("warning: {warning}");
    }
    if let [_, output, format] = &arguments[..] {
        let writer = create(Path::new(output), format.parse()?)?;
        println!("{:?}", convert(&mut open(input, &Options::default())?, writer)?);
    }
    Ok(())
}

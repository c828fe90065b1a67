//! Five policies from outside of the drive, one of each kind, each a file of this folder:
//! `cargo run --release --example extending`. The page is docs/extending.md.

mod buffer;
mod mapping;
mod page_type;
mod stream;
mod trials;
mod victim;

fn main() -> Result<(), nandle_lab::Error> {
    println!("{:<12}{:<18}{:<30}{:>12}{:>12}", "policy", "on", "figure", "without", "with");
    for trial in trials::all() {
        let (name, figure) = trial.figure;
        let (without, with) = (trial.run(false, 200_000)?, trial.run(true, 200_000)?);
        println!(
            "{:<12}{:<18}{name:<30}{:>12.3}{:>12.3}",
            trial.name,
            trial.scheme,
            figure(&without),
            figure(&with)
        );
    }
    Ok(())
}

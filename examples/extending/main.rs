//! Five policies from outside of the drive, one of each kind, each a file of this folder:
//! `cargo run --release --example extending`. The page is docs/extending.md.

mod buffer;
mod mapping;
mod page_type;
mod stream;
mod trials;
mod victim;

fn main() -> Result<(), nandle_lab::Error> {
    for trial in trials::all() {
        println!("{}", trial.line(&trial.run(false)?, &trial.run(true)?));
    }
    Ok(())
}

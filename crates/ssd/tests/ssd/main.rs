//! What the drive does alone, without the laboratory: the same as before, on any machine, to a caller of any kind.

#[path = "../../../../tests/devices/mod.rs"]
mod devices;
mod golden;
mod memory;
mod one_plane;
mod recorded;
mod untimed;

//! The map of blocks.

use nandle_ssd::Ssd;
use nandle_ssd::nand::{Geometry, PageUse};
use nandle_ssd::space::State;
use serde_json::{Value, json};

use crate::Device;

/// Blocks that the driver is asked about at a time, so that requests need not wait for more.
const SLICE: u64 = 4096;
/// Cells of the map: of a larger drive each stands for several neighbours.
const MOST_CELLS: u64 = 4096;

/// What a block is: see `KINDS` of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    state: State,
    valid: u32,
    pages: u32,
    /// A stream; or one of the two below; or -1 if nothing is in it.
    stream: i32,
}

/// Blocks of objects, and those of map, log and checkpoints.
const OBJECTS: i32 = 1000;
const INTERNAL: i32 = 1001;

fn cell(ssd: &Ssd, geometry: &Geometry, number: u64) -> Cell {
    let per_plane = u64::from(geometry.blocks_per_plane);
    let block = geometry.block((number / per_plane) as u32, (number % per_plane) as u32);
    let (blocks, array) = (ssd.flash().blocks(), ssd.flash().array());
    let state = blocks.state(block);
    let pages = array.pages_programmed(block);
    let stream = if pages == 0 || state == State::Bad {
        -1
    } else if blocks.group(block).is_some() {
        OBJECTS
    } else {
        let oob = array.oob(geometry.ppn(block, 0));
        if oob.kind == PageUse::Data { i32::from(oob.stream) } else { INTERNAL }
    };
    Cell { state, valid: blocks.valid(block), pages, stream }
}

fn slice(device: &Device, geometry: &Geometry, from: u64, to: u64) -> Option<Vec<Cell>> {
    let geometry = geometry.clone();
    device.look(|| true, move |ssd| (from..to).map(|number| cell(ssd, &geometry, number)).collect())
}

/// The letter of a state.
fn letter(state: State) -> char {
    match state {
        State::Free => 'f',
        State::Open => 'o',
        State::Closed => 'c',
        State::Victim => 'v',
        State::Erasing => 'e',
        State::Bad => 'b',
    }
}

/// The map, plane after plane; none if the drive is gone.
pub(super) fn map(device: &Device, geometry: &Geometry) -> Option<Value> {
    let blocks = geometry.blocks();
    let mut cells = Vec::with_capacity(usize::try_from(blocks).ok()?);
    let mut from = 0;
    while from < blocks {
        let to = (from + SLICE).min(blocks);
        cells.extend(slice(device, geometry, from, to)?);
        from = to;
    }
    Some(json(&cells, geometry))
}

fn json(cells: &[Cell], geometry: &Geometry) -> Value {
    let per_plane = u64::from(geometry.blocks_per_plane);
    // No cell stands for blocks of two planes.
    let most = (MOST_CELLS / u64::from(geometry.planes())).max(1);
    let together = per_plane.div_ceil(most);
    let ppb = u64::from(geometry.pages_per_block);
    let (mut states, mut valid, mut programmed, mut streams) = (String::new(), vec![], vec![], vec![]);
    let mut counts = [0_u64; 6];
    for plane in cells.chunks(per_plane as usize) {
        for group in plane.chunks(together as usize) {
            for cell in group {
                counts[cell.state as usize] += 1;
            }
            // The state that most of them have; of the rest sums.
            let first = group.iter().max_by_key(|c| group.iter().filter(|d| d.state == c.state).count());
            states.push(first.map_or('f', |c| letter(c.state)));
            let share = |n: u64| n * 100 / (ppb * group.len() as u64).max(1);
            valid.push(share(group.iter().map(|c| u64::from(c.valid)).sum()));
            programmed.push(share(group.iter().map(|c| u64::from(c.pages)).sum()));
            streams.push(group.iter().map(|c| c.stream).max().unwrap_or(-1));
        }
    }
    json!({
        "planes": geometry.planes(),
        "blocks_per_cell": together,
        "free": counts[State::Free as usize],
        "open": counts[State::Open as usize],
        "closed": counts[State::Closed as usize],
        "victim": counts[State::Victim as usize],
        "erasing": counts[State::Erasing as usize],
        "bad": counts[State::Bad as usize],
        "states": states,
        "valid_percent": valid,
        "programmed_percent": programmed,
        "streams": streams,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_large_drive_stand_for_neighbours() {
        let demo = nandle_lab::config::Wanted { device: "demo-page", scheme: None, sets: &[] };
        let geometry = Geometry {
            channels: 2,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 5000,
            pages_per_block: 10,
            ..demo.load().expect("a preset").config.geometry
        };
        let one = |n: u64| Cell {
            state: if n < 5000 { State::Closed } else { State::Free },
            valid: if n < 5000 { 5 } else { 0 },
            pages: if n < 5000 { 10 } else { 0 },
            stream: if n < 5000 { 3 } else { -1 },
        };
        let cells: Vec<Cell> = (0..10_000).map(one).collect();
        let value = json(&cells, &geometry);
        assert_eq!(
            (&value["blocks_per_cell"], &value["closed"], &value["free"]),
            (&3.into(), &5000.into(), &5000.into())
        );
        let states = value["states"].as_str().expect("a text");
        assert_eq!(states.len(), 2 * 5000_usize.div_ceil(3));
        assert_eq!(states.find('f'), Some(5000_usize.div_ceil(3)));
        assert_eq!((&value["valid_percent"][0], &value["streams"][0]), (&50.into(), &3.into()));
    }
}

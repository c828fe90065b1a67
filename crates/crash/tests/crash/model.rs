//! Goal: the states are those that the model allows: no more, no fewer.
//! Method: small histories whose states can be counted by hand, all of them built and looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use nandle_crash::model::{FileSystem, Lie, Moment, Sweep};
use nandle_crash::sample::exhaustive;
use nandle_observe::event::{Event, Kind, Place, ROOT, What};
use nandle_observe::tree::{PAGE, Tree};

fn place(name: &str) -> Place {
    Place { folder: ROOT, name: name.into() }
}

fn create(name: &str, file: u64) -> What {
    What::Create { place: place(name), file, kind: Kind::File, mode: 0o644 }
}

fn write(file: u64, offset: u64, text: &[u8]) -> What {
    What::Write { file, offset, data: text.into(), durable: false }
}

fn rename(from: &str, to: &str, file: u64, over: Option<u64>) -> What {
    What::Rename { from: place(from), to: place(to), file, over, exchange: false }
}

const fn flush(file: u64) -> What {
    What::Flush { file, data_only: false }
}

const FOLDER: What = What::FlushFolder { folder: ROOT };

fn end(what: &[What], fs: FileSystem, lie: Option<Lie>) -> Moment {
    let events: Vec<Event> =
        what.iter().map(|what| Event { what: what.clone(), at_ns: 0, process: 0 }).collect();
    Sweep::new(&Tree::default(), &events, fs, lie).moment(events.len())
}

/// All states at the end, in words.
fn states(what: &[What], fs: FileSystem, lie: Option<Lie>) -> BTreeSet<String> {
    let moment = end(what, fs, lie);
    let state = |mut choice| {
        moment.allow(&mut choice);
        let tree = moment.build(&choice);
        let mut files: Vec<String> = (tree.walk().iter())
            .map(|(path, file)| {
                let contents = tree.contents(*file).map_or(vec![], |c| c.read(0, c.size()));
                let text: String = contents
                    .chunk_by(|a, b| a == b)
                    .map(|run| match (run[0], run.len()) {
                        (0, n) => format!("0*{n}"),
                        (byte, 1) => char::from(byte).to_string(),
                        (byte, n) => format!("{}*{n}", char::from(byte)),
                    })
                    .collect();
                format!("{}={text}", path.display())
            })
            .collect();
        files.sort();
        files.join(" ")
    };
    exhaustive(&moment).map(state).collect()
}

fn set(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|&state| state.to_owned()).collect()
}

#[test]
fn nothing_flushed_may_be_missing_in_any_part() {
    let what = [create("a", 2), write(2, 0, b"ab")];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["", "a=", "a=0*2", "a=ab"]));
    // ext4 sets the size when the data is there.
    assert_eq!(states(&what, FileSystem::Ext4, None), set(&["", "a=", "a=ab"]));
}

#[test]
fn a_page_has_the_versions_that_it_had() {
    let what = [create("a", 2), write(2, 0, b"ab"), flush(2), FOLDER, write(2, 0, b"c"), write(2, 1, b"d")];
    // "ad" was never in the cache.
    for fs in [FileSystem::Posix, FileSystem::Ext4] {
        assert_eq!(states(&what, fs, None), set(&["a=ab", "a=cb", "a=cd"]));
    }
}

#[test]
fn pages_are_independent() {
    let page = PAGE;
    let what = [create("a", 2), FOLDER, write(2, 0, b"x"), write(2, page, b"y"), write(2, 2 * page, b"z")];
    let moment = end(&what, FileSystem::Posix, None);
    // Three pages, there or not; four sizes.
    assert_eq!(moment.choices(), 2 * 2 * 2 * 4);
    // By size: 1, 2, 4, 8 contents.
    assert_eq!(states(&what, FileSystem::Posix, None).len(), 1 + 2 + 4 + 8);
    // ext4: any of the pages, as far as the last of them.
    assert_eq!(states(&what, FileSystem::Ext4, None).len(), 8);
}

#[test]
fn what_was_flushed_stays() {
    let whole = [create("a", 2), write(2, 0, b"a"), flush(2), FOLDER];
    assert_eq!(states(&whole, FileSystem::Posix, None), set(&["a=a"]));
    let without_folder = &whole[..3];
    assert_eq!(states(without_folder, FileSystem::Posix, None), set(&["", "a=a"]));
    assert_eq!(states(without_folder, FileSystem::Ext4, None), set(&["a=a"]));
    let durable = What::Write { file: 2, offset: 0, data: Arc::from(*b"a"), durable: true };
    let what = [create("a", 2), FOLDER, durable];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["a=a"]));
}

#[test]
fn a_rename_is_one_and_says_nothing_of_the_data() {
    let old = [create("a", 2), write(2, 0, b"o"), flush(2), FOLDER];
    let new = [create("n", 3), write(3, 0, b"w"), rename("n", "a", 3, Some(2))];
    let what: Vec<What> = old.iter().chain(&new).cloned().collect();
    let posix = set(&["a=o", "a=o n=", "a=o n=0*1", "a=o n=w", "a=", "a=0*1", "a=w"]);
    assert_eq!(states(&what, FileSystem::Posix, None), posix);
    // ext4 writes what replaces a file before its name changes.
    assert_eq!(states(&what, FileSystem::Ext4, None), set(&["a=o", "a=o n=", "a=o n=w", "a=w"]));
}

#[test]
fn a_rename_between_folders_is_in_both_or_in_none() {
    let folder = What::Create { place: place("d"), file: 2, kind: Kind::Folder, mode: 0o755 };
    let to = Place { folder: 2, name: "b".into() };
    let moved = What::Rename { from: place("a"), to, file: 3, over: None, exchange: false };
    let mut what = vec![folder, create("a", 3), FOLDER, moved];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["a= d=", "d/b= d="]));
    // Durable in one, it is durable in both.
    what.push(What::FlushFolder { folder: 2 });
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["d/b= d="]));
}

#[test]
fn what_is_cut_off_goes_with_the_size() {
    let what = [
        create("a", 2),
        write(2, 0, b"abc"),
        flush(2),
        FOLDER,
        What::Resize { file: 2, size: 0 },
        write(2, 0, b"x"),
    ];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["a=abc", "a=", "a=0*1", "a=x"]));
}

#[test]
fn names_in_a_folder_keep_their_order() {
    let what = [create("a", 2), create("b", 3), What::Unlink { place: place("a"), file: 2 }];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["", "a=", "a= b=", "b="]));
}

#[test]
fn lies() {
    let what = [create("a", 2), FOLDER, write(2, 0, b"a"), flush(2)];
    assert_eq!(states(&what, FileSystem::Posix, None), set(&["a=a"]));
    let ignored = states(&what, FileSystem::Posix, Some(Lie::IgnoreFlush));
    assert_eq!(ignored, set(&["", "a=", "a=0*1", "a=a"]));
    // The record of the size is lost, the data is not; the folder's was flushed by the file's flush.
    assert_eq!(states(&what, FileSystem::Posix, Some(Lie::IgnoreFua)), set(&["a=", "a=a"]));
    let reordered = Some(Lie::ReorderAcrossFlush);
    assert_eq!(states(&what, FileSystem::Posix, reordered), set(&["a=", "a=0*1", "a=a"]));
    // The next flush, of whatever, catches up.
    let twice: Vec<What> = what.iter().chain(&[FOLDER]).cloned().collect();
    assert_eq!(states(&twice, FileSystem::Posix, reordered), set(&["a=a"]));
    assert_eq!(states(&twice, FileSystem::Posix, Some(Lie::IgnoreFua)), set(&["a=a"]));
}

#[test]
fn an_atomic_write_is_there_whole_or_not_at_all() {
    let page = PAGE as usize;
    let history = |offset: u64| {
        let old = write(2, 0, &[b'a'; 8 * 4096]);
        let events = [
            create("f", 2),
            old,
            flush(2),
            FOLDER,
            write(2, offset, &[b'b'; 4 * 4096]),
            write(2, 4096, &[b'c'; 512]),
        ];
        events.map(|what| Event { what, at_ns: 0, process: 0 })
    };
    // A letter for each page, in all states; torn pages among them.
    let seen = |offset: u64, atomic: u64| -> BTreeSet<String> {
        let events = history(offset);
        let moment = Sweep::new(&Tree::default(), &events, FileSystem::Posix, None)
            .atomic(atomic)
            .moment(events.len());
        let torn = nandle_crash::sample::of_each_kind(&moment, None).into_iter().map(|(_, choice)| choice);
        let build = |mut choice| {
            moment.allow(&mut choice);
            let tree = moment.build(&choice);
            let bytes = tree.contents(2).expect("the file").read(0, 8 * PAGE);
            let letter = |page: &[u8]| match page.chunk_by(|a, b| a == b).count() {
                1 => char::from(page[0]),
                2 => char::from(page[0]).to_ascii_uppercase(),
                _ => '?',
            };
            bytes.chunks(page).map(letter).collect()
        };
        exhaustive(&moment).chain(torn).map(build).collect()
    };
    // Nothing, the first write, both: the second is of 512 bytes in a page (c, then b).
    let whole: BTreeSet<String> = ["aaaaaaaa", "bbbbaaaa", "bCbbaaaa"].map(String::from).into();
    assert_eq!(seen(0, 16384), whole);
    // As small writes, each page for itself, and torn within.
    assert!(seen(0, 4096).is_superset(&whole) && seen(0, 4096).len() > 16);
    assert!(seen(0, 0).iter().any(|state| state.contains('B')));
    // Across a multiple of the size nothing is promised.
    assert!(seen(8192, 16384).contains("aabaaaaa"), "{:?}", seen(8192, 16384));
}

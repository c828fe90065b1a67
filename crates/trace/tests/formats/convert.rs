//! Goal: what is written is read back exactly, or counted as lost.
//! Method: random requests through every writer and back; every sample through our own formats and back.
use nandle_trace::{
    Error, Format, Op, Options, Request, Source, TimeUnit, WRITABLE, convert, create, create_in, open,
    replace,
};
use proptest::prelude::*;
use std::path::Path;

struct List(std::vec::IntoIter<Request>);

impl Source for List {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        out.extend(self.0.by_ref().take(max));
        Ok(())
    }
}

fn read(path: &Path, options: &Options) -> Vec<Request> {
    let mut trace = open(path, options).unwrap();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        trace.fill(&mut all, 1000).unwrap();
        if all.len() == before {
            return all;
        }
    }
}

fn requests(ops: &'static [Op]) -> impl Strategy<Value = Vec<Request>> {
    let one =
        (0u64..50_000, 0..ops.len(), 0u64..1 << 40, 1u64..2048, any::<u32>(), any::<u16>(), any::<bool>());
    prop::collection::vec(one, 1..60).prop_map(|list| {
        let mut time_ns = 0;
        let one = |(i, (gap, op, sector, sectors, object, stream, fua))| {
            // Multiples of 1 us, so that no clock has to cut them; the first request is at 0.
            time_ns += if i == 0 { 0 } else { gap * 1000 };
            let flush = matches!(ops[op], Op::Flush | Op::FlashFree);
            let (offset, bytes) = if flush { (0, 0) } else { (sector * 512, sectors * 512) };
            Request { time_ns, offset, bytes, object, stream, op: ops[op], fua }
        };
        list.into_iter().enumerate().map(one).collect()
    })
}

const ALL: [Op; 6] = [Op::Read, Op::Write, Op::Trim, Op::Flush, Op::FlashAlloc, Op::FlashFree];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn our_formats_keep_everything(list in requests(&ALL)) {
        let folder = tempfile::tempdir().unwrap();
        for (name, format) in [
            ("a.csv", Format::Nandle),
            ("a.csv.gz", Format::Nandle),
            ("a.csv.zst", Format::Nandle),
            ("a.csv.xz", Format::Nandle),
            ("a.parquet", Format::NandleParquet),
        ] {
            let path = folder.path().join(name);
            let written = convert(&mut List(list.clone().into_iter()), create(&path, format).unwrap()).unwrap();
            prop_assert_eq!(written.requests, list.len() as u64);
            prop_assert_eq!(&read(&path, &Options::default()), &list);
        }
    }

    #[test]
    fn other_formats_keep_reads_and_writes(list in requests(&ALL[..2])) {
        let plain: Vec<_> = list.iter().map(|r| Request { object: 0, stream: 0, fua: false, ..*r }).collect();
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::Msr, Format::Disksim, Format::Mqsim, Format::Ssdsim, Format::FioIolog] {
            let path = folder.path().join(format.name());
            let written = convert(&mut List(list.clone().into_iter()), create(&path, format).unwrap()).unwrap();
            prop_assert_eq!((written.requests, written.cut_times), (list.len() as u64, 0));
            let mut back = open(&path, &Options::default()).unwrap();
            let found = back.format();
            prop_assert!(found == format || (found, format) == (Format::Mqsim, Format::Ssdsim));
            let mut all = Vec::new();
            back.fill(&mut all, 1000).unwrap();
            prop_assert_eq!(&all, &plain, "{}", format);
        }
    }

    #[test]
    fn what_a_format_cannot_say_is_counted(list in requests(&ALL)) {
        for format in WRITABLE {
            let writer = create_in("nowhere", Box::new(std::io::sink()), format).unwrap();
            let written = convert(&mut List(list.clone().into_iter()), writer).unwrap();
            prop_assert_eq!(written.requests + written.left_out.values().sum::<u64>(), list.len() as u64);
        }
    }
}

#[test]
fn clocks_and_sectors_that_do_not_fit_are_counted() {
    let r =
        Request { time_ns: 1234, offset: 100, bytes: 300, object: 0, stream: 0, op: Op::Write, fua: true };
    let run = |format| {
        let writer = create_in("nowhere", Box::new(std::io::sink()), format).unwrap();
        convert(&mut List(vec![r].into_iter()), writer).unwrap()
    };
    let msr = run(Format::Msr);
    assert_eq!((msr.requests, msr.cut_times, msr.cut_attributes), (1, 1, 1));
    let disksim = run(Format::Disksim);
    assert_eq!(disksim.requests, 0);
    assert_eq!(disksim.left_out["disksim counts whole sectors of 512 bytes"], 1);
    assert!(create_in("nowhere", Box::new(std::io::sink()), Format::Spc).is_err());
}

#[test]
fn samples_survive_conversion() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(samples).unwrap() {
        let file = file.unwrap().path();
        if file.ends_with("regex.txt") || file.ends_with("README.md") {
            continue;
        }
        let before = read(&file, &Options::default());
        for (name, format) in [("a.csv.zst", Format::Nandle), ("a.parquet", Format::NandleParquet)] {
            let path = folder.path().join(name);
            convert(&mut open(&file, &Options::default()).unwrap(), create(&path, format).unwrap()).unwrap();
            assert_eq!(read(&path, &Options::default()), before, "{}", file.display());
        }
    }
}

#[test]
fn a_file_is_replaced_when_the_new_one_is_whole() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    fs::write(at("a.csv"), "precious").unwrap();
    fs::set_permissions(at("a.csv"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("a.csv", at("link.csv")).unwrap();
    let r = Request { time_ns: 0, offset: 0, bytes: 512, object: 0, stream: 0, op: Op::Read, fua: false };
    for (name, format) in [("link.csv", Format::Nandle), ("new.parquet", Format::NandleParquet)] {
        let mut writer = replace(&at(name), format).unwrap();
        writer.write(&vec![r; 100_000]).unwrap();
        assert!(writer.unfinished().unwrap().exists());
        drop(writer);
        assert_eq!(names(), ["a.csv", "link.csv"], "nothing is left of what was not finished");
    }
    assert_eq!(fs::read(at("a.csv")).unwrap(), b"precious");
    let mut writer = replace(&at("link.csv"), Format::Nandle).unwrap();
    writer.write(&[r]).unwrap();
    writer.finish().unwrap();
    assert_eq!(names(), ["a.csv", "link.csv"]);
    assert!(at("link.csv").is_symlink());
    assert_eq!(fs::read_to_string(at("a.csv")).unwrap().lines().nth(1), Some("0,read,0,512,0,0,0"));
    assert_eq!(fs::metadata(at("a.csv")).unwrap().permissions().mode() & 0o777, 0o640);
    // What is no plain file is written to where it is.
    assert!(replace(Path::new("/dev/null"), Format::Nandle).unwrap().unfinished().is_none());
    assert!(replace(&at("none/a.csv"), Format::Nandle).is_err_and(|e| e.to_string().contains("none/a.csv")));
    assert!(replace(folder.path(), Format::Nandle).is_err_and(|e| e.to_string().contains("directory")));
}

#[test]
fn an_integer_clock_can_be_forced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dense");
    // Odd nanoseconds at 5 million requests per second: only the user can know that these are no microseconds.
    let list: Vec<_> = (0..100)
        .map(|i| Request {
            time_ns: i * 201,
            offset: i * 512,
            bytes: 512,
            object: 0,
            stream: 0,
            op: Op::Read,
            fua: false,
        })
        .collect();
    convert(&mut List(list.clone().into_iter()), create(&path, Format::Mqsim).unwrap()).unwrap();
    assert_eq!(read(&path, &Options { time_unit: Some(TimeUnit::Ns), ..Options::default() }), list);
}

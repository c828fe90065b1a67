//! Tables through files. Method: what is read against what was written; groups, absent rows and lists of any length.

use std::io::Write;
use std::sync::{Arc, Mutex};

use nandle_table::{Column, Error, Reader, Table, Texts, Values, Writer};
use proptest::prelude::*;

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn written(groups: &[Table]) -> Result<Vec<u8>, Error> {
    let file = File::default();
    let mut writer = Writer::new(Box::new(file.clone()), &groups[0])?;
    groups.iter().try_for_each(|group| writer.write(group))?;
    writer.finish()?;
    Ok(file.0.lock().expect("one thread").clone())
}

type Row = (Option<bool>, u16, u32, Option<u64>, i64, Option<f64>, String, Vec<u64>);

fn table(rows: &[Row]) -> Table {
    Table::new(vec![
        Column::optional("bool", rows.iter().map(|r| r.0).collect()),
        Column::each("u16", rows, |r| r.1),
        Column::each("u32", rows, |r| r.2),
        Column::optional("u64", rows.iter().map(|r| r.3).collect()),
        Column::each("i64", rows, |r| r.4),
        Column::optional("f64", rows.iter().map(|r| r.5).collect()),
        Column::new("text", rows.iter().map(|r| &r.6).collect::<Texts>()),
        Column::each("a.list", rows, |r| r.7.clone()),
    ])
}

fn row() -> impl Strategy<Value = Row> {
    let list = prop::collection::vec(any::<u64>(), 0..4);
    let few = prop::sample::select(vec!["", "read", "write", "größer"]).prop_map(str::to_owned);
    (
        any::<Option<bool>>(),
        any::<u16>(),
        any::<u32>(),
        any::<Option<u64>>(),
        any::<i64>(),
        any::<Option<f64>>(),
        few,
        list,
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in prop::collection::vec(row(), 1..60), cut in 0_usize..60, at_once in 1_usize..70) {
        // A column that lacks rows anywhere must lack some in the first group: the first row is such a one.
        let mut rows = rows;
        (rows[0].0, rows[0].3, rows[0].5) = (None, None, None);
        let (first, second) = rows.split_at(cut.clamp(1, rows.len()));
        let bytes = written(&[table(first), table(second)]).expect("written");
        let all = Reader::bytes(bytes.clone()).and_then(Reader::whole).expect("read");
        prop_assert_eq!(&all, &table(&rows));

        // Some columns, some rows at a time: never across groups.
        let mut reader = Reader::bytes(bytes).expect("a file");
        reader.keep(|name| name == "u32" || name == "text").expect("known types");
        let (mut numbers, mut texts) = (Vec::new(), Texts::default());
        while let Some(part) = reader.next(at_once).expect("read") {
            prop_assert!(part.rows() <= at_once && part.columns().len() == 2);
            let Values::U32(some) = part.columns()[0].values() else { panic!("{part:?}") };
            numbers.extend_from_slice(some);
            let Values::Text(some) = part.column("text").expect("kept").values() else { panic!("{part:?}") };
            some.iter().for_each(|text| texts.push(text));
        }
        prop_assert_eq!(numbers, rows.iter().map(|r| r.2).collect::<Vec<_>>());
        prop_assert_eq!(texts, rows.iter().map(|r| &r.6).collect::<Texts>());
    }
}

#[test]
fn an_empty_table_keeps_its_columns() {
    let bytes = written(&[table(&[])]).expect("written");
    let reader = Reader::bytes(bytes).expect("a file");
    assert_eq!(reader.names(), ["bool", "u16", "u32", "u64", "i64", "f64", "text", "a.list"]);
    assert_eq!(reader.whole().expect("read"), table(&[]));
}

#[test]
fn rows_may_be_absent_only_where_the_file_says_so() {
    let full = Table::new(vec![Column::new("n", vec![1_u64, 2])]);
    let lacking = Table::new(vec![Column::optional("n", vec![Some(3_u64), None])]);
    assert!(written(&[full.clone(), lacking.clone()]).is_err());
    let read =
        Reader::bytes(written(&[lacking, full]).expect("written")).and_then(Reader::whole).expect("read");
    assert_eq!(read, Table::new(vec![Column::optional("n", vec![Some(3_u64), None, Some(1), Some(2)])]));
}

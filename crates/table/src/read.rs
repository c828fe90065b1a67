//! Parquet to columns.

use std::fs::File;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::{Column, Error, Table, Texts, Values};

/// The rows of a Parquet file, some at a time. The decoder is not ours: it may panic on a damaged file.
pub struct Reader {
    file: Box<dyn FileReader>,
    /// Names of the columns, each once, and which are read.
    names: Vec<String>,
    kept: Vec<Leaf>,
    /// The next group of rows; what is left of this one, and its columns.
    group: usize,
    left: usize,
    open: Vec<ColumnReader>,
}

/// A column of the file as ours.
struct Leaf {
    at: usize,
    name: String,
    kind: Kind,
    /// The definition level of a value, and whether rows hold several.
    defined: i16,
    repeated: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Bool,
    U16,
    U32,
    U64,
    I64,
    F64,
    Text,
}

impl Reader {
    /// Rows of a file.
    ///
    /// # Errors
    /// If it is not Parquet.
    pub fn file(file: File) -> Result<Self, Error> {
        Ok(Self::new(Box::new(SerializedFileReader::new(file)?)))
    }

    /// Rows of a file in memory.
    ///
    /// # Errors
    /// If it is not Parquet.
    pub fn bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Ok(Self::new(Box::new(SerializedFileReader::new(Bytes::from(bytes))?)))
    }

    fn new(file: Box<dyn FileReader>) -> Self {
        let schema = file.metadata().file_metadata().schema_descr();
        let names = schema.root_schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
        Self { file, names, kept: Vec::new(), group: 0, left: 0, open: Vec::new() }
    }

    /// The names of the file's columns.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads those columns that are `wanted`, from the first row on.
    ///
    /// # Errors
    /// If one is of a type that tables do not have.
    pub fn keep(&mut self, wanted: impl Fn(&str) -> bool) -> Result<(), Error> {
        let schema = self.file.metadata().file_metadata().schema_descr();
        let leaves = schema.columns().iter().enumerate();
        let leaves = leaves.filter(|(_, c)| wanted(&c.path().parts()[0])).map(|(at, c)| Leaf::of(at, c));
        self.kept = leaves.collect::<Result<_, _>>()?;
        (self.group, self.left) = (0, 0);
        Ok(())
    }

    /// The next rows, at most so many; none at the end.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn next(&mut self, rows: usize) -> Result<Option<Table>, Error> {
        while self.left == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.group)?;
            self.left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            for leaf in &self.kept {
                let found = match group.metadata().columns().get(leaf.at).map(|column| column.compression()) {
                    Some(Compression::BROTLI(_)) => "brotli",
                    Some(Compression::LZO) => "LZO",
                    _ => continue,
                };
                return Err(Error::Compression { name: leaf.name.clone(), found });
            }
            self.open =
                self.kept.iter().map(|leaf| group.get_column_reader(leaf.at)).collect::<Result<_, _>>()?;
            self.group += 1;
        }
        let rows = rows.min(self.left);
        self.left -= rows;
        let columns = self.kept.iter().zip(&mut self.open).map(|(leaf, from)| leaf.read(from, rows));
        Ok(Some(Table::new(columns.collect::<Result<_, _>>()?)))
    }

    /// All rows of all columns.
    ///
    /// # Errors
    /// If a column is of a type that tables do not have, or they cannot be read.
    pub fn whole(mut self) -> Result<Table, Error> {
        self.keep(|_| true)?;
        let mut all: Vec<Column> = self.kept.iter().map(Leaf::empty).collect();
        while let Some(part) = self.next(usize::MAX)? {
            all.iter_mut().zip(part.columns).for_each(|(all, part)| all.append(part));
        }
        Ok(Table::new(all))
    }
}

impl Leaf {
    fn of(at: usize, column: &ColumnDescriptor) -> Result<Self, Error> {
        let (parts, repeated) = (column.path().parts(), column.max_rep_level() > 0);
        let name = parts[0].clone();
        let kind = kind(column).filter(|kind| match (parts.len(), column.max_rep_level()) {
            (1, 0) => true,
            // A list: its name, its repeated group, its element.
            (3, 1) => matches!(kind, Kind::U64),
            _ => false,
        });
        let found = || match (parts.len(), column.logical_type_ref(), column.converted_type()) {
            (2.., ..) => "nested".to_owned(),
            (_, Some(logical), _) => format!("{logical:?}"),
            (_, None, ConvertedType::NONE) => column.physical_type().to_string(),
            (_, None, converted) => converted.to_string(),
        };
        let expected = "integers, numbers, texts, booleans or lists of unsigned integers";
        let kind = kind.ok_or_else(|| Error::Type { name: name.clone(), found: found(), expected })?;
        Ok(Self { at, name, kind, defined: column.max_def_level(), repeated })
    }

    fn empty(&self) -> Column {
        let values = match self.kind {
            _ if self.repeated => Values::Lists(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::U16 => Values::U16(Vec::new()),
            Kind::U32 => Values::U32(Vec::new()),
            Kind::U64 => Values::U64(Vec::new()),
            Kind::I64 => Values::I64(Vec::new()),
            Kind::F64 => Values::F64(Vec::new()),
            Kind::Text => Values::Text(Texts::default()),
        };
        Column::new(self.name.clone(), values)
    }

    fn read(&self, from: &mut ColumnReader, rows: usize) -> Result<Column, Error> {
        let mut absent = Vec::new();
        let values: Values = match (from, self.kind) {
            (ColumnReader::Int64ColumnReader(from), Kind::U64) if self.repeated => {
                self.lists(from, rows)?.into()
            }
            (ColumnReader::BoolColumnReader(from), _) => self.rows(from, rows, &mut absent, |v| v)?.into(),
            (ColumnReader::Int32ColumnReader(from), Kind::U16) => {
                let wide = self.rows(from, rows, &mut absent, |v| v)?;
                let narrow = wide.into_iter().map(u16::try_from).collect::<Result<Vec<_>, _>>();
                narrow.map_err(|_| self.wrong("a number does not fit the column's type"))?.into()
            }
            (ColumnReader::Int32ColumnReader(from), Kind::U32) => {
                self.rows(from, rows, &mut absent, i32::cast_unsigned)?.into()
            }
            (ColumnReader::Int32ColumnReader(from), _) => {
                self.rows(from, rows, &mut absent, i64::from)?.into()
            }
            (ColumnReader::Int64ColumnReader(from), Kind::U64) => {
                self.rows(from, rows, &mut absent, i64::cast_unsigned)?.into()
            }
            (ColumnReader::Int64ColumnReader(from), _) => self.rows(from, rows, &mut absent, |v| v)?.into(),
            (ColumnReader::DoubleColumnReader(from), _) => self.rows(from, rows, &mut absent, |v| v)?.into(),
            (ColumnReader::ByteArrayColumnReader(from), _) => {
                let mut texts = Texts::default();
                for bytes in self.rows(from, rows, &mut absent, |v| v)? {
                    // An absent row has no bytes, and reads as the empty text.
                    let bytes = if bytes.is_empty() { &[] } else { bytes.data() };
                    let text = std::str::from_utf8(bytes);
                    texts.push(text.map_err(|_| self.wrong("a text is not UTF-8"))?);
                }
                texts.into()
            }
            _ => return Err(self.wrong("the file describes it in two ways")),
        };
        Ok(Column::with_absent(self.name.clone(), values, absent))
    }

    /// Values of rows that have one each, or none.
    fn rows<T: DataType, V>(
        &self,
        from: &mut ColumnReaderImpl<T>,
        rows: usize,
        absent: &mut Vec<bool>,
        as_ours: impl Fn(T::T) -> V,
    ) -> Result<Vec<V>, Error> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (read, ..) = from.read_records(rows, Some(&mut levels), None, &mut values)?;
        if read != rows {
            return Err(self.wrong("it is shorter than others"));
        }
        if self.defined == 0 {
            return Ok(values.into_iter().map(as_ours).collect());
        }
        let mut values = values.into_iter();
        let all = levels.iter().map(|&level| {
            let here = level == self.defined;
            absent.push(!here);
            as_ours(if here { values.next().unwrap_or_default() } else { T::T::default() })
        });
        Ok(all.collect())
    }

    fn lists<T: DataType<T = i64>>(
        &self,
        from: &mut ColumnReaderImpl<T>,
        rows: usize,
    ) -> Result<Vec<Vec<u64>>, Error> {
        let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        from.read_records(rows, Some(&mut defined), Some(&mut repeated), &mut values)?;
        let (mut values, mut lists) = (values.into_iter(), Vec::new());
        for (level, again) in defined.into_iter().zip(repeated) {
            if again == 0 {
                lists.push(Vec::new());
            }
            if let Some(list) = lists.last_mut().filter(|_| level == self.defined) {
                list.push(values.next().unwrap_or_default().cast_unsigned());
            }
        }
        if lists.len() == rows { Ok(lists) } else { Err(self.wrong("it is shorter than others")) }
    }

    fn wrong(&self, what: &'static str) -> Error {
        Error::Rows { name: self.name.clone(), what }
    }
}

/// The type of ours that holds a column's values.
fn kind(column: &ColumnDescriptor) -> Option<Kind> {
    let integer = match column.logical_type_ref() {
        Some(LogicalType::Integer(int)) => Some((int.bit_width, int.is_signed)),
        Some(LogicalType::String | LogicalType::Enum) | None => None,
        Some(_) => return None,
    };
    let integer = integer.or(match column.converted_type() {
        ConvertedType::UINT_8 => Some((8, false)),
        ConvertedType::UINT_16 => Some((16, false)),
        ConvertedType::UINT_32 => Some((32, false)),
        ConvertedType::UINT_64 => Some((64, false)),
        _ => None,
    });
    let plain = matches!(
        column.converted_type(),
        ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
    );
    match (column.physical_type(), integer) {
        (Physical::BOOLEAN, _) => Some(Kind::Bool),
        (Physical::INT32, Some((8 | 16, false))) => Some(Kind::U16),
        (Physical::INT32, Some((_, false))) => Some(Kind::U32),
        (Physical::INT64, Some((_, false))) => Some(Kind::U64),
        (Physical::INT32 | Physical::INT64, _) if plain => Some(Kind::I64),
        (Physical::DOUBLE, _) => Some(Kind::F64),
        (Physical::BYTE_ARRAY, _)
            if matches!(column.converted_type(), ConvertedType::UTF8 | ConvertedType::ENUM) =>
        {
            Some(Kind::Text)
        }
        _ => None,
    }
}

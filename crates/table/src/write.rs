//! Columns to Parquet.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use crate::{Column, Error, Table, Values};

/// A Parquet file under way; [`finish`](Self::finish) it, or it is none.
pub struct Writer {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
}

impl Writer {
    /// Begins a file with the columns of `like`, whose rows are not written. A column may lack rows if it does so there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(to: Box<dyn Write + Send>, like: &Table) -> Result<Self, Error> {
        let fields = like.columns().iter().map(field).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("nandle").with_fields(fields).build()?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let mut properties = WriterProperties::builder().set_compression(compression);
        for column in like.columns() {
            // Times and offsets hardly repeat, but lie near the ones before: up to half the bytes of a dictionary.
            if matches!(column.values(), Values::U64(_) | Values::I64(_)) {
                let path = ColumnPath::from(column.name());
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let properties = properties.build();
        Ok(Self { file: SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))? })
    }

    /// Adds a group of rows: the more rows, the smaller the file.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, table: &Table) -> Result<(), Error> {
        if table.rows() == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in table.columns() {
            let mut to = group.next_column()?.ok_or_else(|| more(column))?;
            write(column, &mut to)?;
            to.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.file.close()?;
        Ok(())
    }
}

fn more(column: &Column) -> Error {
    Error::Rows { name: column.name().to_owned(), what: "the file has no such column" }
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let repetition = if column.absent().is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let of = |name: &str, physical, logical| {
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        field.with_logical_type(logical).build()
    };
    let name = column.name();
    let field = match column.values() {
        Values::Bool(_) => of(name, Physical::BOOLEAN, None),
        Values::U16(_) => of(name, Physical::INT32, unsigned(16)),
        Values::U32(_) => of(name, Physical::INT32, unsigned(32)),
        Values::U64(_) => of(name, Physical::INT64, unsigned(64)),
        Values::I64(_) => of(name, Physical::INT64, None),
        Values::F64(_) => of(name, Physical::DOUBLE, None),
        Values::Text(_) => of(name, Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Values::Lists(_) => {
            let element = of("element", Physical::INT64, unsigned(64))?;
            let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
            let list = list.with_fields(vec![Arc::new(element)]).build()?;
            Type::group_type_builder(name)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build()
        }
    };
    field.map(Arc::new)
}

fn write(column: &Column, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
    match column.values() {
        Values::Bool(rows) => flat::<BoolType>(column, to, rows.iter().copied()),
        Values::U16(rows) => flat::<Int32Type>(column, to, rows.iter().map(|&n| i32::from(n))),
        Values::U32(rows) => flat::<Int32Type>(column, to, rows.iter().map(|n| n.cast_signed())),
        Values::U64(rows) => flat::<Int64Type>(column, to, rows.iter().map(|n| n.cast_signed())),
        Values::I64(rows) => flat::<Int64Type>(column, to, rows.iter().copied()),
        Values::F64(rows) => flat::<DoubleType>(column, to, rows.iter().copied()),
        Values::Text(rows) => {
            let texts: Vec<ByteArray> =
                rows.distinct().iter().map(|text| Bytes::from(text.clone()).into()).collect();
            flat::<ByteArrayType>(column, to, rows.rows().iter().map(|&n| texts[n as usize].clone()))
        }
        Values::Lists(rows) => {
            let (mut defined, mut repeated) = (Vec::new(), Vec::new());
            for list in rows {
                // An empty list is a row without a value; a list's first value begins a row.
                defined.extend(std::iter::repeat_n(i16::from(!list.is_empty()), list.len().max(1)));
                repeated.push(0);
                repeated.extend(std::iter::repeat_n(1, list.len().saturating_sub(1)));
            }
            let values: Vec<i64> = rows.iter().flatten().map(|n| n.cast_signed()).collect();
            to.typed::<Int64Type>().write_batch(&values, Some(&defined), Some(&repeated)).map(drop)
        }
    }
}

fn flat<T: DataType>(
    column: &Column,
    to: &mut SerializedColumnWriter<'_>,
    rows: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    let to = to.typed::<T>();
    let optional = to.get_descriptor().max_def_level() > 0;
    let (values, defined): (Vec<T::T>, _) = match column.absent() {
        None => (rows.collect(), optional.then(|| vec![1; column.len()])),
        Some(_) if !optional => {
            return Err(ParquetError::General(format!("column {:?} lacks rows", column.name())));
        }
        Some(absent) => {
            let present = rows.zip(absent).filter(|(_, absent)| !**absent).map(|(value, _)| value);
            (present.collect(), Some(absent.iter().map(|&absent| i16::from(!absent)).collect()))
        }
    };
    to.write_batch(&values, defined.as_deref(), None).map(drop)
}

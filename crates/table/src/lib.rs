//! Tables: columns of numbers, texts and lists of one length, and their Parquet files.
#![warn(missing_docs)]

mod column;
mod read;
mod write;

pub use column::{Column, Texts, Values};
pub use read::Reader;
pub use write::Writer;

/// Columns of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// A table of these columns.
    ///
    /// # Panics
    /// If they differ in length.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        let table = Self { columns };
        let rows = table.rows();
        assert!(table.columns.iter().all(|c| c.len() == rows), "columns of a table differ in length");
        table
    }

    /// Rows of every column.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// The columns in their order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name() == name)
    }
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// By what the file is.
    #[error(transparent)]
    Parquet(parquet::errors::ParquetError),
    /// By where it is.
    #[error(transparent)]
    Io(std::io::Error),
    /// A column is of a type that tables do not have.
    #[error("column {name:?} is {found}, expected {expected}")]
    Type {
        /// The column.
        name: String,
        /// Its type.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A column is packed in a way that is not read.
    #[error("column {name:?} is compressed with {found}, expected gzip, lz4, snappy, zstd or nothing")]
    Compression {
        /// The column.
        name: String,
        /// How it is packed.
        found: &'static str,
    },
    /// The rows of a file do not fit together.
    #[error("column {name:?}: {what}")]
    Rows {
        /// The column.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        use parquet::errors::ParquetError::External;
        match error {
            External(inner) => match inner.downcast() {
                Ok(io) => Self::Io(*io),
                Err(other) => Self::Parquet(External(other)),
            },
            other => Self::Parquet(other),
        }
    }
}

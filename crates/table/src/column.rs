//! Values in memory.

use rustc_hash::FxHashMap;

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    values: Values,
    absent: Option<Vec<bool>>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Yes or no.
    Bool(Vec<bool>),
    /// Whole numbers of 16 bits.
    U16(Vec<u16>),
    /// Whole numbers of 32 bits.
    U32(Vec<u32>),
    /// Whole numbers of 64 bits.
    U64(Vec<u64>),
    /// Whole numbers that may be negative.
    I64(Vec<i64>),
    /// Numbers with a fraction.
    F64(Vec<f64>),
    /// Texts.
    Text(Texts),
    /// Several whole numbers a row.
    Lists(Vec<Vec<u64>>),
}

impl Column {
    /// A column with a value in every row.
    #[must_use]
    pub fn new(name: impl Into<String>, values: impl Into<Values>) -> Self {
        Self { name: name.into(), values: values.into(), absent: None }
    }

    /// A column with a value made of each of `rows`.
    #[must_use]
    pub fn each<R, T>(name: impl Into<String>, rows: &[R], of: impl Fn(&R) -> T) -> Self
    where
        Vec<T>: Into<Values>,
    {
        Self::new(name, rows.iter().map(of).collect::<Vec<T>>())
    }

    /// A column of which rows may be empty.
    #[must_use]
    pub fn optional<T: Default>(name: impl Into<String>, rows: Vec<Option<T>>) -> Self
    where
        Vec<T>: Into<Values>,
    {
        let absent = rows.iter().map(Option::is_none).collect();
        let values: Vec<T> = rows.into_iter().map(Option::unwrap_or_default).collect();
        Self::with_absent(name.into(), values.into(), absent)
    }

    pub(crate) fn with_absent(name: String, values: Values, absent: Vec<bool>) -> Self {
        let absent = absent.contains(&true).then_some(absent);
        Self { name, values, absent }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds; an absent value is its type's least.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Which rows are empty; none if no row is.
    #[must_use]
    pub fn absent(&self) -> Option<&[bool]> {
        self.absent.as_deref()
    }

    /// Whether a row has a value.
    #[must_use]
    pub fn has(&self, row: usize) -> bool {
        self.absent.as_ref().is_none_or(|absent| !absent[row])
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Bool(v) => v.len(),
            Values::U16(v) => v.len(),
            Values::U32(v) => v.len(),
            Values::U64(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::Text(v) => v.len(),
            Values::Lists(v) => v.len(),
        }
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Texts, of which few are distinct: each is kept once.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    distinct: Vec<String>,
    /// Which of them each row has.
    rows: Vec<u32>,
    known: FxHashMap<String, u32>,
}

impl Texts {
    /// Adds a row.
    ///
    /// # Panics
    /// After 2^32 distinct texts.
    pub fn push(&mut self, text: &str) {
        let last = self.rows.last().copied().filter(|&n| self.distinct[n as usize] == text);
        let n = last.or_else(|| self.known.get(text).copied()).unwrap_or_else(|| {
            let n = u32::try_from(self.distinct.len()).expect("fewer distinct texts than 2^32");
            self.distinct.push(text.to_owned());
            self.known.insert(text.to_owned(), n);
            n
        });
        self.rows.push(n);
    }

    /// The distinct texts, by their first rows.
    #[must_use]
    pub fn distinct(&self) -> &[String] {
        &self.distinct
    }

    /// Which of [`distinct`](Self::distinct) each row has.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The text of each row.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|&n| self.distinct[n as usize].as_str())
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut texts = Self::default();
        rows.into_iter().for_each(|text| texts.push(text.as_ref()));
        texts
    }
}

macro_rules! held_as {
    ($($kind:ident: $from:ty),* $(,)?) => {
        $(impl From<$from> for Values {
            fn from(rows: $from) -> Self {
                Self::$kind(rows)
            }
        })*
    };
}

held_as! {
    Bool: Vec<bool>,
    U16: Vec<u16>,
    U32: Vec<u32>,
    U64: Vec<u64>,
    I64: Vec<i64>,
    F64: Vec<f64>,
    Text: Texts,
    Lists: Vec<Vec<u64>>,
}

impl From<Vec<String>> for Values {
    fn from(rows: Vec<String>) -> Self {
        Self::Text(rows.iter().collect())
    }
}

impl Column {
    /// Adds the rows of a column of the same type.
    ///
    /// # Panics
    /// If it is of another type.
    pub(crate) fn append(&mut self, more: Self) {
        if self.absent.is_some() || more.absent.is_some() {
            let (before, after) = (self.len(), more.len());
            let absent = self.absent.get_or_insert_with(|| vec![false; before]);
            absent.extend(more.absent.unwrap_or_else(|| vec![false; after]));
        }
        match (&mut self.values, more.values) {
            (Values::Bool(all), Values::Bool(more)) => all.extend(more),
            (Values::U16(all), Values::U16(more)) => all.extend(more),
            (Values::U32(all), Values::U32(more)) => all.extend(more),
            (Values::U64(all), Values::U64(more)) => all.extend(more),
            (Values::I64(all), Values::I64(more)) => all.extend(more),
            (Values::F64(all), Values::F64(more)) => all.extend(more),
            (Values::Text(all), Values::Text(more)) => more.iter().for_each(|text| all.push(text)),
            (Values::Lists(all), Values::Lists(more)) => all.extend(more),
            _ => unreachable!("parts of one column are of one type"),
        }
    }
}

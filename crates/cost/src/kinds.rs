//! Kinds of files, by their names: what databases call what they keep.

/// What a file is for. Its number is the stream of its requests in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Kind {
    /// None of the others.
    Other = 0,
    /// The file system's journal.
    Journal = 1,
    /// The file system's inodes, bitmaps and folders.
    Metadata = 2,
    /// A log that is written before something else: WAL, redo log, rollback journal.
    Log = 3,
    /// Tables and indexes, written in place.
    Table = 4,
    /// Sorted tables, written once.
    Sorted = 5,
    /// What does not outlive the program.
    Temporary = 6,
    /// Pages that are written elsewhere too, so that one of the two is whole: told by what is written, not by a name.
    Doublewrite = 7,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Other,
        Self::Journal,
        Self::Metadata,
        Self::Log,
        Self::Table,
        Self::Sorted,
        Self::Temporary,
        Self::Doublewrite,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Log => "log",
            Self::Table => "table",
            Self::Sorted => "sstable",
            Self::Temporary => "temporary",
            Self::Doublewrite => "doublewrite",
        }
    }

    /// What a file of this path is for.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let path = path.to_ascii_lowercase();
        let name = path.rsplit('/').next().unwrap_or_default();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let begins = |begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
        if ends(&["-shm", ".tmp", ".temp", ".dbtmp"]) || begins(&["etilqs_", "pgsql_tmp"]) {
            Self::Temporary
        } else if ends(&["-wal", ".wal", "-journal", ".log", ".redo", ".aof"])
            || begins(&["ib_logfile", "#ib_redo", "binlog.", "wal-", "wal_"])
            || ["pg_wal/", "pg_xlog/", "/wal/", "journal/"].iter().any(|folder| path.contains(folder))
        {
            Self::Log
        } else if ends(&[".sst", ".ldb", ".sstable", ".parquet"]) {
            Self::Sorted
        } else if ends(&[
            ".db", ".sqlite", ".sqlite3", ".ibd", ".mdb", ".redb", ".wt", ".frm", ".myd", ".myi",
        ]) || begins(&["ibdata"])
            || path.starts_with("base/")
            || path.contains("/base/")
        {
            Self::Table
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        for (path, kind) in [
            ("bank.db", Kind::Table),
            ("bank.db-wal", Kind::Log),
            ("bank.db-journal", Kind::Log),
            ("bank.db-shm", Kind::Temporary),
            ("db/000012.sst", Kind::Sorted),
            ("db/000013.log", Kind::Log),
            ("pg_wal/000000010000000000000001", Kind::Log),
            ("base/1/2619", Kind::Table),
            ("data.mdb", Kind::Table),
            ("MANIFEST-000001", Kind::Other),
        ] {
            assert_eq!(Kind::of(path), kind, "{path}");
        }
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}

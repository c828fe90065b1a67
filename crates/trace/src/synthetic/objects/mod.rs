//! Object-aware workloads: data stores as they reach the device, with the calls that name their
//! objects (FlashAlloc, sections 2, 5 and 6).
//!
//! Every file or segment that the paper's authors taught to call FlashAlloc begins with
//! [`Op::FlashAlloc`] requests, one a range: neighbours of one `object` are one call. A replayer that
//! leaves them out has the *vanilla* workload, the same in everything else. Writes carry stream ids by
//! kind of file and level, as the authors assigned them for their multi-stream prototype.
//!
//! Threads of the stores are users of their own ([`super::User`]), each in its own closed loop: what one waits
//! for, only it waits for. Which file comes when depends on the drive, as it does in reality.
//!
//! Sizes are the paper's on a device of its size, and shrink with smaller ones; so do speeds, that a
//! smaller drive of fewer dies sees the same history.

mod fio;
mod kv_cache;
mod mysql;
mod rocksdb;
mod scale;
mod stores;
mod volume;

use super::Entry;
use fio::fio;
use kv_cache::kv_cache;
use stores::stores;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "fio-2m-8",
        line: "FlashAlloc Fig 5a: 8 threads, a file of an eighth of the device each, random 2 MiB overwrites",
        make: fio,
    },
    Entry {
        name: "fio-2m-32",
        line: "FlashAlloc Fig 5b: the same with 32 threads and files of a quarter of that",
        make: fio,
    },
    Entry {
        name: "rocksdb",
        line: "one RocksDB on ext4, db_bench fillrandom from empty until the device is full",
        make: stores,
    },
    Entry {
        name: "rocksdb-x4",
        line: "FlashAlloc Fig 4a: four RocksDB instances on ext4 until the device is full",
        make: stores,
    },
    Entry {
        name: "f2fs[:ssr]",
        line: "FlashAlloc Fig 4b: four RocksDB instances on F2FS until the device is full; ssr: with slack space recycling",
        make: stores,
    },
    Entry {
        name: "mysql",
        line: "FlashAlloc Fig 4c: TPC-C on InnoDB from 8 GB (scaled) until the device is full",
        make: stores,
    },
    Entry {
        name: "rocksdb+mysql",
        line: "FlashAlloc Fig 4d: one RocksDB and one MySQL on one ext4 until the device is full",
        make: stores,
    },
    Entry {
        name: "kv-cache",
        line: "LLM KV-cache offload: objects of 2 to 32 MiB in three lifetime classes, 16 written at a time",
        make: kv_cache,
    },
];

#[cfg(test)]
mod tests;

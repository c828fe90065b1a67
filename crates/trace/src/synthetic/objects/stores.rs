//! Data stores on one volume, their threads as users of the drive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nandle_random::Stream;

use super::mysql::{self, MySql};
use super::rocksdb::{self, RocksDb};
use super::scale::{CHUNK, LARGEST, MIB, largest, scaled};
use super::volume::{Ext4, F2fs, Io, Volume};
use crate::synthetic::{Phase, Replay, Target, User, Workload};
use crate::{Error, Op, Request, Source, Turn};

/// Keys of each of four instances, and of one.
const KEYS: (u64, u64) = (1_000_000, 26_214_400);
/// How long four instances run (`-duration`), in nanoseconds.
const FOUR_RUN: u64 = 900_000_000_000;

/// What all threads share: the volume, and what the stores know. It ends for all when one finds the volume
/// full.
struct Stores {
    volume: Volume,
    io: Io,
    rocksdb: Vec<RocksDb>,
    mysql: Option<MySql>,
    left: u64,
    /// Nanoseconds after which it ends.
    ends_ns: u64,
    /// F2FS has all wait while it writes a checkpoint, and until the drive has answered the call for a new
    /// segment: who is at that.
    alone: Option<Role>,
}

/// Whose thread it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Instance, and thread in it.
    RocksDb(usize, usize),
    MySql(mysql::Thread),
}

/// A thread of a store.
struct Thread {
    stores: Arc<Mutex<Stores>>,
    role: Role,
    /// What its last step trimmed.
    freed: Vec<(u64, u64)>,
    /// What it has yet to issue of that step, behind a call for a segment.
    later: VecDeque<Request>,
}

impl Source for Thread {
    /// Alone, it never waits: it goes on until there is nothing that it could do.
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let before = out.len();
        let mut now = 0;
        while out.len() - before < max {
            match self.step(now, out)? {
                Turn::Requests => {}
                Turn::Until(ns) => now = ns,
                Turn::Wait | Turn::End => break,
            }
        }
        Ok(())
    }

    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let Stores { volume, io, rocksdb, mysql, left, ends_ns, alone } = &mut *stores;
        if now_ns >= *ends_ns {
            *left = 0;
        }
        if *left == 0 {
            return Ok(Turn::End);
        }
        let mut turn = Some(Turn::Requests);
        match alone.take_if(|by| *by == self.role) {
            // Over, or answered: the others go on.
            Some(_) => {}
            None if alone.is_some() => return Ok(Turn::Wait),
            None => {
                volume.free(&mut self.freed);
                turn = match self.role {
                    Role::RocksDb(n, thread) => rocksdb[n].step(thread, now_ns, volume, io),
                    Role::MySql(thread) => mysql.as_mut().and_then(|sql| sql.step(thread, volume, io)),
                };
                self.later.extend(io.queue.drain(..));
                std::mem::swap(&mut self.freed, &mut io.freed);
            }
        }
        let mut given = self.later.len();
        if matches!(volume, Volume::F2fs(_)) && turn.is_some() {
            let call = self.later.iter().position(|r| r.op == Op::FlashAlloc);
            if call.is_some() || self.later.iter().any(|r| r.op == Op::Trim) {
                *alone = Some(self.role);
            }
            given = call.map_or(given, |at| at + 1);
        }
        let given = (given as u64).min(*left);
        out.extend(self.later.drain(..given as usize));
        *left = if turn.is_none() { 0 } else { *left - given };
        if *left == 0 {
            // What a full volume could not take is forgotten, and so is what was not asked for.
            self.later.clear();
        }
        Ok(turn.unwrap_or(if given > 0 { Turn::Requests } else { Turn::End }))
    }
}

pub(super) fn stores(name: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    if let Some(other) = argument.filter(|&mode| mode != "ssr") {
        return Err(Error::Input(format!("{name}:{other}: expected {name}, or {name}:ssr")));
    }
    let table = scaled(64 * MIB, CHUNK, target);
    let least = 64 * CHUNK;
    if target.logical_bytes < least {
        return Err(Error::Input(format!(
            "{name}: the device is too small: expected at least {least} bytes"
        )));
    }
    let (instances, database) = match name {
        "rocksdb" => (1, 0),
        "rocksdb-x4" | "f2fs" => (4, 0),
        "mysql" => (0, scaled(8 << 30, MIB, target)),
        _ => (1, scaled(4 << 30, MIB, target)),
    };
    let is_f2fs = name == "f2fs";
    let mut volume = if is_f2fs {
        Volume::F2fs(Box::new(F2fs::new(target.logical_bytes, argument.is_some())))
    } else {
        Volume::Ext4(Ext4::new(target.logical_bytes))
    };
    // On F2FS a request is "usually, several tens of KBs" (FlashAlloc 6.2).
    let piece = if is_f2fs { largest(target).min(64 << 10) } else { largest(target) };
    let mut io = Io::new(piece);
    let mut mysql = None;
    if database > 0 {
        let stream = Stream::new(target.seed, "workload/mysql");
        let parent = if instances == 0 { (0, 1) } else { (0, 2) };
        let pool = scaled(10 << 30, MIB, target);
        let sql = MySql::new(database, pool, parent, &mut volume, stream, &mut io);
        mysql =
            Some(sql.ok_or_else(|| Error::Input(format!("{name}: the database does not fit the device")))?);
    }
    let before = u64::from(mysql.is_some());
    let speed = |bytes_s: u64| scaled(bytes_s, 1, target);
    let instance = |n: u64| {
        let space = scaled(rocksdb::PAIR * if instances > 1 { KEYS.0 } else { KEYS.1 }, MIB, target);
        let stream = Stream::new(target.seed, &format!("workload/rocksdb {n}"));
        RocksDb::new(space, table, speed, (before + n, before + instances), stream)
    };
    let rocksdb: Vec<RocksDb> = (0..instances).map(instance).collect();
    let mut phases = vec![];
    if !io.queue.is_empty() {
        let count = io.queue.len() as u64;
        let source = Listed(std::mem::take(&mut io.queue).into_iter());
        phases.push(Phase::new(Replay::Closed { iodepth: 32 }, source).counted(count));
    }
    let left = target.requests.unwrap_or(u64::MAX);
    let ends_ns = if instances > 1 { FOUR_RUN } else { u64::MAX };
    let stores = Arc::new(Mutex::new(Stores { volume, io, rocksdb, mysql, left, ends_ns, alone: None }));
    let thread = |role| Thread { stores: Arc::clone(&stores), role, freed: vec![], later: VecDeque::new() };
    let burst = (scaled(rocksdb::BURST, LARGEST, target) / piece) as u32;
    let mut users = vec![];
    for n in 0..instances as usize {
        let number = if instances > 1 { format!(" {}", n + 1) } else { String::new() };
        for (at, kind) in rocksdb::THREADS.into_iter().enumerate() {
            let name = format!("rocksdb{number} {kind}");
            let user = User::closed(name, burst, thread(Role::RocksDb(n, at)));
            users.push(User { calls_amid: is_f2fs, ..user });
        }
    }
    if database > 0 {
        for (kind, depth) in mysql::THREADS {
            users.push(User::closed(format!("mysql {}", kind.name()), depth, thread(Role::MySql(kind))));
        }
    }
    phases.push(Phase { nominal_bytes_s: speed(100_000_000), ..Phase::of(users) });
    let or = if instances > 1 { ", or after 900 s" } else { "" };
    let mut notes = vec![format!("ends when the volume is full{or}; the log of writes is on another device")];
    if instances > 0 {
        notes.push(format!("SSTables of up to {} MiB", table / MIB));
    }
    Ok(Workload { name: String::new(), phases, notes })
}

/// Requests that are known beforehand.
struct Listed(std::collections::vec_deque::IntoIter<Request>);

impl Source for Listed {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        out.extend(self.0.by_ref().take(max));
        Ok(())
    }
}

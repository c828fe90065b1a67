//! A front end of our own for vhost-user-blk: a guest with rings in memory that it shares.

use std::path::Path;
use std::time::{Duration, Instant};

use nandle_serve::vhost_user::blk::{QUEUES, feature};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::eventfd::EventFd;

pub const SIZE: u16 = 128;
pub const MEMORY: usize = 16 << 20;
/// Each queue has its rings here...
pub const RINGS: u64 = 64 << 10;
/// ... and requests have their buffers from here on.
pub const BUFFERS: u64 = 1 << 20;
pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A guest: memory, and rings in it.
pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    pub kicks: Vec<EventFd>,
    pub calls: Vec<EventFd>,
    /// Of each queue: entries made available, entries seen used.
    pub made: Vec<u16>,
    pub seen: Vec<u16>,
}

pub fn rings(queue: usize) -> (u64, u64, u64) {
    let at = queue as u64 * RINGS;
    (at, at + 8192, at + 16384)
}

impl Guest {
    pub fn connect(socket: &Path) -> Self {
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, MEMORY as u64).expect("memory");
        let offset = FileOffset::new(file.into(), 0);
        let memory = GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), MEMORY, Some(offset))])
            .expect("a map");
        let mut frontend = Frontend::connect(socket, QUEUES as u64).expect("a socket");
        frontend.set_owner().expect("owner");
        let features = frontend.get_features().expect("features");
        let wanted = feature::VERSION_1
            | feature::PROTOCOL
            | feature::FLUSH
            | feature::DISCARD
            | feature::WRITE_ZEROES;
        assert_eq!(features & wanted, wanted);
        frontend.set_features(features).expect("features");
        let protocol = frontend.get_protocol_features().expect("protocol features");
        let ours = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ;
        assert!(protocol.contains(ours));
        frontend.set_protocol_features(ours).expect("protocol features");
        let region = memory.iter().next().expect("a region");
        let base = region.get_host_address(vm_memory::MemoryRegionAddress(0)).expect("an address") as u64;
        let info = VhostUserMemoryRegionInfo::from_guest_region(region).expect("a region");
        frontend.set_mem_table(&[info]).expect("memory");
        let (mut kicks, mut calls) = (vec![], vec![]);
        for queue in 0..QUEUES {
            let (table, avail, used) = rings(queue);
            frontend.set_vring_num(queue, SIZE).expect("a ring");
            let config = VringConfigData {
                queue_max_size: SIZE,
                queue_size: SIZE,
                flags: 0,
                desc_table_addr: base + table,
                used_ring_addr: base + used,
                avail_ring_addr: base + avail,
                log_addr: None,
            };
            frontend.set_vring_addr(queue, &config).expect("a ring");
            frontend.set_vring_base(queue, 0).expect("a ring");
            let (kick, call) = (EventFd::new(0).expect("an event"), EventFd::new(0).expect("an event"));
            frontend.set_vring_call(queue, &call).expect("a ring");
            frontend.set_vring_kick(queue, &kick).expect("a ring");
            frontend.set_vring_enable(queue, true).expect("a ring");
            kicks.push(kick);
            calls.push(call);
        }
        Self { frontend, memory, kicks, calls, made: vec![0; QUEUES], seen: vec![0; QUEUES] }
    }

    pub fn config(&mut self) -> Vec<u8> {
        let flags = VhostUserConfigFlags::WRITABLE;
        self.frontend.get_config(0, 60, flags, &[0; 60]).expect("a configuration").1
    }

    pub fn descriptor(&self, at: u64, (address, length, flags, next): (u64, u32, u16, u16)) {
        let fields = [address.to_le_bytes().to_vec(), length.to_le_bytes().to_vec()].concat();
        let bytes = [fields, flags.to_le_bytes().to_vec(), next.to_le_bytes().to_vec()].concat();
        self.memory.write_slice(&bytes, GuestAddress(at)).expect("within");
    }

    /// Makes the chain that begins with `head` available.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let avail = rings(queue).1;
        let at = avail + 4 + 2 * u64::from(self.made[queue] % SIZE);
        self.memory.write_obj(head, GuestAddress(at)).expect("within");
        self.made[queue] = self.made[queue].wrapping_add(1);
        self.memory.write_obj(self.made[queue], GuestAddress(avail + 2)).expect("within");
        self.kicks[queue].write(1).expect("a kick");
    }

    /// A request from four descriptors at `4 * slot`, its buffers in `slot`'s 128 KiB; data are cut in two.
    #[allow(clippy::too_many_arguments)]
    pub fn send(
        &mut self,
        queue: usize,
        slot: u16,
        kind: u32,
        sector: u64,
        data: &[u8],
        room: u32,
        indirect: bool,
    ) {
        let at = BUFFERS + u64::from(slot) * (128 << 10);
        let header =
            [kind.to_le_bytes().to_vec(), vec![0; 4], sector.to_le_bytes().to_vec(), data.to_vec()].concat();
        self.memory.write_slice(&header, GuestAddress(at)).expect("within");
        let answer = at + (64 << 10);
        let half = room / 2;
        // A header with some of the data, the rest, two places for the answer.
        let cut = 16 + (data.len() as u32) / 3;
        let rest = header.len() as u32 - cut;
        let mut list = vec![(at, cut, NEXT)];
        list.extend((rest > 0).then_some((at + u64::from(cut), rest, NEXT)));
        list.extend((half > 0).then_some((answer, half, NEXT | WRITE)));
        list.push((answer + u64::from(half), room - half + 1, WRITE));
        let table = rings(queue).0;
        let place = if indirect { at + (120 << 10) } else { table + u64::from(4 * slot) * 16 };
        let first = if indirect { 0 } else { 4 * slot };
        for (n, (address, length, flags)) in list.iter().enumerate() {
            let next = if flags & NEXT != 0 { first + n as u16 + 1 } else { 0 };
            self.descriptor(place + 16 * n as u64, (*address, *length, *flags, next));
        }
        if indirect {
            let head = (place, 16 * list.len() as u32, INDIRECT, 0);
            self.descriptor(table + u64::from(4 * slot) * 16, head);
        }
        self.offer(queue, 4 * slot);
    }

    /// The next used entry: the slot, and the bytes that were written.
    pub fn receive(&mut self, queue: usize) -> (u16, u32) {
        let used = rings(queue).2;
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.memory.read_obj::<u16>(GuestAddress(used + 2)).expect("within") == self.seen[queue] {
            assert!(Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_micros(50));
        }
        let at = used + 4 + 8 * u64::from(self.seen[queue] % SIZE);
        self.seen[queue] = self.seen[queue].wrapping_add(1);
        let word = |at| self.memory.read_obj::<u32>(GuestAddress(at)).expect("within");
        ((word(at) / 4) as u16, word(at + 4))
    }

    pub fn answer(&self, slot: u16, room: u32) -> (u8, Vec<u8>) {
        let at = BUFFERS + u64::from(slot) * (128 << 10) + (64 << 10);
        let mut bytes = vec![0; room as usize + 1];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).expect("within");
        (bytes.pop().expect("a status"), bytes)
    }

    /// One request and its answer.
    pub fn ask(&mut self, kind: u32, sector: u64, data: &[u8], room: u32) -> (u8, Vec<u8>) {
        self.send(0, 7, kind, sector, data, room, false);
        let (slot, _) = self.receive(0);
        assert_eq!(slot, 7);
        self.answer(7, room)
    }
}

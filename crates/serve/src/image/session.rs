//! Who has an image open, and how far its writes can be trusted after the machine went down.

/// What of an image is on the disk, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It outlives the process, however that ends.
    #[default]
    Process,
    /// It outlives the host as well: flushes and FUA writes are answered once they are on the disk.
    Host,
}

const MAGIC: &[u8; 4] = b"open";
const CLOSED: &[u8; 4] = b"shut";
/// Mark, checksum, durability, and the name that the kernel gave to its present life.
pub(super) const BYTES: usize = 64;
const BOOT: usize = 16;

/// The record that a server leaves in an image when it opens it and when it closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub open: bool,
    pub durability: Durability,
    /// Which life of the kernel it is; empty if that cannot be told.
    pub boot: String,
}

impl Session {
    /// One that begins now.
    pub fn new(durability: Durability) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().chars().take(BYTES - BOOT).collect();
        Self { open: true, durability, boot }
    }

    pub fn bytes(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..4].copy_from_slice(if self.open { MAGIC } else { CLOSED });
        out[8] = u8::from(self.durability == Durability::Host);
        out[BOOT..BOOT + self.boot.len()].copy_from_slice(self.boot.as_bytes());
        let sum = crc32fast::hash(&out[8..]) ^ u32::from(out[0]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// None if it is damaged.
    pub fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let text = std::str::from_utf8(&bytes[BOOT..]).ok()?;
        let durability = if bytes[8] == 1 { Durability::Host } else { Durability::Process };
        let open = bytes[..4] == *MAGIC;
        let session = Self { open, durability, boot: text.trim_end_matches('\0').to_owned() };
        (session.bytes() == *bytes).then_some(session)
    }

    /// Whether what was written last may be missing: the machine went down meanwhile, and nobody had asked for
    /// more than the process to be outlived.
    pub fn may_lack_writes(&self, now: &Self) -> bool {
        self.open && self.durability == Durability::Process && !self.boot.is_empty() && self.boot != now.boot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_damage_is_seen() {
        for durability in [Durability::Process, Durability::Host] {
            let session = Session::new(durability);
            for open in [true, false] {
                let session = Session { open, ..session.clone() };
                let bytes = session.bytes();
                assert_eq!(Session::read(&bytes).as_ref(), Some(&session));
                for bit in 0..BYTES * 8 {
                    let mut bytes = bytes;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    assert_eq!(Session::read(&bytes), None, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn only_a_machine_that_went_down_loses_what_a_server_wrote() {
        let (mine, now) = (Session::new(Durability::Process), Session::new(Durability::Process));
        assert!(!mine.may_lack_writes(&now));
        let other = Session { boot: "another life".into(), ..mine };
        assert!(other.may_lack_writes(&now));
        assert!(!Session { open: false, ..other.clone() }.may_lack_writes(&now));
        assert!(!Session { durability: Durability::Host, ..other }.may_lack_writes(&now));
    }
}

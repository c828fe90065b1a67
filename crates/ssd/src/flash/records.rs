//! Records: what the out-of-band areas cannot tell, and the metadata log has to.

/// `sectors` sectors from `lsn` were trimmed at sequence number `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRecord {
    /// First sector.
    pub lsn: u64,
    /// Sectors.
    pub sectors: u64,
    /// When, among everything that is written.
    pub seq: u64,
}

/// Something that a scheme has to know after a power cut; what the words say is its own affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeRecord {
    /// Which kind of record (1 to 255); no two schemes use the same.
    pub kind: u8,
    /// When it was made, among everything that is written (56 bits).
    pub seq: u64,
    /// What it says.
    pub words: [u64; 2],
}

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Sectors were trimmed.
    Trim(TrimRecord),
    /// A scheme's own.
    Scheme(SchemeRecord),
}

impl Record {
    /// When it was made, among everything that is written.
    pub fn seq(&self) -> u64 {
        match *self {
            Self::Trim(TrimRecord { seq, .. }) | Self::Scheme(SchemeRecord { seq, .. }) => seq,
        }
    }
}

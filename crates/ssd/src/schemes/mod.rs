//! The published schemes, one folder each, and the list that registers them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::catalog::Settings;
use crate::error::ConfigError;
use crate::flash::Flash;
use crate::space::PacingKind;

mod list;
mod scheme;
mod streams_config;

pub use list::Schemes;
pub use scheme::{
    Counter, Facts, Interests, Name, ObjectInfo, Objects, Pages, Plan, Published, Reach, Refusal, Rest,
    Scheme, Seam, Surroundings,
};
use scheme::{check_page_types, refuse_second_table};
pub use streams_config::{Isolation, StreamsConfig};

/// `folder::Type { its tables in [scheme] } [tables that it shares];` is all that a scheme needs here: the
/// folder becomes a module, device files get the tables, and the scheme is asked in this order, in which what
/// comes first may leave the rest to what follows.
macro_rules! registry {
    ($(
        $folder:ident :: $Type:ident
        { $( $(#[doc = $doc:literal])+ $table:ident : $Config:ident ),* }
        [ $( $shared:ident ),* ];
    )+) => {
        $( pub mod $folder; )+

        /// A scheme of a drive.
        #[derive(Debug)]
        pub(crate) enum Slot {
            $( $Type(Box<$folder::$Type>), )+
            /// From outside of the crate.
            Outside(Box<dyn Scheme>),
        }

        impl Clone for Slot {
            fn clone(&self) -> Self {
                match self {
                    $( Self::$Type(scheme) => Self::$Type(scheme.clone()), )+
                    Self::Outside(scheme) => Self::Outside(scheme.boxed()),
                }
            }
        }

        /// `[scheme]`: the schemes of a drive by name, one for each question, and their settings.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct SchemeConfig {
            /// What waits in RAM and what leaves first.
            #[schemars(extend("enum" = choices(Seam::Buffer)))]
            pub buffer: String,
            /// How a write is placed: "page", or names joined by "+".
            pub mapping: String,
            /// Small partial pages that leave the buffer together share a physical page (WAFLASH).
            pub compaction: bool,
            /// Which plane a page goes to: a static order over C(hannel) W(ay = chip) D(ie) P(lane), fastest
            /// first, as "CWDP"; "dynamic" (first idle, else least queued); "round-robin" (each in its turn, channels
            /// first; a page waits for room where it is its turn); "block-by-block" (a stream fills a block, then
            /// goes on in the next plane); or "superblock" (it fills blocks of several dies together, page by page:
            /// see `[superblock]`).
            pub striping: String,
            /// Which page type it goes to.
            #[schemars(extend("enum" = choices(Seam::Allocation)))]
            pub allocation: String,
            /// Which writes share blocks.
            #[schemars(extend("enum" = choices(Seam::Streams)))]
            pub streams: String,
            /// When garbage is collected.
            pub pacing: PacingKind,
            $($( $(#[doc = $doc])+ pub $table: $folder::$Config, )*)+
        }

        impl Default for SchemeConfig {
            fn default() -> Self {
                Self {
                    buffer: "lru".into(),
                    mapping: "page".into(),
                    compaction: false,
                    striping: "CWDP".into(),
                    allocation: "strict".into(),
                    streams: "by-time".into(),
                    pacing: PacingKind::default(),
                    $($( $table: $folder::$Config::default(), )*)+
                }
            }
        }

        /// The names of all registered schemes, in order.
        pub(crate) const NAMES: &[&[Name]] = &[$( <$folder::$Type as Published>::NAMES ),+];
        /// Their counters: names and what they count.
        pub(crate) fn counters() -> Vec<(&'static str, &'static str)> {
            let mut all = Vec::new();
            $( all.extend(<$folder::$Type as Published>::COUNTERS.iter().map(|c| (c.key, c.line))); )+
            all
        }
        /// What a scheme takes in brackets: its own tables, and what it declares of those that it shares.
        pub(crate) fn settings(name: &str) -> Settings {
            $(
                if <$folder::$Type as Published>::NAMES.iter().any(|own| own.name == name) {
                    let tables: &[&str] = &[$( concat!("scheme.", stringify!($table)) ),*];
                    return Settings {
                        positional: <$folder::$Type as Published>::POSITIONAL.to_vec(),
                        keyed: [tables, <$folder::$Type as Published>::KEYED].concat(),
                    };
                }
            )+
            Settings::default()
        }
        /// What they write to out-of-band areas, and to the metadata log.
        #[cfg(test)]
        pub(crate) const TAGS: &[(u8, &[u8])] =
            &[$( (<$folder::$Type as Published>::OWNER, <$folder::$Type as Published>::RECORD_KINDS) ),+];

        /// Lets each scheme that `facts` names add to the plan of the drive.
        pub(crate) fn plan(
            own: &SchemeConfig,
            streams: &StreamsConfig,
            facts: &Facts<'_>,
        ) -> Result<Plan, ConfigError> {
            let shared = Shared { streams };
            let mut plan = Plan::default();
            let _ = (own, &shared);
            $(
                if is_chosen::<$folder::$Type>(facts) {
                    <$folder::$Type as Published>::plan(
                        ($( &own.$table ),* $( shared.$shared ),*),
                        facts,
                        &mut plan,
                    )?;
                }
            )+
            Ok(plan)
        }

        /// The schemes that `facts` names.
        pub(crate) fn build(
            own: &SchemeConfig,
            streams: &StreamsConfig,
            facts: &Facts<'_>,
            logical_pages: u32,
        ) -> Vec<Slot> {
            let shared = Shared { streams };
            let _ = (own, &shared);
            let mut slots = Vec::new();
            $(
                if is_chosen::<$folder::$Type>(facts) {
                    let settings = ($( &own.$table ),* $( shared.$shared ),*);
                    let scheme = <$folder::$Type as Published>::new(settings, facts, logical_pages);
                    slots.push(Slot::$Type(Box::new(scheme)));
                }
            )+
            slots
        }

        impl Slot {
            /// The scheme, to be asked something rare.
            fn as_dyn(&self) -> &dyn Scheme {
                match self {
                    $( Self::$Type(scheme) => &**scheme, )+
                    Self::Outside(scheme) => &**scheme,
                }
            }
            /// Its counters: `to` takes the name and the value of each.
            fn visit(&self, flash: &Flash, to: &mut dyn FnMut(&'static str, u64)) {
                match self {
                    $( Self::$Type(scheme) => {
                        <$folder::$Type as Published>::COUNTERS.iter().for_each(|c| to(c.key, (c.get)(scheme, flash)));
                    } )+
                    Self::Outside(scheme) => scheme.visit(flash, to),
                }
            }
            /// The counters go on where those of the same scheme were.
            fn inherit(&mut self, before: &Self) {
                $(
                    if let (Self::$Type(scheme), Self::$Type(before)) = (&mut *self, before) {
                        scheme.inherit(before);
                    }
                )+
            }
            fn as_dyn_mut(&mut self) -> &mut dyn Scheme {
                match self {
                    $( Self::$Type(scheme) => &mut **scheme, )+
                    Self::Outside(scheme) => &mut **scheme,
                }
            }
        }
    };
}

/// What answers a question if no scheme does.
const BASELINE: &[Name] = &[
    Name {
        seam: Seam::Buffer,
        name: "lru",
        line: "The least recently written page (SSDSim's); no buffer if `buffer.bytes` is 0.",
    },
    Name { seam: Seam::Buffer, name: "fifo", line: "The oldest request, all its pages (VSSIM's)." },
    Name {
        seam: Seam::Mapping,
        name: "page",
        line: "One physical page per logical page; partial updates read, modify and write (the baseline).",
    },
    Name {
        seam: Seam::Allocation,
        name: "strict",
        line: "One open block a plane, in shadow order: page types come out even (the baseline).",
    },
    Name { seam: Seam::Streams, name: "by-time", line: "Arrival order, one stream (vanilla)." },
];

/// Every policy that `[scheme]` can name, seam by seam, the baseline's first.
fn names() -> Vec<Name> {
    let all = || BASELINE.iter().chain(NAMES.iter().copied().flatten()).copied();
    let seams = [Seam::Buffer, Seam::Mapping, Seam::Compaction, Seam::Allocation, Seam::Streams];
    seams.into_iter().flat_map(|seam| all().filter(move |name| name.seam == seam)).collect()
}

/// The names that a seam takes.
fn choices(seam: Seam) -> Vec<&'static str> {
    names().iter().filter(|name| name.seam == seam).map(|name| name.name).collect()
}

/// Tables that several schemes read.
struct Shared<'a> {
    streams: &'a StreamsConfig,
}

fn is_chosen<S: Published>(facts: &Facts<'_>) -> bool {
    S::NAMES.iter().any(|name| facts.chosen(name.name))
}

registry! {
    mca::Mca {} [];
    pc_lru::PcLru {
        /// Of buffer = "pc-lru".
        pc_lru: PcLruConfig
    } [];
    across::Across {
        /// Of mapping = "across".
        across: AcrossConfig
    } [];
    mrsm::Mrsm {
        /// Of mapping = "mrsm".
        mrsm: MrsmConfig
    } [];
    waflash::Waflash {
        /// Of mapping = "multi-version"; bounds and merges also of compaction.
        multi_version: MultiVersionConfig,
        /// Of compaction = true.
        compacted: CompactedConfig
    } [];
    lsb_first::LsbFirst {} [];
    size_based::SizeBased {} [];
    papa::Papa {} [];
    multi_stream::MultiStream {} [streams];
    flashalloc::FlashAlloc {} [streams];
    fdp::Fdp {} [streams];
}

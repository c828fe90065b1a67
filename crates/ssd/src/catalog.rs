//! The list of policies: one line each registers a name, its description and its variant. And the
//! settings that a policy takes along with its name.

/// The settings that a policy takes in brackets behind its name, as `fdp(8,isolation=persistently)`:
/// keys of the device file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What values without a key stand for, in order. The policy's name in reports has these.
    pub positional: Vec<&'static str>,
    /// What has to be given by its key. A table stands for all its keys.
    pub keyed: Vec<&'static str>,
}

/// Declares a closed set of policies, the default one first. The quoted name is what configuration
/// files, the command line and the documentation call it; the doc comment is its description.
#[macro_export]
macro_rules! catalog {
    (
        $(#[$meta:meta])*
        pub enum $Kind:ident {
            $(#[doc = $doc0:literal])+ $Name0:ident = $name0:literal
            $(, $(#[doc = $doc:literal])+ $Name:ident = $name:literal )* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[derive(schemars::JsonSchema)]
        pub enum $Kind {
            $(#[doc = $doc0])+
            #[default]
            #[serde(rename = $name0)]
            $Name0,
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                $Name,
            )*
        }

        impl $Kind {
            /// All policies of this kind: value, name, description.
            pub const ALL: &'static [(Self, &'static str, &'static str)] = &[
                (Self::$Name0, $name0, concat!($($doc0),+)),
                $( (Self::$Name, $name, concat!($($doc),+)), )*
            ];

            /// The name in files and on the command line.
            pub fn name(self) -> &'static str {
                Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
            }
        }
    };
}

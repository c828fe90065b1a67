//! Devices that come with the program: `drives/*.toml`, embedded.

/// A device that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `--device` calls it.
    pub name: &'static str,
    /// Its device file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// All presets, the one for newcomers first.
        pub const PRESETS: &[Preset] = &[
            $(Preset { name: $name, text: include_str!(concat!("../../../../drives/", $name, ".toml")) }),*
        ];
    };
}

presets!(
    "demo",
    "demo-page",
    "waflash-vssim",
    "waflash-openssd",
    "pclru-ssdsim",
    "papa-tlc",
    "across-tlc",
    "flashalloc-cosmos",
    "modern-tlc",
    "modern-tlc-4tb",
    "modern-tlc-16tb",
    "modern-qlc",
    "modern-qlc-4tb",
    "modern-qlc-16tb",
    "micron-7450-max-800g",
    "micron-7450-pro-960g",
    "samsung-pm9a3-960g",
    "solidigm-p5520-1920g",
    "kioxia-cm7-r-3840g",
    "wd-sn-class",
    "qlc-16k-15tb",
    "qlc-64k-15tb",
    "client-tlc-1tb",
    "fdp-emulator-448g",
    "fdp-emulator-224g",
    "common",
    "gc20",
    "gc10",
);

/// The preset called `name`.
pub(super) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

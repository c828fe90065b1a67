#!/usr/bin/env python3
"""Goal: a published scheme is one folder and one line.

Method: in a copy of the sources, a scheme that answers nothing is added for each question: a folder, and a line in
`registry!`. The program is built, has to list it, and a drive with it has to do what the baseline does.

    tests/new_scheme.py
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What each question is called, and a scheme sum that leaves this answer to the new scheme.
SEAMS = {"Buffer": "{}+page", "Mapping": "lru+{}", "Allocation": "lru+page+{}", "Streams": "lru+page+{}"}

FOLDER = '''//! Answers nothing.

use super::{{Facts, Name, Plan, Published, Scheme, Seam}};
use crate::error::ConfigError;

/// Answers nothing.
#[derive(Clone, Debug)]
pub struct Idle{seam};

impl Scheme for Idle{seam} {{
    fn boxed(&self) -> Box<dyn Scheme> {{
        Box::new(self.clone())
    }}
}}

impl Published for Idle{seam} {{
    const NAMES: &'static [Name] =
        &[Name {{ seam: Seam::{seam}, name: "{name}", line: "Answers nothing." }}];
    type Config<'a> = ();

    fn plan((): (), _: &Facts<'_>, _: &mut Plan) -> Result<(), ConfigError> {{
        Ok(())
    }}
    fn new((): (), _: &Facts<'_>, _: u32) -> Self {{
        Self
    }}
}}
'''


def run(program: pathlib.Path, scheme: str, directory: pathlib.Path) -> dict:
    shutil.rmtree(directory, ignore_errors=True)
    done = subprocess.run(
        [program, "run", "--device", "gc20", "--set", "buffer.bytes=1MiB", "--scheme", scheme, "--workload", "common",
         "--requests", "20000", "--verify", "--output", directory], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tests/new_scheme.py: --scheme {scheme}: {done.stderr}")
    return json.loads((directory / "summary.json").read_text())


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="nandle-scheme-") as place:
        copy = pathlib.Path(place) / "nandle"
        skip = shutil.ignore_patterns("target", ".git", "node_modules")
        shutil.copytree(ROOT, copy, ignore=skip, symlinks=True)
        schemes = copy / "crates/ssd/src/schemes"
        lines = ""
        for seam in SEAMS:
            name = f"idle_{seam.lower()}"
            (schemes / name).mkdir()
            (schemes / name / "mod.rs").write_text(FOLDER.format(seam=seam, name=name.replace("_", "-")))
            lines += f"    {name}::Idle{seam} {{}} [];\n"
        listing = schemes / "mod.rs"
        text = listing.read_text()
        changed = re.sub(r"(\nregistry! \{\n)", lambda found: found.group(1) + lines, text)
        if changed == text:
            sys.exit("tests/new_scheme.py: crates/ssd/src/schemes/mod.rs has no `registry! {` any more")
        listing.write_text(changed)

        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "new-scheme"
        built = subprocess.run(["cargo", "build", "--quiet", "--bin", "nandle", "--target-dir", target], cwd=copy)
        if built.returncode:
            sys.exit("tests/new_scheme.py: a scheme that answers nothing does not compile")
        program = target / "debug/nandle"
        listed = subprocess.run([program, "schemes"], capture_output=True, text=True, check=True).stdout
        out = pathlib.Path(place) / "run"
        baseline = run(program, "lru+page", out)
        wrong = 0
        for seam, scheme in SEAMS.items():
            name = f"idle-{seam.lower()}"
            found = run(program, scheme.format(name), out)
            same = found["digest"] == baseline["digest"]
            shown = name in listed and name in found["scheme"]
            print(f"{name:<18} {'the baseline' if same else 'ANOTHER DIGEST'}{'' if shown else ', NOT LISTED'}")
            wrong += not (same and shown)
        return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Goal: the tests can fail.

Method: each deliberate breakage below is applied to a copy of the sources, and the named net must
catch it: fail, or never end. A mutant that survives is a hole in the net; one that no longer applies needs a new form.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# (what breaks, file, text, replacement, test that must fail)
MUTANTS = [
    ("an overwritten page may be erased before its successor is on flash",
     "crates/ssd/src/flash.rs", "self.nand.supersede(old, op);\n            self.fragments.set_single",
     "self.fragments.set_single", "oracle"),
    ("a collected page may be erased before its copy is on flash",
     "crates/ssd/src/flash.rs",
     "to, u32::from(start), u32::from(len));\n            self.nand.supersede(ppn, op);",
     "to, u32::from(start), u32::from(len));", "oracle"),
    ("a flush does not record trims",
     "crates/ssd/src/ssd.rs", "if !self.flash.log_is_clean() {", "if false {", "oracle"),
    ("a block is erased before its trims are recorded",
     "crates/ssd/src/trims.rs", "if self.blocks.is_trimmed(block) {", "if false {", "oracle"),
    ("recovery forgets the order of programs",
     "crates/ssd/src/recovery.rs", "scan.found.sort_by_key(|&(seq, _)| seq);", "", "oracle"),
    ("a checkpoint page does not wait for what it refers to",
     "crates/ssd/src/checkpoint.rs", "let after: Vec<OpId> = self.nand.pending_programs().collect();",
     "let after: Vec<OpId> = vec![];", "crash"),
    ("a checkpoint page is written before the trims that it knows of",
     "crates/ssd/src/checkpoint.rs",
     "if !self.log_is_clean() {\n            self.write_log(None);\n        }\n        let class = PageClass::SYSTEM;\n"
     "        if !self.log_is_clean() ||",
     "let class = PageClass::SYSTEM;\n        if", "crash"),
    ("a copy of an unreadable sector is readable",
     "crates/nand/src/array.rs", "self.lose(to, gone << to_at);", "let _ = gone;", "faults"),
    ("a flush does not drain the buffer",
     "crates/ssd/src/ssd.rs", "while self.buffer.as_ref().is_some_and(|b| !b.is_empty()) {", "while false {",
     "oracle"),
    ("a partial update forgets what it leaves standing",
     "crates/ssd/src/mapping/page.rs", "flash.carry(lpn, keep, ppn, 0);", "", "oracle"),
    ("an RMW does not wait for its read",
     "crates/ssd/src/mapping/page.rs", "after.extend(reads.iter().map(|&(_, op)| op));", "", "closed_forms"),
    ("greedy takes the newest of equal blocks",
     "crates/ssd/src/victim/greedy.rs", "from.buckets().next()", "from.buckets().last()", "closed_forms"),
    ("the channel serves the newest first",
     "crates/nand/src/schedule.rs", "channel.waiting.pop_front()", "channel.waiting.pop_back()", "closed_forms"),
    ("a die forgets the transfer out",
     "crates/nand/src/schedule.rs", "let duration = self.channel_time(op);\n            self.want_channel",
     "let duration = 0;\n            self.want_channel", "closed_forms"),
    ("the image lags behind the answers",
     "crates/serve/src/driver.rs", "if !self.changes.is_empty() {", "if self.changes.len() > 32 {", "serve"),
    ("a read-modify-write of the server does not keep others away",
     "crates/serve/src/driver.rs", "if self.must_wait(number, changes) {", "if false {", "serve"),
    ("the server forgets FUA",
     "crates/serve/src/nbd/session.rs", ".fua(request.flags & flag::FUA != 0)", ".fua(false)", "serve"),
    ("the NVM subsystem forgets FUA",
     "crates/serve/src/nvme_tcp/session.rs", "Io::write(offset, data).fua(fua)",
     "Io::write(offset, data).fua(false)", "serve_nvme"),
    ("the server answers a flush at once",
     "crates/serve/src/plan.rs", "Op::Flush => plan.steps.push_back(Step::new(Op::Flush, 0, 0)),", "Op::Flush => {}", "serve"),
    ("the oracle's own check is off",
     "crates/lab/src/oracle.rs", "self.checked += 1;", "return;", "oracle"),
]


SURVIVED = "SURVIVED"
# A drive that has lost its way may also go round for ever.
PATIENCE_S = 300


def judge(copy: pathlib.Path, test: str) -> str:
    """Builds and runs one test of the mutated sources."""
    cargo = ["cargo", "test", "--quiet", "--test", test, "--target-dir", str(ROOT / "target/mutants")]
    built = subprocess.run([*cargo, "--no-run"], cwd=copy, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        sys.exit(f"the mutant does not build:\n{built.stderr}")
    run = subprocess.Popen(cargo, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           start_new_session=True)
    try:
        output, _ = run.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "hangs"
    return "caught" if run.returncode != 0 and "test result: FAILED" in output else SURVIVED


def main() -> int:
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "nandle"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("target", ".git", "runs"))
        for name, file, text, replacement, test in MUTANTS:
            path = copy / file
            source = path.read_text()
            if source.count(text) < 1:
                survivors.append(f"{name}: no longer applies to {file}")
                continue
            path.write_text(source.replace(text, replacement, 1))
            verdict = judge(copy, test)
            print(f"{verdict:8}  {test:13} {name}", flush=True)
            if verdict == SURVIVED:
                survivors.append(name)
            path.write_text(source)
    for survivor in survivors:
        print(f"not caught: {survivor}", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Instructions per request of the drive, with no scheme and with each, by valgrind: a figure that a busy machine does not
move.

    benches/instructions.py            compare with benches/instructions.txt; exit 1 if one grew by 3%, or if link and
                                       controller cost the demo drive more than FRONT
    benches/instructions.py --write    renew benches/instructions.txt
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "benches/instructions.txt"
# Two sizes each: their difference leaves construction and start-up out.
WORKLOADS = {"common": (50_000, 150_000), "gc20": (450_000, 550_000), "sequential-4k": (50_000, 150_000),
             "common-replayed": (50_000, 150_000), "common-machine": (50_000, 150_000),
             "gc20-machine": (450_000, 550_000), "gc10-untimed": (450_000, 550_000),
             "demo": (450_000, 550_000), "demo-bare": (450_000, 550_000)}


# The most that link and controller may cost the demo drive, instructions a request.
FRONT = 450
# A drive with one scheme at a time.
OF_A_SCHEME = (20_000, 60_000)


def instructions(program: str, name: str, requests: int) -> int:
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "--once", name, str(requests)],
        capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if not found:
        sys.exit(f"valgrind said nothing of instructions:\n{run.stderr}")
    return int(found.group(1))


def main() -> int:
    if not shutil.which("valgrind"):
        sys.exit("valgrind not found: install it, or use `cargo bench -p nandle-lab --bench simulate`")
    build = subprocess.run(["cargo", "bench", "-p", "nandle-lab", "--bench", "simulate", "--no-run"],
                           cwd=ROOT, capture_output=True, text=True, check=True)
    program = re.search(r"\((target/[^)]*simulate[^)]*)\)", build.stderr).group(1)
    schemes = subprocess.run([ROOT / program, "--schemes"], capture_output=True, text=True, check=True)
    workloads = WORKLOADS | {name: OF_A_SCHEME for name in schemes.stdout.split()}
    now = {}
    for name, (low, high) in workloads.items():
        cost = (instructions(ROOT / program, name, high) - instructions(ROOT / program, name, low)) / (high - low)
        now[name] = round(cost)
    if "--write" in sys.argv:
        KEPT.write_text("".join(f"{name} {cost}\n" for name, cost in sorted(now.items())))
    kept = dict(line.split() for line in KEPT.read_text().splitlines())
    worse = False
    for name, cost in sorted(now.items()):
        change = cost / int(kept[name]) - 1
        worse |= change > 0.03
        print(f"{name:22} {cost:6} instructions a request, kept {kept[name]:>6}, {change:+.1%}")
    front = now["demo"] - now["demo-bare"]
    print(f"link and controller cost the demo drive {front} instructions a request, at most {FRONT}: "
          f"{front / now['demo-bare']:+.1%}")
    return 1 if worse or front > FRONT else 0


if __name__ == "__main__":
    sys.exit(main())

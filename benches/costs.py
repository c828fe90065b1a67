#!/usr/bin/env python3
"""What simulation costs: by scheme, by load, and by the size of the drive. One run at a time, on a quiet machine.

    benches/costs.py [--quick]     prints what each scheme, load and size of drive costs
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUICK = "--quick" in sys.argv
ROUNDS = 1 if QUICK else 3


def run(*arguments: str) -> dict:
    """The best of some rounds: a shared machine only ever adds to what a run costs."""
    command = [str(ROOT / "target/release/nandle"), "run", "--json", "-", *arguments]
    done = [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(ROUNDS)]
    return min(done, key=lambda summary: summary["cpu_s"])


def operations(summary: dict) -> int:
    flash = summary["flash"]
    return flash["reads"]["total"] + flash["programs"]["total"] + flash["erases"]


def table(title: str, first: str, rows: list[tuple[str, dict]]) -> None:
    print(f"\n{title}\n\n| {first} | requests per CPU second | flash operations a request | ns a flash operation | to the first | peak MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    least = None
    for name, s in rows:
        requests = s["host"]["all"]["requests"]
        each = s["cpu_s"] * 1e9 / max(operations(s), 1)
        least = least or each
        print(f"| {name} | {requests / s['cpu_s'] / 1e6:.2f} M | {operations(s) / requests:.2f} | {each:.0f} "
              f"| {each / least:.2f} | {s['peak_rss_bytes'] / 2**20:.0f} |", flush=True)


def main() -> None:
    subprocess.run(["cargo", "build", "--release"], cwd=ROOT, check=True)
    requests = "100000" if QUICK else "1000000"
    drive = ["--device", "papa-tlc", "--fill", "0.9", "--valid", "0.7", "--workload", "tpcc", "--requests", requests]
    ram = ["--set", "buffer.bytes=8MiB"]
    schemes = ["page", "multi-version", "across", "mrsm", "papa", "lsb-first", "size-based", "flashalloc",
               "multi-stream(8)", "fdp(8)"]
    buffered = ["lru+page", "fifo+page", "mca+page", "pc-lru+page", "waflash", "everything"]
    table("By scheme, twin of tpcc on `papa-tlc`, 90% used", "scheme",
          [(s, run("--scheme", s, *drive)) for s in schemes])
    table("The same behind a buffer of 8 MiB", "scheme",
          [(s, run("--scheme", s, *drive, *ram)) for s in buffered])
    table("The peers' workloads", "workload",
          [(name, run("--device", name, "--workload", name)) for name in ("common", "gc20", "gc10")])
    table("Closed loop, random writes of a page on `common`, 85% used", "outstanding",
          [(depth, run("--device", "common", "--fill", "0.85", "--valid", "0.8", "--workload", "random-write", "--replay",
                       "closed", "--iodepth", depth, "--requests", requests)) for depth in ("1", "8", "64", "512")])
    sizes = [("8 GiB", "256"), ("32 GiB", "1024"), ("128 GiB", "4096"),
             ("512 GiB", "16384")]
    table("By size: random writes of 4 KiB pages' worth over the whole drive (`common`'s shape), nothing collected", "raw",
          [(name, run("--device", "common", "--set", f"geometry.blocks_per_plane={int(blocks) // 2}",
                      "--workload", "random-write", "--requests", requests)) for name, blocks in sizes])
    table("By size: modern drives, empty", "device",
          [(d, run("--device", d, "--workload", "random-write", "--requests", requests))
           for d in ("modern-tlc", "modern-tlc-4tb", "modern-tlc-16tb")])


if __name__ == "__main__":
    main()

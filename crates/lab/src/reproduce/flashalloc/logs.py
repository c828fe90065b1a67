#!/usr/bin/env python3
"""What the authors' board gave its host at a write amplification, and what a copy cost it: logs.csv and trims.csv.

    logs.py CLONE      CLONE: github.com/JonghyeokPark/Flashalloc-Cosmos; the tables are written beside this file

The firmware's counters (`*.uart`: host slices, copies for writes and for calls, trimmed pages) have no times. They get those
of the bytes that `*.iostat` counted each second. The logs are cut into pieces of 20 lines; those from when the host has
written as much as the flash holds are put together by their write amplification (logs.csv), and those in which half a page
is copied for each of the host's, or more, by what was trimmed in them (trims.csv).
"""

import bisect
import itertools
import pathlib
import re
import sys
from collections.abc import Iterator

FOLDER = "host/RocksDB/rocksdb-msssd/MULTI"
LOGS = {"by-time": ["vanilla"], "flashalloc": ["salloc"], "multi-stream": [f"ver{n}/msssd" for n in (4, 5, 7)]}
COUNTERS = re.compile(r"hwr: (\d+), er: \d+, cb: (\d+), gwr: \d+, gcb: (\d+), ggc: \d+ trim: (\d+)")
FLASH_PAGES = 16 << 16
# A page of the host's while nothing is copied.
PAGE_US = {"by-time": 42.2, "flashalloc": 47.5}
LINES = 20
# Write amplifications that are put together, from and to below.
LIKE = [(1, 1.02), (1.05, 1.15), (1.15, 1.3), (1.4, 1.6), (1.8, 2.15), (2.2, 2.5), (2.5, 3)]

Piece = tuple[float, int, int, int, int]


def pieces(log: pathlib.Path) -> Iterator[Piece]:
    """Seconds, pages of the host's, copies, trimmed pages, and the host's pages before."""
    counters = COUNTERS.findall(log.with_suffix(".uart").read_text(errors="replace"))
    rows = [(int(host), int(writes) + int(calls), int(trims)) for host, writes, calls, trims in counters]
    lines = [line.split() for line in log.with_suffix(".iostat").read_text(errors="replace").splitlines()]
    column = next(line for line in lines if line[:1] == ["Device"]).index("wMB/s")
    # The first is since the system was started.
    seconds = [float(line[column]) for line in lines if line and line[0].startswith("nvme")][1:]
    written = [0.0, *itertools.accumulate(seconds)]
    first, last = rows[0][0], rows[-1][0]

    def time(host: int) -> float:
        share = (host - first) / (last - first) * written[-1]
        after = max(1, bisect.bisect_left(written, share))
        return after - 1 + (share - written[after - 1]) / (written[after] - written[after - 1])

    for begin, end in zip(rows[::LINES], rows[LINES::LINES]):
        pages, copies, trimmed = (b - a for a, b in zip(begin, end))
        if pages:
            yield time(end[0]) - time(begin[0]), pages, copies, trimmed, begin[0]


def together(chosen: list[Piece]) -> tuple[float, int, int]:
    return sum(p[0] for p in chosen), sum(p[1] for p in chosen), sum(p[2] for p in chosen)


def kind(trimmed: int, pages: int) -> str:
    return "nothing" if trimmed == 0 else "less than a page in 20 written" if 20 * trimmed < pages else "more"


def main() -> None:
    clone, here = pathlib.Path(sys.argv[1], FOLDER), pathlib.Path(__file__).parent
    logged, trimmed = ["policy,waf,mib_s,seconds"], ["policy,trimmed,seconds,waf,us_a_copy"]
    for policy, names in LOGS.items():
        own = [piece for name in names for piece in pieces(clone / name)]
        for least, below in LIKE:
            like = [p for p in own if least <= 1 + p[2] / p[1] < below and p[4] >= FLASH_PAGES]
            took, pages, copies = together(like)
            logged.append(f"{policy},{1 + copies / pages:.2f},{pages / 64 / took:.0f},{took:.0f}")
        if policy not in PAGE_US:
            continue
        for what in ("nothing", "less than a page in 20 written", "more"):
            took, pages, copies = together([p for p in own if p[2] > p[1] / 2 and kind(p[3], p[1]) == what])
            copy = (took * 1e6 - PAGE_US[policy] * pages) / copies
            trimmed.append(f"{policy},{what},{took:.0f},{1 + copies / pages:.2f},{copy:.0f}")
    for name, rows in ("logs.csv", logged), ("trims.csv", trimmed):
        (here / name).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

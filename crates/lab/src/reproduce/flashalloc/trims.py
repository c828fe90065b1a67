#!/usr/bin/env python3
"""What a copy costs the authors' board while nothing is trimmed, little, or much: makes trims.csv.

    trims.py CLONE > trims.csv      CLONE: github.com/JonghyeokPark/Flashalloc-Cosmos

The firmware's counters (`*.uart`: host slices, copies for writes and for calls, trimmed pages) have no times. They get those
of the bytes that `*.iostat` counted each second. Pieces of 20 lines in which half a page is copied for each of the
host's, or more, are put together by what was trimmed in them. A page of the host's takes 35 us without copies.
"""

import bisect
import itertools
import pathlib
import re
import sys

FOLDER = "host/RocksDB/rocksdb-msssd/MULTI"
LOGS = {"by-time": "vanilla", "flashalloc": "salloc"}
COUNTERS = re.compile(r"hwr: (\d+), er: \d+, cb: (\d+), gwr: \d+, gcb: (\d+), ggc: \d+ trim: (\d+)")
PAGE_US = 35
LINES = 20


def kind(trimmed: int, pages: int) -> str:
    return "nothing" if trimmed == 0 else "less than a page in 20 written" if 20 * trimmed < pages else "more"


def main() -> None:
    print("policy,trimmed,seconds,waf,us_a_copy")
    for policy, name in LOGS.items():
        log = pathlib.Path(sys.argv[1], FOLDER, name)
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

        sums: dict[str, list[float]] = {}
        for begin, end in zip(rows[::LINES], rows[LINES::LINES]):
            pages, copies, trimmed = (b - a for a, b in zip(begin, end))
            if pages and copies > pages / 2:
                piece = time(end[0]) - time(begin[0]), pages, copies
                before = sums.setdefault(kind(trimmed, pages), [0.0, 0, 0])
                sums[kind(trimmed, pages)] = [a + b for a, b in zip(before, piece)]
        for what in ("nothing", "less than a page in 20 written", "more"):
            took, pages, copies = sums[what]
            print(f"{policy},{what},{took:.0f},{1 + copies / pages:.2f},{(took * 1e6 - PAGE_US * pages) / copies:.0f}")


if __name__ == "__main__":
    main()

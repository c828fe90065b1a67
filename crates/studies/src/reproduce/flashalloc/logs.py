#!/usr/bin/env python3
"""What the authors' board gave its host: logs.csv, requests.csv, trims.csv and four.csv.

    logs.py CLONE      CLONE: github.com/JonghyeokPark/Flashalloc-Cosmos; the tables are written beside this file

The firmware's counters (`*.uart`: host slices, copies for writes and for calls, trimmed pages) have no times. They get those
of the bytes that `*.iostat` counted each second. The logs are cut into pieces of 20 lines; those from when the host has
written as much as the flash holds are put together by their write amplification (logs.csv), and those in which half a page
is copied for each of the host's, or more, by what was trimmed in them (trims.csv). Seconds in which the board is busy and
copies nothing are put together by the size of their requests (requests.csv), those of four RocksDB instances too. These
write until the volume is full: how long nine tenths of that take, and the whole (four.csv).
"""

import bisect
import itertools
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

FOLDER = "host/RocksDB/rocksdb-msssd/MULTI"
FOUR_INSTANCES = "host/RocksDB/rocksdb-flashalloc/LATENCY/VER1/falloc"
LOGS = {"by-time": ["vanilla"], "flashalloc": ["salloc"], "multi-stream": [f"ver{n}/msssd" for n in (4, 5, 7)]}
COUNTERS = re.compile(r"hwr: (\d+), er: \d+, cb: (\d+), gwr: \d+, gcb: (\d+), ggc: \d+ trim: (\d+)")
FLASH_PAGES = 16 << 16
# A request of the host's, and each page of it, while nothing is copied (requests.csv).
REQUEST_US, PAGE_US = 140, 18
LINES = 20
# Seconds of which the board is busy so many percent tell what a request takes; up to so many pages a request.
BUSY = 85
SIZES = [4, 6, 8, 12, 16, 24, 64]
# Write amplifications that are put together, from and to below.
LIKE = [(1, 1.02), (1.05, 1.15), (1.15, 1.3), (1.4, 1.6), (1.8, 2.15), (2.2, 2.5), (2.5, 3)]

Counters = tuple[int, int, int]


class Log:
    """A run: the firmware's counters, and the seconds of iostat."""

    def __init__(self, log: pathlib.Path) -> None:
        found = COUNTERS.findall(log.with_suffix(".uart").read_text(errors="replace"))
        # Pages of the host's, copies, trimmed pages.
        self.counters: list[Counters] = [(int(h), int(w) + int(c), int(t)) for h, w, c, t in found]
        lines = [line.split() for line in log.with_suffix(".iostat").read_text(errors="replace").splitlines()]
        names = next(line for line in lines if line[:1] == ["Device"])
        at = [names.index(name) for name in ("wMB/s", "w/s", "%util")]
        # The first is since the system was started.
        rows = [line for line in lines if line and line[0].startswith("nvme")][1:]
        self.seconds = [tuple(float(row[n]) for n in at) for row in rows]
        self.mib = [0.0, *itertools.accumulate(mib for mib, _, _ in self.seconds)]
        self.requests = [0.0, *itertools.accumulate(requests for _, requests, _ in self.seconds)]

    def time(self, host: int) -> float:
        """When the host had written so many pages."""
        first, last = self.counters[0][0], self.counters[-1][0]
        share = (host - first) / (last - first) * self.mib[-1]
        after = max(1, bisect.bisect_left(self.mib, share))
        return after - 1 + (share - self.mib[after - 1]) / (self.mib[after] - self.mib[after - 1])

    def requests_until(self, time: float) -> float:
        before = min(int(time), len(self.seconds) - 1)
        return self.requests[before] + (time - before) * self.seconds[before][1]

    def pieces(self) -> Iterator["Piece"]:
        for begin, end in zip(self.counters[::LINES], self.counters[LINES::LINES]):
            pages, copies, trimmed = (b - a for a, b in zip(begin, end))
            if pages:
                times = self.time(begin[0]), self.time(end[0])
                requests = self.requests_until(times[1]) - self.requests_until(times[0])
                yield Piece(times[1] - times[0], pages, copies, requests, trimmed, begin[0])

    def most(self) -> str:
        """Until nine tenths are written: seconds, MiB/s; of all: times the flash's size, WAF."""
        first, last = self.counters[0], self.counters[-1]
        pages = last[0] - first[0]
        time = self.time(first[0] + int(0.9 * pages))
        waf = 1 + (last[1] - first[1]) / pages
        return f"{time:.0f},{0.9 * pages / 64 / time:.0f},{last[0] / FLASH_PAGES:.2f},{waf:.3f}"

    def busy(self) -> Iterator[tuple[float, float, float]]:
        """Busy seconds without a copy: MiB, requests, the busy part of the second."""
        first, last = self.counters[0][0], self.counters[-1][0]
        hosts = [host for host, _, _ in self.counters]
        for n, (mib, requests, percent) in enumerate(self.seconds):
            from_, to = (first + self.mib[m] / self.mib[-1] * (last - first) for m in (n, n + 1))
            begin = self.counters[max(0, bisect.bisect_left(hosts, from_) - 2)]
            end = self.counters[min(len(hosts) - 1, bisect.bisect_left(hosts, to) + 1)]
            copies, pages = end[1] - begin[1], end[0] - begin[0]
            if pages and copies < 0.01 * pages and percent >= BUSY and requests > 50:
                yield mib, requests, percent / 100


class Piece(NamedTuple):
    seconds: float
    pages: int
    copies: int
    requests: float
    trimmed: int
    before: int


def together(chosen: list[Piece]) -> tuple[float, int, int, float]:
    return tuple(sum(p[n] for p in chosen) for n in range(4))


def kind(trimmed: int, pages: int) -> str:
    return "nothing" if trimmed == 0 else "less than a page in 20 written" if 20 * trimmed < pages else "more"


def main() -> None:
    clone, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
    logged, trimmed = ["policy,waf,mib_s,pages_a_request,seconds"], ["policy,trimmed,seconds,waf,us_a_copy"]
    requests = ["policy,pages_a_request,us_a_request,seconds"]
    for policy, names in LOGS.items():
        logs = [Log(clone / FOLDER / name) for name in names]
        own = [piece for log in logs for piece in log.pieces()]
        for least, below in LIKE:
            like = [p for p in own if least <= 1 + p.copies / p.pages < below and p.before >= FLASH_PAGES]
            took, pages, copies, count = together(like)
            logged.append(f"{policy},{1 + copies / pages:.2f},{pages / 64 / took:.0f},{pages / count:.1f},{took:.0f}")
        if policy == "multi-stream":
            continue
        if policy == "flashalloc":
            logs.append(Log(clone / FOUR_INSTANCES))
        busy = [second for log in logs for second in log.busy()]
        for least, most in zip([0, *SIZES], SIZES):
            like = [s for s in busy if least < s[0] * 64 / s[1] <= most]
            if like:
                mib, count, took = (sum(s[n] for s in like) for n in range(3))
                requests.append(f"{policy},{mib * 64 / count:.1f},{took * 1e6 / count:.0f},{len(like)}")
        for what in ("nothing", "less than a page in 20 written", "more"):
            took, pages, copies, count = together(
                [p for p in own if p.copies > p.pages / 2 and kind(p.trimmed, p.pages) == what]
            )
            copy = (took * 1e6 - REQUEST_US * count - PAGE_US * pages) / copies
            trimmed.append(f"{policy},{what},{took:.0f},{1 + copies / pages:.2f},{copy:.0f}")
    four = ["seconds,mib_s,written,waf", Log(clone / FOUR_INSTANCES).most()]
    for name, rows in ("four.csv", four), ("logs.csv", logged), ("requests.csv", requests), ("trims.csv", trimmed):
        (here / name).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

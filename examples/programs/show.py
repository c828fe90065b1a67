"""Sets the runs of run.sh side by side: show.py PROGRAM DIR MODE..."""

import json
import re
import sys
from pathlib import Path

program, folder, modes = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]


def number(pattern, text):
    found = re.findall(pattern, text)
    return [float(value.replace(",", "")) for value in found]


def running(name):
    """WAF as the server's reports had it, oldest first."""
    return number(r"WAF ([0-9.]+)", (folder / f"{name}.reports").read_text())


def run(mode):
    name = f"{program}-{mode}"
    summary = json.loads((folder / f"{name}.json").read_text())
    started, ended = map(float, (folder / f"{name}.time").read_text().split())
    rows = {
        "WAF": summary["waf"],
        "WAF, last third": summary["waf_steady"],
        "host wrote, GB": summary["host"]["write"]["bytes"] / 1e9,
        "drive writes": summary["drive_writes"],
        "pages moved by collection": summary["flash"]["programs"]["gc"],
        "erases": summary["flash"]["erases"],
        "FlashAlloc calls": (summary.get("streams") or {}).get("flashalloc_calls"),
        "file system full at most, %": max(map(int, (folder / f"{name}.full").read_text().replace("%", "").split())),
        "seconds": ended - started,
        "simulated seconds": summary["simulated_ns"] / 1e9,
    }
    if program == "rocksdb":
        for job in ("fillrandom", "overwrite"):
            texts = [(folder / f"{name}.db_bench.{n}").read_text() for n in range(1, 5)]
            each = [number(rf"{job}\s*:.*?([0-9]+) ops/sec", text) for text in texts]
            rows[f"{job}, operations/s, 4 stores"] = sum(values[0] for values in each)
    else:
        text = (folder / f"{name}.sysbench").read_text()
        rows["transactions/s"] = number(r"transactions:.*\(([0-9.]+) per sec", text)[0]
        rows["95th percentile, ms"] = number(r"95th percentile:\s*([0-9.]+)", text)[0]
        rows["WAF after loading"] = next(iter(running(name)), None)
    preload = folder / f"{name}.preload"
    text = preload.read_text() if preload.exists() else ""
    rows["objects of the library"] = sum(number(r": ([0-9]+) objects", text)) if text else None
    rows["refused, overlap"] = sum(number(r"([0-9]+) overlaps", text)) if text else None
    rows["refused, no clean blocks"] = sum(number(r"([0-9]+) without", text)) if text else None
    rows["errors of the library"] = sum(number(r"([0-9]+) errors", text)) if text else None
    return rows


def shown(value):
    if value is None:
        return "-"
    if isinstance(value, float) and value != int(value):
        return f"{value:.3f}" if value < 100 else f"{value:,.0f}"
    return f"{int(value):,}"


runs = {mode: run(mode) for mode in modes}
print("| | " + " | ".join(modes) + " |\n| --- |" + " ---: |" * len(modes))
for row in next(iter(runs.values())):
    print(f"| {row} | " + " | ".join(shown(runs[mode][row]) for mode in modes) + " |")
for mode in modes:
    waf = running(f"{program}-{mode}")
    print(f"\nrunning WAF, {mode}: " + " ".join(f"{w:.2f}" for w in waf[:: max(1, len(waf) // 12)]))
(folder / f"{program}.results.json").write_text(json.dumps(runs, indent=1) + "\n")

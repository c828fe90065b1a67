"""Results as a notebook shows them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._run import Result

MOST = 40
"""Rows that are shown; of more, the first half and the last."""


def shown(results: Sequence[Result], names: Sequence[str]) -> str:
    """A row a run: what it was and the figures that are looked at first."""
    heads = ["", "device", "scheme", "workload", "WAF", "steady", "writes, mean", "reads, mean", "requests/s"]
    numbers = list(range(len(results)))
    cut = len(numbers) > MOST
    if cut:
        numbers = numbers[: MOST // 2] + numbers[-MOST // 2 :]
    rows = []
    for number in numbers:
        s = results[number].summary
        cells = [
            names[number],
            s.device,
            s.scheme,
            s.workload,
            "-" if s.waf is None else f"{s.waf:.3f}",
            "-" if s.waf is None else "yes" if s.steady_state else "no",
            _time(s.host.write.lat_ns.mean),
            _time(s.host.read.lat_ns.mean),
            f"{s.host.all.iops:,.0f}" if s.host.all.iops else "-",
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>")
    if cut:
        rows.insert(MOST // 2, f"<tr><td colspan={len(heads)}>{len(results) - MOST} more</td></tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _time(ns: float) -> str:
    for unit, of in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= of:
            return f"{ns / of:.3g} {unit}"
    return f"{ns:.0f} ns" if ns else "-"

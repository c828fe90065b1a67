"""Plots, with matplotlib or altair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import InputError
from ._table import need

if TYPE_CHECKING:
    from ._run import Result

PARTS = ("host", "padding", "gc", "merge", "map", "meta", "parity")


class Plot:
    """Each plot is drawn by `backend`: `matplotlib` (into `ax` if given, which is returned) or `altair`
    (a chart is returned)."""

    def __init__(self, results: Sequence[Result], names: Sequence[str] | None = None) -> None:
        self._results = results
        self._names = list(names) if names is not None else [_name(result) for result in results]

    def cdf(self, op: str = "write", *, ax: Any = None, backend: str = "matplotlib") -> Any:
        """The share of requests that took at most so long."""
        rows = []
        for name, result in zip(self._names, self._results, strict=True):
            mine = result.latency["op"] == op
            if not mine.any():
                kinds = ", ".join(dict.fromkeys(result.latency["op"])) or "none"
                raise InputError(f"cdf({op!r}): {name} has no such requests; it has {kinds}")
            rows.append((name, result.latency["latency_ns"][mine] / 1e3, result.latency["share"][mine]))
        what = (f"latency of a {op} (us)", "share of requests")
        return _lines(rows, what, ax, backend, log=True, step=True)

    def waf(self, *, ax: Any = None, backend: str = "matplotlib") -> Any:
        """Write amplification over simulated time, interval by interval."""
        rows = []
        for name, result in zip(self._names, self._results, strict=True):
            series = result.timeseries
            there = ~np.isnan(series["waf"])
            rows.append((name, series["start_ns"][there] / 1e9, series["waf"][there]))
        return _lines(rows, ("simulated time (s)", "write amplification"), ax, backend)

    def write_breakdown(self, *, ax: Any = None, backend: str = "matplotlib") -> Any:
        """What write amplification is made of, one bar a run."""
        parts = {
            part: [float((r.summary.waf_parts or {}).get(part) or 0) for r in self._results] for part in PARTS
        }
        if backend == "altair":
            altair = need("altair", "altair")
            rows = [
                {"run": name, "part": part, "waf": value, "order": order}
                for order, (part, values) in enumerate(parts.items())
                for name, value in zip(self._names, values, strict=True)
            ]
            return (
                altair.Chart(altair.Data(values=rows))
                .mark_bar()
                .encode(
                    x=altair.X("run:N", title=None, sort=None),
                    y=altair.Y("waf:Q", title="write amplification"),
                    color=altair.Color("part:N", sort=list(PARTS)),
                    order="order:Q",
                )
            )
        ax = _axes(ax, backend)
        at = np.arange(len(self._names))
        bottom = np.zeros(len(at))
        for part, values in parts.items():
            if any(values):
                ax.bar(at, values, bottom=bottom, label=part)
                bottom += values
        ax.set_xticks(
            at, self._names, rotation=0 if len(at) < 4 else 45, ha="center" if len(at) < 4 else "right"
        )
        ax.set_ylabel("write amplification")
        if bottom.any():
            ax.legend()
        return ax


def _name(result: Result) -> str:
    return f"{result.summary.scheme} | {result.summary.workload}"


def _axes(ax: Any, backend: str) -> Any:
    if backend != "matplotlib":
        raise InputError(f"backend = {backend!r}: expected matplotlib or altair")
    return need("matplotlib.pyplot", "plot").subplots()[1] if ax is None else ax


def _lines(
    rows: list[tuple[str, Any, Any]],
    titles: tuple[str, str],
    ax: Any,
    backend: str,
    *,
    log: bool = False,
    step: bool = False,
) -> Any:
    if backend == "altair":
        altair = need("altair", "altair")
        values = [
            {"run": n, "x": float(a), "y": float(b)} for n, x, y in rows for a, b in zip(x, y, strict=True)
        ]
        mark = {"interpolate": "step-after"} if step else {}
        scale = altair.Scale(type="log") if log else altair.Scale()
        return (
            altair.Chart(altair.Data(values=values))
            .mark_line(**mark)
            .encode(
                x=altair.X("x:Q", title=titles[0], scale=scale),
                y=altair.Y("y:Q", title=titles[1]),
                color="run:N",
            )
        )
    ax = _axes(ax, backend)
    for name, x, y in rows:
        ax.plot(x, y, label=name, drawstyle="steps-post" if step else "default")
    if log:
        ax.set_xscale("log")
    ax.set_xlabel(titles[0])
    ax.set_ylabel(titles[1])
    ax.legend()
    return ax

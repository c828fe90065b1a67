"""One run."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _core
from ._policies import BufferPolicy, VictimPolicy, split
from ._progress import watched
from ._record import record
from ._summary import Summary
from ._table import Table

if TYPE_CHECKING:
    import pandas
    import polars

    from ._plot import Plot

Path = str | os.PathLike[str]
Sets = Mapping[str, Any] | Iterable[str]

# Until when a run goes on that is to become steady: the band, and writes of the whole range.
BAND = 0.02
AT_MOST = 30.0


def run(
    device: Path = "demo",
    scheme: str | None = None,
    workload: Path = "random-write",
    seed: int = 1,
    requests: int | None = None,
    sets: Sets | None = None,
    *,
    replay: str | None = None,
    iodepth: int | None = None,
    time_scale: float | None = None,
    fit: str | None = None,
    format: str | None = None,
    volume: str | None = None,
    time_unit: str | None = None,
    until: str | None = None,
    band: float = BAND,
    at_most: float = AT_MOST,
    verify: bool = False,
    output: Path | None = None,
    io_log: bool = False,
    untimed: bool = False,
    victim: VictimPolicy | None = None,
    buffer: BufferPolicy | None = None,
    progress: bool | Callable[[int, int | None, int, float | None], object] | None = None,
) -> Result:
    """Simulates a drive under a workload.

    `device` is a preset or a TOML file, `scheme` a sum of policies (the device's own if not given),
    `workload` a name, a trace, or a fio job file; `sets` are single settings of the device, as
    `{"gc.soft": 0.05}`. The others are as the options of `nandle run`. `victim` and `buffer` are
    policies written in Python; `scheme` takes those that were given a name with `register`. `progress=True` shows a bar (with tqdm: in
    a notebook as a widget); a function is called now and then with the requests so far, their total if known, the
    simulated time in nanoseconds, and the write amplification so far.

    With `until="steady"` the workload goes on, or the trace repeats, until write amplification and mean latency hold
    within `band`; `summary.steady.reached` says whether they did before `at_most` writes of the range.

    Raises `InputError` if something that was asked for makes no sense.
    """
    _is("victim", victim, VictimPolicy)
    _is("buffer", buffer, BufferPolicy)
    scheme, victim, buffer = split(None if scheme is None else _text("scheme", scheme), victim, buffer)
    with watched(progress) as watch:
        summary, series, latency = _core.simulate(
            device=_text("device", device),
            scheme=scheme,
            workload=_text("workload", workload),
            seed=_whole("seed", seed, 0),
            requests=None if requests is None else _whole("requests", requests, 1),
            sets=[*settings(sets), *(["timing.untimed=true"] if _flag("untimed", untimed) else [])],
            replay=replay,
            iodepth=None if iodepth is None else _whole("iodepth", iodepth, 1, 65536),
            time_scale=time_scale,
            fit=fit,
            format=format,
            volume=volume,
            time_unit=time_unit,
            until=_until(until, band, at_most),
            verify=verify,
            output=None if output is None else _text("output", output),
            io_log=io_log,
            victim=victim,
            buffer=buffer,
            progress=watch,
        )
    return Result(Summary(record(summary)), Table(series), Table(latency))


def _until(until: str | None, band: float, at_most: float) -> tuple[float, float] | None:
    """When the measured part is over, if not when the workload is."""
    if until is None:
        for name, value, default in (("band", band, BAND), ("at_most", at_most, AT_MOST)):
            if value != default:
                raise _core.InputError(f"{name} = {value!r}: expected until='steady' with it")
        return None
    if until != "steady":
        raise _core.InputError(f"until = {until!r}: expected 'steady'")
    return band, at_most


class Result:
    """What a run measured. Can be pickled; equal if the simulations were."""

    def __init__(self, summary: Summary, timeseries: Table, latency: Table) -> None:
        self.summary = summary
        """Every figure, by the keys of summary.json: `result.summary.waf_parts.gc`."""
        self.timeseries = timeseries
        """What happened in each interval; counts are of the interval."""
        self.latency = latency
        """The histogram of latencies: op, latency_ns (the bucket's upper end), requests, share up to there."""

    @property
    def plot(self) -> Plot:
        """Plots: `cdf()`, `waf()`, `write_breakdown()`."""
        from ._plot import Plot

        return Plot([self])

    def to_polars(self) -> polars.DataFrame:
        """The time series as a polars frame."""
        return self.timeseries.to_polars()

    def to_pandas(self) -> pandas.DataFrame:
        """The time series as a pandas frame."""
        return self.timeseries.to_pandas()

    def figures(self) -> dict[str, Any]:
        """The summary without what depends on the machine, in one level."""
        return {key: value for key, value in self.summary.flat().items() if key not in MACHINE}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return (self.figures(), self.timeseries, self.latency) == (
            other.figures(),
            other.timeseries,
            other.latency,
        )

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ._html import shown

        return shown([self], [""])

    def __repr__(self) -> str:
        s = self.summary
        waf = "no writes" if s.waf is None else f"WAF {s.waf:.3f}"
        return f"Result({s.device} | {s.scheme} | {s.workload} | seed {s.seed}: {waf}, {s.host.all.requests} requests)"


MACHINE = ("cpu_s", "requests_per_cpu_s", "peak_rss_bytes")


def presets() -> dict[str, str]:
    """The devices that come with the package, with a line each."""
    return dict(_core.presets())


def schemes() -> list[tuple[str, str, str]]:
    """Every policy: the question that it answers, its name, a line about it. Sums have the question `sum`."""
    return _core.schemes()


def workloads() -> dict[str, str]:
    """The workloads that are generated, with a line each."""
    return dict(_core.workloads())


def config(device: Path = "demo", scheme: str | None = None, sets: Sets | None = None) -> str:
    """Every setting of a device, checked, as the TOML of a device file."""
    scheme = split(None if scheme is None else _text("scheme", scheme), None, None)[0]
    return _core.resolved(_text("device", device), scheme, settings(sets))


def settings(sets: Sets | None) -> list[str]:
    """Settings as `--set` takes them."""
    if sets is None:
        return []
    if isinstance(sets, (str, bytes)) or not isinstance(sets, Iterable):
        raise _core.InputError(f'sets = {sets!r}: expected a dictionary, such as {{"gc.soft": 0.05}}')
    if isinstance(sets, Mapping):
        return [f"{key}={_toml(key, value)}" for key, value in sets.items()]
    return [_setting(one) for one in sets]


def _setting(text: Any) -> str:
    if not isinstance(text, str):
        raise _core.InputError(f"sets: {text!r}: expected KEY=VALUE, or one dictionary of all of them")
    return text


def _toml(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, (list, tuple)):
        inner = (f'"{one}"' if isinstance(one, str) else _toml(key, one) for one in value)
        return f"[{', '.join(inner)}]"
    if hasattr(value, "tolist"):
        return _toml(key, value.tolist())
    raise _core.InputError(
        f"sets[{key!r}] = {value!r}: expected a number, a word, true or false, or a list of them"
    )


def _text(what: str, value: Any) -> str:
    try:
        text = os.fsdecode(value)
    except TypeError:
        raise _core.InputError(f"{what} = {value!r}: expected a name or a path") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _core.InputError(f"{what} = {value!r}: expected a name or a path in UTF-8") from None
    return text


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _core.InputError(f"{what} = {value!r}: expected True or False")
    return value


def _whole(what: str, value: Any, least: int, most: int = 2**64 - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= most or isinstance(value, bool):
        raise _core.InputError(f"{what} = {value!r}: expected a whole number from {least} to {most}")
    return number


def _is(what: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        hint = " (an instance, not the class)" if isinstance(value, type) else ""
        raise _core.InputError(
            f"{what} = {value!r}: expected an instance of a subclass of nandle.{kind.__name__}{hint}"
        )

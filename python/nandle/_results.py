"""The results of a sweep, compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from ._core import InputError
from ._run import Result
from ._table import need

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._plot import Plot


class _Rows:
    """Rows that go to whatever is installed."""

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a row, all with the same keys."""
        raise NotImplementedError

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.rows()
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_arrow(self) -> pyarrow.Table:
        """With pyarrow."""
        table: pyarrow.Table = need("pyarrow", "arrow").table(self._columns())
        return table

    def to_polars(self) -> polars.DataFrame:
        """With polars."""
        frame: polars.DataFrame = need("polars", "polars").DataFrame(self._columns(), strict=False)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """With pandas."""
        frame: pandas.DataFrame = need("pandas", "pandas").DataFrame(self._columns())
        return frame


class Results(_Rows, Sequence[Result]):
    """The results of a sweep, in the grid's order. `labels[i]` tells run i from the others: policies by their class,
    further ones of one class by `Class#2`, `Class#3`."""

    def __init__(self, labels: list[dict[str, Any]], results: list[Result]) -> None:
        self._named: list[tuple[str, Any, str]] = []
        self.labels = [{axis: self._label(axis, value) for axis, value in row.items()} for row in labels]
        self._results = results

    def _label(self, axis: str, value: Any) -> Any:
        """An axis value that can be compared and stored."""
        plain = _plain(value)
        if plain is not None:
            return plain[0]
        name = self._name_of(axis, value)
        if name is None:
            kind = type(value).__name__
            same = sum(where == axis and type(one).__name__ == kind for where, one, _ in self._named)
            name = f"{kind}#{same + 1}" if same else kind
            self._named.append((axis, value, name))
        return name

    def _name_of(self, axis: str, value: Any) -> str | None:
        return next((name for where, one, name in self._named if where == axis and one is value), None)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        if isinstance(index, slice):
            some = Results(self.labels[index], self._results[index])
            some._named = self._named
            return some
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Results):
            return NotImplemented
        return (self.labels, self._results) == (other.labels, other._results)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis}: {len(values)}" for axis, values in self.axes().items())
        return f"Results({len(self)} runs; {axes})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ._html import shown

        return shown(self._results, [" | ".join(str(v) for v in row.values()) for row in self.labels])

    def axes(self) -> dict[str, list[Any]]:
        """What was varied, and its values."""
        names = dict.fromkeys(name for row in self.labels for name in row)
        return {name: list(dict.fromkeys(_hashable(row[name]) for row in self.labels)) for name in names}

    @property
    def plot(self) -> Plot:
        """Plots of all runs beside each other."""
        from ._plot import Plot

        names = [" | ".join(str(value) for value in row.values()) for row in self.labels]
        return Plot(self._results, names)

    def rows(self) -> list[dict[str, Any]]:
        """What each run was, and every figure of its summary."""
        return [
            {**row, **_without(result.figures(), row)}
            for row, result in zip(self.labels, self._results, strict=True)
        ]

    def metric(self, metric: str) -> list[Any]:
        """One figure of every run, such as `waf` or `host.write.lat_ns.mean`."""
        return [self._value(number, metric) for number in range(len(self))]

    def _value(self, number: int, metric: str) -> Any:
        try:
            return self._results[number].summary.find(metric)
        except KeyError:
            raise InputError(
                f"metric = {metric!r}: the summary has no such figure; expected a key such as waf, host.write.lat_ns.mean"
            ) from None

    def normalize(self, *, by: str, baseline: Any, metric: str) -> Normalized:
        """`metric` of each run over that of the run in which only `by` differs, and is `baseline`.

        Raises `InputError` if a run has no such baseline, or a figure is absent or the baseline's is 0.
        """
        axes = self.axes()
        if by not in axes:
            raise InputError(
                f"by = {by!r}: the sweep has no such axis; expected one of {', '.join(axes) or 'none'}"
            )
        plain = _plain(baseline)
        baseline = self._name_of(by, baseline) or repr(baseline) if plain is None else plain[0]
        if baseline not in axes[by]:
            raise InputError(
                f"baseline = {baseline!r}: not among the values of {by}: {', '.join(map(repr, axes[by]))}"
            )
        base: dict[tuple[Any, ...], float] = {}

        def others(row: dict[str, Any]) -> tuple[Any, ...]:
            return tuple(_hashable(value) for axis, value in row.items() if axis != by)

        for number, row in enumerate(self.labels):
            if row[by] == baseline:
                base[others(row)] = self._number(number, metric)
        rows = []
        for number, row in enumerate(self.labels):
            value, of = self._number(number, metric), base.get(others(row))
            if of is None:
                raise InputError(f"{row} has no baseline: expected a run in which only {by} differs, and is {baseline!r}")
            if of == 0:
                raise InputError(f"{metric} of the baseline of {row} is 0: nothing can be normalised to it")
            rows.append({**row, "value": value / of})
        return Normalized(list(axes), rows, metric)

    def _number(self, number: int, metric: str) -> float:
        value = self._value(number, metric)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{metric} of {self.labels[number]} is {value!r}: expected a number")
        return float(value)


class Normalized(_Rows):
    """A figure over that of a baseline, for each run: rows with the axes of the sweep and `value`."""

    def __init__(self, axes: list[str], rows: list[dict[str, Any]], metric: str) -> None:
        self.axes = axes
        self.metric = metric
        self._rows = rows

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a row: the axes and `value`."""
        return [dict(row) for row in self._rows]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self._rows)

    def geomean(self, over: str | Iterable[str]) -> Normalized:
        """The geometric mean over one axis or several; the others stay.

        Raises `InputError` if there is no such axis, or a value is not above 0.
        """
        gone = [over] if isinstance(over, str) else list(over)
        for axis in gone:
            if axis not in self.axes:
                raise InputError(
                    f"over = {axis!r}: no such axis; expected one of {', '.join(self.axes) or 'none'}"
                )
        left = [axis for axis in self.axes if axis not in gone]
        groups: dict[tuple[Any, ...], list[float]] = {}
        for row in self._rows:
            if row["value"] <= 0:
                raise InputError(f"{self.metric} of {row}: a geometric mean needs values above 0")
            groups.setdefault(tuple(row[axis] for axis in left), []).append(row["value"])
        rows = [
            {
                **dict(zip(left, key, strict=True)),
                "value": math.exp(math.fsum(map(math.log, values)) / len(values)),
            }
            for key, values in groups.items()
        ]
        return Normalized(left, rows, self.metric)

    def to_dict(self) -> dict[Any, float]:
        """Values by their axes: by the value itself if one axis is left, by tuples otherwise."""
        if len(self.axes) == 1:
            return {row[self.axes[0]]: row["value"] for row in self._rows}
        return {tuple(row[axis] for axis in self.axes): row["value"] for row in self._rows}

    def __repr__(self) -> str:
        lines = [f"{self.metric}, normalised"]
        lines += [
            f"  {' | '.join(str(row[axis]) for axis in self.axes) or 'all':<40} {row['value']:.4f}"
            for row in self._rows
        ]
        return "\n".join(lines)


def _plain(value: Any) -> tuple[Any] | None:
    """An axis value that can be compared and stored; none of an object, such as a policy."""
    if value is None or isinstance(value, (bool, int, float, str, tuple)):
        return (value,)
    if isinstance(value, list):
        return (tuple(value),)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return (str(value),) if hasattr(value, "__fspath__") else None


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _without(figures: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: str(value) if isinstance(value, list) else value
        for key, value in figures.items()
        if key not in row
    }

"""Traces, read as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from . import _core
from ._run import _whole
from ._table import Table, need

if TYPE_CHECKING:
    import pyarrow

Path = str | os.PathLike[str]


class Trace:
    """An open trace: iterate over it for tables of some requests each, in order; never all at once.

    Any library that speaks the Arrow PyCapsule interface takes what is left of it as a stream:
    `polars.DataFrame(trace)`, `pyarrow.RecordBatchReader.from_stream(trace)`.
    """

    def __init__(self, core: _core.Trace) -> None:
        self._core = core

    @property
    def format(self) -> str:
        """The format in which it is read."""
        return self._core.format

    @property
    def column_names(self) -> list[str]:
        """time_ns (from the first request), op, offset, bytes, stream, object, fua."""
        return self._core.names

    def __iter__(self) -> Iterator[Table]:
        while (batch := self._core.next_batch()) is not None:
            yield Table(batch)

    def to_arrow(self) -> pyarrow.RecordBatchReader:
        """What is left of it, batch by batch, with pyarrow."""
        reader: pyarrow.RecordBatchReader = need("pyarrow", "arrow").RecordBatchReader.from_stream(self)
        return reader

    def close(self) -> None:
        """Lets go of the file."""
        self._core.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Trace({self.format}: {', '.join(self.column_names)})"


def open(
    path: Path,
    *,
    format: str | None = None,
    volume: str | None = None,
    time_unit: str | None = None,
    rows: int = 65536,
) -> Trace:
    """Opens a trace, in any format that `nandle run` reads (found by content), compressed or not.

    `rows` is how many requests a table has; that is what is held in memory, whatever the size of the file.

    Raises `InputError` if it cannot be read.
    """
    return Trace(_core.Trace(os.fsdecode(path), format, volume, time_unit, _whole("rows", rows, 1)))

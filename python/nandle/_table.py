"""Tables: Arrow inside, whatever is installed outside."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def need(module: str, extra: str) -> Any:
    """An optional module, or a clear word about how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise ImportError(f"this needs {module.split('.')[0]}: pip install 'nandle[{extra}]'") from e


class Table:
    """Columns of equal length.

    Any library that speaks the Arrow PyCapsule interface takes it as it is: `pyarrow.table(t)`,
    `polars.DataFrame(t)`. `t["column"]` is a numpy array, without any of them.
    """

    def __init__(self, batch: _core.Table) -> None:
        self._batch = batch

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._batch.names

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._batch)

    def __len__(self) -> int:
        return len(self._batch)

    def __contains__(self, name: object) -> bool:
        return name in self._batch.names

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        try:
            dtype, values, width = self._batch.column(name)
        except KeyError:
            raise KeyError(f"no column {name!r}; expected one of {', '.join(self._batch.names)}") from None
        if dtype == "O":
            return np.array(values, dtype=object)
        flat: np.ndarray[Any, Any] = np.frombuffer(values, dtype=dtype)
        return flat if width is None else flat.reshape(len(self), width)

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Column by column; absent numbers are NaN, lists are rows of a second dimension."""
        return {name: self[name] for name in self._batch.names}

    def to_arrow(self) -> pyarrow.Table:
        """With pyarrow."""
        table: pyarrow.Table = need("pyarrow", "arrow").table(self)
        return table

    def to_polars(self) -> polars.DataFrame:
        """With polars."""
        frame: polars.DataFrame = need("polars", "polars").DataFrame(self)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """With pandas."""
        columns = {name: list(v) if v.ndim > 1 else v for name, v in self.to_numpy().items()}
        frame: pandas.DataFrame = need("pandas", "pandas").DataFrame(columns)
        return frame

    def __arrow_c_schema__(self) -> object:
        return self._batch.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._batch.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._batch.__arrow_c_stream__(requested_schema)

    def __eq__(self, other: object) -> bool:
        return self._batch.to_ipc() == other._batch.to_ipc() if isinstance(other, Table) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._batch.to_ipc(),))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self._batch.names)})"


def _restore(ipc: bytes) -> Table:
    return Table(_core.Table.from_ipc(ipc))

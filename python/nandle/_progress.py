"""Bars: in a notebook as a widget, elsewhere on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ._table import need

Watch = Callable[[int, int | None, int, float | None], object]


@contextmanager
def watched(progress: bool | Watch | None) -> Iterator[Watch | None]:
    """What the core calls: nothing, the caller's own, or a bar that ends with the run."""
    if progress is not True:
        yield progress or None
        return
    with need("tqdm.auto", "progress").tqdm(unit=" requests", unit_scale=True) as bar:

        def watch(requests: int, total: int | None, now_ns: int, waf: float | None) -> None:
            bar.total = total
            bar.set_postfix(simulated=f"{now_ns / 1e9:.3g} s", waf="-" if waf is None else f"{waf:.2f}", refresh=False)
            bar.update(requests - bar.n)

        yield watch

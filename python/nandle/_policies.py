"""Policies written in Python: slow, for teaching and for trying an idea before it is written in Rust.

The drive asks at the instant of the decision and takes an index into what it showed. A policy that
depends on nothing but what it is shown (and on what it was shown before) keeps a run a function of its
input.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Candidates:
    """The closed blocks of one plane that have a dead page, in the order in which they were closed."""

    __slots__ = ("blocks", "erases", "last_invalidated_ns", "now_ns", "pages_per_block", "plane", "valid")

    def __init__(
        self,
        plane: int,
        now_ns: int,
        pages_per_block: int,
        blocks: Array,
        valid: Array,
        erases: Array,
        last: Array,
    ) -> None:
        self.plane = plane
        """Which plane."""
        self.now_ns = now_ns
        """The present."""
        self.pages_per_block = pages_per_block
        """Pages of a block."""
        self.blocks = blocks
        """The blocks' numbers, which stay the same through a run."""
        self.valid = valid
        """Live pages of each: what collecting it has to copy."""
        self.erases = erases
        """How often each was erased."""
        self.last_invalidated_ns = last
        """When each last lost a page, or was closed if it has not since."""

    def __len__(self) -> int:
        return len(self.blocks)


class VictimPolicy:
    """Which block is collected next. Subclass it and write `choose`."""

    def choose(self, candidates: Candidates) -> int | None:
        """The index of the victim among `candidates`, or None to leave it to `gc.victim` of the device."""
        raise NotImplementedError(f"{type(self).__name__} has no choose(self, candidates)")

    def _decide(
        self, where: tuple[int, int, int], blocks: bytes, valid: bytes, erases: bytes, last: bytes
    ) -> int | None:
        plane, now_ns, pages_per_block = where
        numbers, live, worn = (np.frombuffer(column, dtype="u4") for column in (blocks, valid, erases))
        lost = np.frombuffer(last, dtype="u8")
        chosen = self.choose(Candidates(plane, now_ns, pages_per_block, numbers, live, worn, lost))
        return _index(chosen, f"{type(self).__name__}.choose()")


class BufferView:
    """The pages in the write buffer, oldest first by the order of the drive's own policy."""

    __slots__ = ("lpn", "mask", "now_ns", "request", "sectors", "sectors_per_page", "stream")

    def __init__(
        self,
        now_ns: int,
        sectors_per_page: int,
        lpn: Array,
        mask: Array,
        sectors: Array,
        stream: Array,
        request: Array,
    ) -> None:
        self.now_ns = now_ns
        """The present."""
        self.sectors_per_page = sectors_per_page
        """Sectors of a page: an entry with fewer is partial."""
        self.lpn = lpn
        """Logical pages."""
        self.mask = mask
        """Which sectors of each are buffered, one bit a sector."""
        self.sectors = sectors
        """And how many."""
        self.stream = stream
        """The host stream that wrote each last."""
        self.request = request
        """The number of the request that brought each in: pages of one request have the same."""

    def __len__(self) -> int:
        return len(self.lpn)


class BufferPolicy:
    """Which pages leave the write buffer next. Subclass it and write `evict`."""

    def evict(self, buffer: BufferView) -> int | Iterable[int] | None:
        """The index of the page that leaves, or of several that leave together; None for the drive's own choice."""
        raise NotImplementedError(f"{type(self).__name__} has no evict(self, buffer)")

    def _decide(
        self, where: tuple[int, int], lpn: bytes, mask: bytes, sectors: bytes, stream: bytes, request: bytes
    ) -> Sequence[int]:
        types = ("u4", "u8", "u4", "u2", "u8")
        columns = [
            np.frombuffer(column, dtype=t)
            for column, t in zip((lpn, mask, sectors, stream, request), types, strict=True)
        ]
        chosen = self.evict(BufferView(*where, *columns))
        whose = f"{type(self).__name__}.evict()"
        if chosen is None:
            return []
        several = chosen if isinstance(chosen, Iterable) else [chosen]
        return [one for one in (_index(index, whose) for index in several) if one is not None]


def _index(chosen: Any, whose: str) -> int | None:
    if chosen is None:
        return None
    try:
        return operator.index(chosen)
    except TypeError:
        raise TypeError(f"{whose} returned {chosen!r}: expected an index (a whole number) or None") from None

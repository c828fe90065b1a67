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

from . import _core

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


_registered: dict[str, type[VictimPolicy] | type[BufferPolicy]] = {}


def register(name: str, policy: type[VictimPolicy] | type[BufferPolicy]) -> None:
    """From now on `scheme` knows `policy`, a class, by this name: `scheme="lru+page+mine"`.

    Each drive gets an instance of its own, made without arguments. The name holds in this process: where
    runs are done by others (an executor of a sweep), they have to register it too.

    Raises `InputError` if the drive has a policy of this name, or the name could not stand in a sum.
    """
    if not (isinstance(policy, type) and issubclass(policy, (VictimPolicy, BufferPolicy))):
        raise _core.InputError(f"policy: {policy!r}; expected a class derived from VictimPolicy or BufferPolicy")
    if not (isinstance(name, str) and name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)):
        raise _core.InputError(f"name: {name!r}; expected letters, digits, - and _")
    if name in {taken for _, taken, _ in _core.schemes()}:
        raise _core.InputError(f"name: {name!r}; the drive has a policy of this name, expected another")
    _registered[name] = policy


def split(
    scheme: str | None, victim: VictimPolicy | None, buffer: BufferPolicy | None
) -> tuple[str | None, VictimPolicy | None, BufferPolicy | None]:
    """The sum without registered policies, and these, beside those given by themselves."""
    if scheme is None:
        return None, victim, buffer
    kept = []
    for term in scheme.split("+"):
        policy = _registered.get(term.strip())
        if policy is None:
            kept.append(term)
            continue
        kind = "victim" if issubclass(policy, VictimPolicy) else "buffer"
        if (victim if kind == "victim" else buffer) is not None:
            raise _core.InputError(f"scheme = {scheme!r}: {term.strip()} is a second {kind} policy; expected one")
        made = policy()
        if isinstance(made, VictimPolicy):
            victim = made
        else:
            buffer = made
    return "+".join(kept) or None, victim, buffer

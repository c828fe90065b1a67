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


class _Column:
    """An attribute that reads its bytes the first time that it is asked for: most policies look at one column or two."""

    def __init__(self, number: int, dtype: str, says: str) -> None:
        self.number, self.dtype, self.__doc__ = number, np.dtype(dtype), says

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, view: Any, owner: type | None = None) -> Any:
        if view is None:
            return self
        # From now on the view's own attribute hides this one.
        array = view.__dict__[self.name] = np.frombuffer(view._columns[self.number], self.dtype)
        return array


def _column(number: int, dtype: str, says: str) -> Any:
    return _Column(number, dtype, says)


class Candidates:
    """The closed blocks of one plane that have a dead page, in the order in which they were closed."""

    def __init__(self, where: tuple[int, int, int], *columns: bytes) -> None:
        self.plane, self.now_ns, self.pages_per_block = where
        self._columns = columns

    plane: int
    """Which plane."""
    now_ns: int
    """The present."""
    pages_per_block: int
    """Pages of a block."""
    blocks: Array = _column(0, "u4", "The blocks' numbers, which stay the same through a run.")
    valid: Array = _column(1, "u4", "Live pages of each: what collecting it has to copy.")
    erases: Array = _column(2, "u4", "How often each was erased.")
    last_invalidated_ns: Array = _column(
        3, "u8", "When each last lost a page, or was closed if it has not since."
    )

    def __len__(self) -> int:
        return len(self._columns[0]) // 4


class VictimPolicy:
    """Which block is collected next. Subclass it and write `choose`."""

    def choose(self, candidates: Candidates) -> int | None:
        """The index of the victim among `candidates`, or None to leave it to `gc.victim` of the device."""
        raise NotImplementedError(f"{type(self).__name__} has no choose(self, candidates)")

    def _decide(self, where: tuple[int, int, int], *columns: bytes) -> int | None:
        chosen = self.choose(Candidates(where, *columns))
        # The common answer, without a further call.
        return chosen if type(chosen) is int else _index(chosen, f"{type(self).__name__}.choose()")


class BufferView:
    """The pages in the write buffer, oldest first by the order of the drive's own policy."""

    def __init__(self, where: tuple[int, int], *columns: bytes) -> None:
        self.now_ns, self.sectors_per_page = where
        self._columns = columns

    now_ns: int
    """The present."""
    sectors_per_page: int
    """Sectors of a page: an entry with fewer is partial."""
    lpn: Array = _column(0, "u4", "Logical pages.")
    mask: Array = _column(1, "u8", "Which sectors of each are buffered, one bit a sector.")
    sectors: Array = _column(2, "u4", "And how many.")
    stream: Array = _column(3, "u2", "The host stream that wrote each last.")
    request: Array = _column(
        4, "u8", "The number of the request that brought each in: pages of one request have the same."
    )

    def __len__(self) -> int:
        return len(self._columns[0]) // 4


class BufferPolicy:
    """Which pages leave the write buffer next. Subclass it and write `evict`."""

    def evict(self, buffer: BufferView) -> int | Iterable[int] | None:
        """The index of the page that leaves, or of several that leave together; None for the drive's own choice."""
        raise NotImplementedError(f"{type(self).__name__} has no evict(self, buffer)")

    def _decide(self, where: tuple[int, int], *columns: bytes) -> Sequence[int]:
        chosen = self.evict(BufferView(where, *columns))
        if type(chosen) is int:
            return [chosen]
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
    return "+".join(kept) if kept else None, victim, buffer

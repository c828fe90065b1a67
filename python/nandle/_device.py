"""A drive stepped by hand."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from . import _core
from ._policies import BufferPolicy, VictimPolicy, split
from ._record import Record, record
from ._run import Path, Sets, _is, _text, _whole, settings


# The last instant, in nanoseconds: no sum of times overflows.
LATEST = 2**63 - 1


class _Closed:
    """Stands where the drive was."""

    def __getattr__(self, name: str) -> Any:
        raise _core.InputError("the device is closed")


class Device:
    """A drive in simulated time: requests go in with `submit`, time goes on with `run_until`, `step` or
    `drain`, and what completed comes out of `poll`.

    With `contents=True` the device keeps what is written, and reads return it. `with` closes it at the end.
    """

    def __init__(
        self,
        device: Path = "demo",
        scheme: str | None = None,
        sets: Sets | None = None,
        seed: int = 1,
        *,
        contents: bool = False,
        victim: VictimPolicy | None = None,
        buffer: BufferPolicy | None = None,
    ) -> None:
        _is("victim", victim, VictimPolicy)
        _is("buffer", buffer, BufferPolicy)
        scheme, victim, buffer = split(None if scheme is None else _text("scheme", scheme), victim, buffer)
        self._core = _core.Device(
            device=_text("device", device),
            scheme=scheme,
            sets=settings(sets),
            seed=_whole("seed", seed, 0),
            contents=contents,
            victim=victim,
            buffer=buffer,
        )

    def close(self) -> None:
        """Gives its memory back; afterwards it takes no more calls."""
        self._core = _Closed()  # type: ignore[assignment]

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(
        self,
        op: str,
        offset: int = 0,
        bytes: int = 0,
        *,
        fua: bool = False,
        stream: int = 0,
        data: bytes | None = None,
        at: int | None = None,
    ) -> int:
        """Hands a request over, at time `at` (the present if not given); its number.

        `op` is `read`, `write`, `trim`, `flush`, `flashalloc` or `flashfree`; `offset` and `bytes` are
        multiples of a sector. Beyond the end of the device it completes with the status `out-of-range`.
        """
        return self._core.submit(
            op,
            _whole("offset", offset, 0),
            _whole("bytes", bytes, 0),
            fua=fua,
            stream=_whole("stream", stream, 0, 65535),
            data=data,
            at=None if at is None else _whole("at", at, 0, LATEST),
        )

    def read(self, offset: int, bytes: int, **options: Any) -> int:
        """Submits a read."""
        return self.submit("read", offset, bytes, **options)

    def write(self, offset: int, bytes: int | None = None, **options: Any) -> int:
        """Submits a write; its length is that of `data` if not given."""
        if bytes is None:
            data = options.get("data")
            bytes = 0 if data is None else memoryview(data).nbytes
        return self.submit("write", offset, bytes, **options)

    def trim(self, offset: int, bytes: int, **options: Any) -> int:
        """Submits a trim."""
        return self.submit("trim", offset, bytes, **options)

    def flush(self, **options: Any) -> int:
        """Submits a flush."""
        return self.submit("flush", **options)

    def run_until(self, t: int) -> None:
        """Carries out everything up to and including time `t` (ns)."""
        self._core.run_until(_whole("t", t, 0, LATEST))

    def step(self) -> bool:
        """Carries out the next instant; False if nothing is under way."""
        return self._core.step()

    def drain(self) -> None:
        """Lets everything that was submitted complete."""
        self._core.drain()

    def poll(self) -> list[_core.Completion]:
        """What completed since the last call, in order."""
        return self._core.poll()

    def next_event(self) -> int | None:
        """When the next thing happens (ns), if anything is under way."""
        return self._core.next_event()

    def cut_power(self) -> int:
        """Cuts the power: RAM and requests under way are lost. How many requests that were."""
        return self._core.cut_power()

    def power_on(self) -> Record:
        """Powers on again and recovers; what that took."""
        report: Record = record(self._core.power_on())
        return report

    def copy(self) -> Device:
        """A drive in the same state that goes its own way from here on. Policies written in Python are asked by both."""
        twin = object.__new__(Device)
        twin._core = self._core.copy()
        return twin

    __copy__ = copy

    def __deepcopy__(self, _memo: dict[int, Any]) -> Device:
        return self.copy()

    @property
    def stats(self) -> Record:
        """Counters since the device was made: requests, programs and reads by cause, erases, WAF, and more."""
        stats: Record = record(self._core.stats())
        return stats

    def inspect(self) -> list[Record]:
        """Checks the drive's invariants: what each is, how much was checked, how much was wrong."""
        findings: list[Record] = record(self._core.inspect())
        return findings

    @property
    def now(self) -> int:
        """The present (ns)."""
        return self._core.now

    @property
    def outstanding(self) -> int:
        """Requests submitted and not complete."""
        return self._core.outstanding

    @property
    def accepts(self) -> bool:
        """Whether the queue has room for another request."""
        return self._core.accepts

    @property
    def is_on(self) -> bool:
        """Whether the power is on."""
        return self._core.is_on

    @property
    def digest(self) -> str:
        """A hash of every completion so far and of where everything is now."""
        return self._core.digest

    @property
    def logical_bytes(self) -> int:
        """What the host may address."""
        return self._core.logical_bytes

    @property
    def raw_bytes(self) -> int:
        """The flash."""
        return self._core.raw_bytes

    @property
    def page_bytes(self) -> int:
        """A flash page."""
        return self._core.page_bytes

    @property
    def sector_bytes(self) -> int:
        """A sector: the unit of requests."""
        return self._core.sector_bytes

    @property
    def scheme(self) -> str:
        """The policies, as a sum."""
        return self._core.scheme

"""JSON objects whose keys are attributes too."""

from __future__ import annotations

import json
from typing import Any


class Record(dict[str, Any]):
    """A dictionary with attribute access, nested: `summary.host.write.iops`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            raise AttributeError(f"no {name!r} in it; expected one of {', '.join(map(str, self))}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self if key.isidentifier())]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (json.dumps(self), type(self)))

    def find(self, path: str) -> Any:
        """The value at `a.b.c`; keys that hold points themselves are found too.

        Raises `KeyError` if there is none.
        """
        at: Any = self
        rest = path
        while rest:
            if not isinstance(at, dict):
                raise KeyError(path)
            # The longest key first: percentiles are called "99.000000".
            parts = rest.split(".")
            for taken in range(len(parts), 0, -1):
                key = ".".join(parts[:taken])
                if key in at:
                    at, rest = at[key], ".".join(parts[taken:])
                    break
            else:
                raise KeyError(path)
        return at

    def flat(self) -> dict[str, Any]:
        """One level: nested keys joined by points."""
        out: dict[str, Any] = {}

        def walk(before: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, inner in value.items():
                    walk(f"{before}.{key}" if before else key, inner)
            else:
                out[before] = value

        walk("", self)
        return out


def record(text: str) -> Any:
    """JSON with its objects as records."""
    return json.loads(text, object_hook=Record)


def _restore(text: str, kind: type[Record] = Record) -> Any:
    found = record(text)
    return found if kind is Record else kind(found)

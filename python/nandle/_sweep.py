"""A grid of runs, on threads or on any executor."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from . import _core
from ._results import Results
from ._policies import split
from ._run import Result, _text, run, settings

ARGUMENTS = tuple(name for name in inspect.signature(run).parameters if name != "progress")


def sweep(grid: Mapping[str, Any], executor: Executor | None = None) -> Results:
    """Does every run of `grid` and gathers the results, in the grid's order.

    `grid` has the arguments of `run`; every list among them is gone through, and every list among the
    settings of `sets`, each with each. `executor` is any `concurrent.futures.Executor`, such as
    `dask.distributed.Client(...).get_executor()`; without one, threads of this process work (the core
    lets the interpreter go). Runs are functions of their arguments, so it does not matter who does
    them, when, or how often.

    Every device and setting is checked before the first run begins. If a run fails, the others are
    called off and its error is raised, with the run's arguments.
    """
    tasks = expand(grid)
    outputs = [os.fspath(arguments["output"]) for _, arguments in tasks if arguments.get("output") is not None]
    for output in outputs:
        if outputs.count(output) > 1:
            raise _core.InputError(
                f"output = {output!r}: {outputs.count(output)} runs would go there; expected a folder for each, or none"
            )
    for axes, arguments in tasks:
        try:
            device, scheme = arguments.get("device", "demo"), arguments.get("scheme")
            victim, buffer = arguments.get("victim"), arguments.get("buffer")
            scheme = split(None if scheme is None else _text("scheme", scheme), victim, buffer)[0]
            _core.resolved(_text("device", device), scheme, settings(arguments.get("sets")))
        except _core.InputError as e:
            raise _core.InputError(f"{_named(axes)}{e}") from None
    if executor is not None:
        return _gather(tasks, [executor.submit(_task, arguments) for _, arguments in tasks])
    workers = min(len(tasks), os.cpu_count() or 1)
    called_off = threading.Event()
    with ThreadPoolExecutor(workers, thread_name_prefix="nandle") as threads:
        try:
            return _gather(tasks, [threads.submit(_task, arguments, called_off) for _, arguments in tasks])
        except BaseException:
            called_off.set()
            raise


Task = tuple[dict[str, Any], dict[str, Any]]


def expand(grid: Mapping[str, Any]) -> list[Task]:
    """The runs of a grid: what tells each from the others, and the arguments of `run`."""
    axes: list[tuple[str, str | None, list[Any]]] = []
    fixed: dict[str, Any] = {}
    sets: dict[str, Any] = {}
    for name, value in grid.items():
        if name not in ARGUMENTS:
            raise _core.InputError(
                f"grid[{name!r}]: no such argument of run(); expected one of {', '.join(ARGUMENTS)}"
            )
        if name == "sets" and isinstance(value, Mapping):
            for key, setting in value.items():
                if _is_list(setting):
                    axes.append((key, key, _not_empty(f"sets[{key!r}]", setting)))
                else:
                    sets[key] = setting
        elif name != "sets" and _is_list(value):
            axes.append((name, None, _not_empty(name, value)))
        else:
            # What can be gone through once serves every run.
            fixed[name] = settings(value) if name == "sets" else value
    tasks = []
    for chosen in itertools.product(*(values for _, _, values in axes)):
        arguments = {**fixed, **({"sets": dict(sets)} if sets else {})}
        labels: dict[str, Any] = {}
        for (name, setting, _), value in zip(axes, chosen, strict=True):
            labels[name] = value
            if setting is None:
                arguments[name] = value
            else:
                arguments.setdefault("sets", {})[setting] = value
        tasks.append((labels, arguments))
    return tasks


def _is_list(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return False
    return isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1


def _not_empty(what: str, values: Any) -> list[Any]:
    listed: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    if not listed:
        raise _core.InputError(f"grid: {what} is an empty list; expected at least one value")
    return listed


def _named(axes: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {value!r}: " for name, value in axes.items())


def _task(arguments: dict[str, Any], called_off: threading.Event | None = None) -> Result:
    if called_off is None:
        return run(**arguments)

    def look(*_: object) -> None:
        if called_off.is_set():
            raise CancelledError("another run of the sweep failed")

    return run(**arguments, progress=look)


def _gather(tasks: list[Task], futures: list[Future[Result]]) -> Results:
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
        results = []
        for (axes, _), future in zip(tasks, futures, strict=True):
            if not future.done() or future.cancelled():
                continue
            error = future.exception()
            if isinstance(error, _core.InputError):
                raise _core.InputError(f"{_named(axes)}{error}") from error
            if error is not None:
                raise RuntimeError(f"{_named(axes)}{error}") from error
            results.append(future.result())
        if len(results) < len(tasks):
            off = next(axes for (axes, _), future in zip(tasks, futures, strict=True) if future.cancelled())
            raise RuntimeError(f"{_named(off)}the executor called this run off")
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return Results([axes for axes, _ in tasks], results)

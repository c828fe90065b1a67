"""pytest: a test whose files a power cut hits at every moment, and a served drive to test against.

    @nandle.pytest_plugin.cuts(check=in_order)
    def test_my_store(folder): ...

    def test_my_driver(nandle_drive):
        with nandle_drive() as drive: ...

Both run the program `nandle`, found by the variable NANDLE or on the PATH.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import pytest

__all__ = ["Drive", "cuts", "nandle_drive"]

Program = Callable[[Path], object]
Check = Callable[[Path, list[str]], object]

# How long a server may take to start, and an order to be carried out, in seconds.
PATIENCE = 60


def program() -> str:
    """The program `nandle`."""
    found = os.environ.get("NANDLE") or shutil.which("nandle")
    if not found:
        pytest.fail("nandle: not found; expected the program on the PATH, or its path in NANDLE", pytrace=False)
    return found


# ---- power cuts ------------------------------------------------------------------------------------


def cuts(
    check: Check,
    *,
    states: int = 300,
    fs: str = "posix",
    lie: str | None = None,
    atomic: int | None = None,
    seed: int = 1,
) -> Callable[[Program], Callable[[], None]]:
    """Makes a test of a function that writes files to the folder which it is given.

    It is run once, in a process of its own. Then `check(folder, said)` looks at every kind of state that a power cut may
    have left of the folder, with the lines that the function had printed by then, and raises if one is not in order. The
    first failure is made as small as it goes, and is how the test fails. Both functions are named in a module; further
    arguments are the options of `nandle crash-test`.
    """

    def decorate(run: Program) -> Callable[[], None]:
        # Without `functools.wraps`'s signature: pytest would look for a fixture named as the folder.
        def test() -> None:
            judge(run, check, states=states, fs=fs, lie=lie, atomic=atomic, seed=seed)

        functools.update_wrapper(test, run)
        del test.__wrapped__  # type: ignore[attr-defined]
        test.run, test.check = run, check  # type: ignore[attr-defined]
        return test

    return decorate


def judge(run: Program, check: Check, **options: Any) -> None:
    """Fails with the story of the first state in which `check` fails."""
    file = run.__code__.co_filename
    name = run.__qualname__
    if "<locals>" in name or "<locals>" in check.__qualname__ or check.__name__ == "<lambda>":
        pytest.fail(f"{name}: program and check run in processes of their own; expected functions of a module", pytrace=False)
    child = shlex.join([sys.executable, "-m", "nandle.pytest_plugin"])
    there = shlex.join([run.__module__, file, name])
    command = [program(), "crash-test", "--run", f"{child} run {there}"]
    command += ["--check", f"exec {child} check {there}", "--check-stays"]
    for option, value in options.items():
        if value is not None:
            command += [f"--{option}", str(value)]
    with tempfile.TemporaryDirectory(prefix="nandle-") as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
        done = subprocess.run(
            [*command, "--save", os.path.join(folder, "failure.json")],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("To check it again")]
        pytest.fail("\n".join(told).strip(), pytrace=False)
    print(done.stdout, end="")


def _module(name: str, file: str) -> ModuleType:
    """The module of this name, as whoever looks it up would have it, if that is this file; else the file by itself."""
    with contextlib.suppress(ImportError):
        module = importlib.import_module(name)
        if module.__file__ and Path(module.__file__).samefile(file):
            return module
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec and spec.loader, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _child(what: str, where: str, file: str, name: str) -> None:
    """The program, or the check that stays, in a process of its own."""
    module = _module(where, file)
    test: Any = functools.reduce(getattr, name.split("."), module)
    if what == "run":
        test.run(Path(os.environ["NANDLE_DIR"]))
        sys.stdout.flush()
        return
    # What the check prints is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        folder = line.rstrip("\n")
        try:
            test.check(Path(folder), Path(folder + ".output").read_text().splitlines())
            answer = "ok"
        except Exception as wrong:
            answer = f"{type(wrong).__name__}: {wrong}".splitlines()[0]
        print(answer, file=answers, flush=True)


# ---- a served drive --------------------------------------------------------------------------------


class Drive:
    """A drive that `nandle serve` serves at a socket for NBD, and that fails as it is told.

    `uri` is where NBD clients find it, `socket` the path alone.
    """

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        self.socket = folder / "nbd.sock"
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self._ctl = folder / "ctl.sock"
        command = [program(), "serve", "--nbd", str(self.socket), "--ctl", str(self._ctl), *args]
        self._log = (folder / "serve.log").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout
        # The first line comes when all sockets are there.
        self.said = self._process.stdout.readline().strip()
        if not self.said:
            self._process.wait()
            self._log.seek(0)
            said = self._log.read().strip()
            self._log.close()
            pytest.fail(said, pytrace=False)

    def ctl(self, *order: object) -> dict[str, Any]:
        """Carries out an order of `nandle ctl`, such as `drive.ctl("full")`; the faults that there are then."""
        words = [str(word) for word in order]
        done = subprocess.run(
            [program(), "ctl", str(self._ctl), "--json", *words], capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise ValueError(done.stderr.strip())
        faults: dict[str, Any] = json.loads(done.stdout)["done"]["faults"]
        return faults

    def snapshot(self, flush: bool = True) -> Path:
        """A new image of the drive: what a power cut at this moment would leave."""
        number = len(list(self.folder.glob("snapshot-*.img")))
        image = self.folder / f"snapshot-{number}.img"
        self.ctl("snapshot", image, *(["--flush"] if flush else []))
        return image

    def stop(self) -> None:
        """Ends the server; everything is flushed to its image, if it has one."""
        if self._log.closed:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.communicate()
        self._log.close()

    def __enter__(self) -> Drive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@pytest.fixture
def nandle_drive() -> Iterator[Callable[..., Drive]]:
    """Makes served drives: `nandle_drive("--device", "demo")` takes the options of `nandle serve`. They end with the test."""
    with contextlib.ExitStack() as ends:

        def make(*args: object) -> Drive:
            # Paths of sockets may have 107 bytes, and pytest's are long.
            folder = Path(tempfile.mkdtemp(prefix="nandle-"))
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            return ends.enter_context(Drive(folder, *(str(arg) for arg in args)))

        yield make


if __name__ == "__main__":
    _child(*sys.argv[1:5])

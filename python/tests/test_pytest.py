"""Goal: a project's own tests find a missing fsync, and see a drive fail, with the fixture and the decorator.
Method: pytest runs small test files as a project would have them: a store that renames a file that was not flushed, its
twin that flushes, a checker that cannot fail. The served drive is read by a client that speaks NBD by itself."""

import os
import re
import shutil
import socket
import struct
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(
    not (os.environ.get("NANDLE") or shutil.which("nandle")), reason="the program nandle is not on the PATH"
)

STORE = """
    import os
    import nandle.pytest_plugin as nandle

    def save(folder, text, flush):
        with open(folder / "new", "w") as file:
            file.write(text)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.rename(folder / "new", folder / "saved")
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        print("saved", text)

    def in_order(folder, said):
        print("whatever a check prints is no answer")
        if said:
            assert (folder / "saved").read_text() >= said[-1].split()[1], "lost"

    @nandle.cuts(check=in_order)
    def test_flushed(folder):
        for text in ("1", "2", "3"):
            save(folder, text, True)

    @nandle.cuts(check=in_order, states=100)
    def test_forgotten(folder):
        for text in ("1", "2", "3"):
            save(folder, text, False)

    @nandle.cuts(check=in_order, lie="ignore-flush")
    def test_on_a_drive_that_lies(folder):
        save(folder, "1", True)
"""


def test_a_missing_fsync_fails_the_test_with_its_story(pytester):
    pytester.makepyfile(STORE)
    result = pytester.runpytest_subprocess("-rP")
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    # The state that is known to be wrong: the name of a file whose data or size is missing.
    assert re.search(r"write  new 1 bytes at 0: .*did not", text), text
    assert "AssertionError: lost" in text
    assert ": 0 failed" in text, "what passed says how many states were tried"
    assert not list(pytester.path.glob("**/failure.json"))


# A database of one file for each key.
MYDB = """
    import contextlib
    import io
    import os

    class Db:
        def __init__(self, folder):
            self.folder = folder

        def put(self, key):
            with io.open(self.folder / key, "w") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            fd = os.open(self.folder, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

        def keys(self):
            return {file.name for file in self.folder.iterdir() if file.read_text() == file.name}

    @contextlib.contextmanager
    def open(folder):
        if not folder.exists():
            folder.mkdir()
            fd = os.open(folder.parent, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        yield Db(folder)
"""


def test_the_documented_recipe_is_ten_lines_and_finds_a_missing_fsync(pytester):
    page = (Path(__file__).parents[2] / "docs/crash-test.md").read_text()
    recipe = page.split("<!-- python/tests/test_pytest.py runs this -->")[1].split("```")[1].removeprefix("python\n")
    assert len([line for line in recipe.splitlines() if line]) <= 10
    pytester.makepyfile(test_mydb=recipe)
    whole = textwrap.dedent(MYDB)
    for forgotten, outcome in ((None, {"passed": 1}), ("os.fsync(file.fileno())", {"failed": 1})):
        pytester.path.joinpath("mydb.py").write_text(whole.replace(forgotten, "pass") if forgotten else whole)
        pytester.runpytest_subprocess().assert_outcomes(**outcome)


def test_a_module_of_a_package_may_import_its_neighbours(pytester):
    package = pytester.mkpydir("trials")
    package.joinpath("helper.py").write_text('def put(folder):\n    (folder / "a").write_text("a")\n')
    package.joinpath("test_it.py").write_text(
        textwrap.dedent("""
            import nandle.pytest_plugin as nandle
            from .helper import put

            def right(folder, said):
                assert said == []

            @nandle.cuts(check=right)
            def test_puts(folder):
                put(folder)
            """)
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_what_makes_no_sense_is_one_sentence(pytester, monkeypatch):
    pytester.makepyfile(
        """
        import nandle.pytest_plugin as nandle

        @nandle.cuts(check=lambda folder, said: None)
        def test_lambda(folder):
            (folder / "a").write_text("a")

        def wrong(folder, said):
            raise ValueError("never in order")

        @nandle.cuts(check=wrong)
        def test_check_that_fails_always(folder):
            (folder / "a").write_text("a")

        def right(folder, said):
            pass

        @nandle.cuts(check=right)
        def test_that_writes_nothing(folder):
            pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=3)
    text = result.stdout.str()
    for part in ("expected functions of a module", "never in order", "changed no file"):
        assert part in text
    monkeypatch.delenv("NANDLE", raising=False)
    monkeypatch.setenv("PATH", "")
    result = pytester.runpytest_subprocess("-k", "nothing")
    assert "expected the program on the PATH" in result.stdout.str()


class Client:
    """NBD, as little of it as will do (github.com/NetworkBlockDevice/nbd, doc/proto.md)."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.take(18)
        # No zeros behind the export's size; the export of no name.
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
        self.bytes, _ = struct.unpack(">QH", self.take(10))

    def take(self, count):
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data)) or pytest.fail("the server hung up")
        return data

    def ask(self, command, offset=0, count=0, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 7, offset, count or len(data)) + data)
        _, error, _ = struct.unpack(">IIQ", self.take(16))
        return error, self.take(count) if command == 0 and not error else b""


def test_a_drive_fails_as_it_is_told(nandle_drive):
    drive = nandle_drive("--device", "demo", "--timing", "off")
    assert drive.said.startswith("demo")
    client = Client(drive.socket)
    assert client.ask(1, 0, data=b"a" * 4096) == (0, b"")
    image = drive.snapshot()
    assert drive.ctl("full")["full"] is True
    assert client.ask(1, 0, data=b"b" * 4096)[0] == 28
    assert client.ask(0, 0, 4096) == (0, b"a" * 4096)
    drive.ctl("clear")
    client.ask(1, 0, data=b"b" * 4096)
    with pytest.raises(ValueError, match="expected 0 to"):
        drive.ctl("die", 1000)
    # Another drive goes on from the snapshot.
    with nandle_drive("--image", image, "--timing", "off") as clone:
        assert Client(clone.socket).ask(0, 0, 4096) == (0, b"a" * 4096)
    assert client.ask(0, 0, 4096) == (0, b"b" * 4096)


def test_a_drive_that_cannot_be_served_is_a_failure_in_words(pytester, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    pytester.makepyfile("def test_it(nandle_drive): nandle_drive('--device', 'no-such-drive')")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    assert "no-such-drive" in result.stdout.str()
    assert not list(pytester.path.joinpath("temporary").glob("nandle-*"))

"""Goal: the notebooks run, and show what their text says.
Method: each is executed as it stands, without Jupyter; then the figures that its text leans on."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs/notebooks"


@pytest.fixture
def notebook(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield lambda name: runpy.run_path(str(NOTEBOOKS / name))
    pyplot.close("all")


def test_first_steps(notebook):
    ran = notebook("first_steps.py")
    assert ran["answer"].data[:5] == b"hello"
    assert ran["relative"].to_dict()["lru+page"] == 1.0


def test_papers(notebook):
    rows = {(row["place"], row["what"]): row["here"] for row in notebook("papers.py")["rows"]}
    assert len({place for place, _ in rows}) == 5
    assert rows["WAFLASH, Fig 11", "mean latency, waflash to lru"] < 1
    assert rows["PC-LRU poster", "mean latency, mca to lru"] < 1
    assert (
        rows["PAPA, Fig 11", "share of flash writes, LSB"]
        > rows["PAPA, Fig 11", "share of flash writes, MSB"]
    )
    assert rows["Across-FTL, Fig 9b", "write latency, across to page"] < 1
    assert rows["FlashAlloc, Fig 5a", "WAF, vanilla"] > 2 * rows["FlashAlloc, Fig 5a", "WAF, FlashAlloc"]


def test_policy(notebook):
    ran = notebook("policy.py")
    assert ran["victims"]["Careless"].summary.waf > ran["victims"]["greedy (own)"].summary.waf
    assert ran["ours"].summary.rmw["count"] < ran["lru"].summary.rmw["count"]


def test_fdp(notebook):
    ran = notebook("fdp.py")
    waf = ran["waf"]
    assert max(waf["flashalloc"]) < 1.15 < 1.4 < min(waf["page"])
    handles = waf["fdp(4,initially)"]
    assert max(waf["flashalloc"]) < min(handles) and max(handles) < min(waf["page"])
    assert min(ran["room"].metric("waf_steady")) > max(waf["flashalloc"])


@pytest.mark.parametrize("name", ["first_steps", "policy"])
def test_the_ipynb_shows_what_its_cells_print(name):
    for module in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(module)
    command = [sys.executable, NOTEBOOKS / "execute.py", "--check", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_notebook_has_its_ipynb():
    jupytext = pytest.importorskip("jupytext")
    for path in NOTEBOOKS.glob("*.py"):
        if path.name != "execute.py":
            there = jupytext.read(path.with_suffix(".ipynb"))
            assert [c.source for c in there.cells] == [c.source for c in jupytext.read(path).cells], path.name


def test_every_notebook_is_run():
    tests = Path(__file__).read_text()
    for path in set(NOTEBOOKS.glob("*.py")) - {NOTEBOOKS / "execute.py"}:
        assert f'notebook("{path.name}")' in tests, path.name

"""Goal: a sweep is the same wherever it is done, also when a worker dies in the middle of it.
Method: threads, processes, and a dask cluster of processes one of which is killed while it works."""

import math
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

import nandle
from nandle._sweep import expand

GRID = {
    "device": "demo-page",
    "sets": {"geometry.blocks_per_plane": 24, "op_ratio": 0.4},
    "scheme": ["lru+page", "page+victim=fifo"],
    "workload": "random-write",
    "seed": [1, 2],
    "requests": 40_000,
}


@pytest.fixture(scope="module")
def local():
    return nandle.sweep(GRID)


def test_a_sweep_is_its_runs(local):
    assert [(row["scheme"], row["seed"]) for row in local.labels] == [
        (s, n) for s in GRID["scheme"] for n in (1, 2)
    ]
    alone = nandle.run(**{**GRID, "scheme": "page+victim=fifo", "seed": 2})
    assert local[3] == alone
    assert len({result.summary.digest for result in local}) == 4


def test_grids_multiply_every_list():
    grid = {"device": ["a", "b"], "requests": 5, "sets": {"gc.soft": [0.1, 0.2], "op_ratio": 0.3}}
    tasks = expand(grid)
    assert [labels for labels, _ in tasks] == [
        {"device": d, "gc.soft": s} for d in ("a", "b") for s in (0.1, 0.2)
    ]
    assert tasks[3][1] == {"device": "b", "requests": 5, "sets": {"op_ratio": 0.3, "gc.soft": 0.2}}
    # The runs do not share their settings.
    assert tasks[0][1]["sets"] == {"op_ratio": 0.3, "gc.soft": 0.1}


def test_processes_do_the_same(local):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert nandle.sweep(GRID, pool) == local


def test_a_cluster_does_the_same_though_a_worker_is_killed():
    distributed = pytest.importorskip("distributed")
    grid = {**GRID, "seed": [1, 2, 3], "requests": 300_000}
    answer = {}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        before = {address: worker["pid"] for address, worker in _workers(client).items()}

        def work():
            answer["results"] = nandle.sweep(grid, client.get_executor())

        thread = threading.Thread(target=work)
        thread.start()
        busy, deadline = None, time.monotonic() + 60
        while busy is None and time.monotonic() < deadline:
            busy = next((address for address, tasks in client.processing().items() if tasks), None)
            time.sleep(0.01)
        assert busy in before, "no worker ever had work"
        victim = before[busy]
        assert thread.is_alive(), "the sweep was over before a worker could be killed"
        os.kill(victim, signal.SIGKILL)
        thread.join(300)
        assert "results" in answer, "the sweep did not get over the death of a worker"
        deadline = time.monotonic() + 60
        while (
            victim in (now := {w["pid"] for w in _workers(client).values()}) and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        assert victim not in now
    assert answer["results"] == nandle.sweep(grid)


def _workers(client):
    return {address: {"pid": pid} for address, pid in client.run(os.getpid).items()}


def test_a_failure_calls_the_others_off():
    started = time.monotonic()
    with pytest.raises(nandle.InputError, match="nothing"):
        nandle.sweep({"device": "demo-page", "workload": ["random-write", "nothing"], "requests": 10**9})
    # Some 25 minutes of work otherwise.
    assert time.monotonic() - started < 60


def test_policies_travel():
    grid = {**GRID, "scheme": "lru+page", "seed": 1, "victim": [None, First()]}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = nandle.sweep(grid, pool)
    here = nandle.sweep(grid)
    assert there == here
    assert [row["victim"] for row in here.labels] == [None, "First"]
    assert here[0].summary.digest != here[1].summary.digest


class First(nandle.VictimPolicy):
    def choose(self, candidates):
        return 0


class Nth(nandle.VictimPolicy):
    def __init__(self, n):
        self.n = n

    def choose(self, candidates):
        return min(self.n, len(candidates) - 1)


def test_policies_of_one_class_are_told_apart():
    policies = [Nth(0), Nth(5)]
    results = nandle.sweep({**GRID, "seed": 1, "scheme": ["lru+page", "fifo+page"], "victim": policies})
    assert results.axes()["victim"] == ["Nth", "Nth#2"]
    waf = results.metric("waf")
    by_scheme = results.normalize(by="scheme", baseline="lru+page", metric="waf")
    assert [row["value"] for row in by_scheme] == [1.0, 1.0, waf[2] / waf[0], waf[3] / waf[1]]
    by_policy = results.normalize(by="victim", baseline=policies[1], metric="waf")
    assert [row["value"] for row in by_policy] == [waf[0] / waf[1], 1.0, waf[2] / waf[3], 1.0]
    with pytest.raises(nandle.InputError, match="not among the values of victim"):
        results.normalize(by="victim", baseline=Nth(5), metric="waf")
    with pytest.raises(nandle.InputError, match="has no baseline"):
        results[1:].normalize(by="scheme", baseline="lru+page", metric="waf")


def test_settings_that_can_be_gone_through_once_serve_every_run():
    grid = {"device": "demo@1/8", "requests": 2000, "seed": [1, 2]}
    once = nandle.sweep({**grid, "sets": (one for one in ["op_ratio=0.5"])})
    assert once == nandle.sweep({**grid, "sets": ["op_ratio=0.5"]})
    assert once[0].summary.digest != nandle.sweep(grid)[0].summary.digest


def test_runs_do_not_go_to_one_folder(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(nandle.InputError, match="2 runs would go there"):
        nandle.sweep({"requests": 100, "seed": [1, 2], "output": output})
    assert not output.exists()
    nandle.sweep({"requests": 100, "output": [tmp_path / "a", tmp_path / "b"]})
    assert (tmp_path / "a").is_dir() and (tmp_path / "b").is_dir()


def test_a_run_that_an_executor_calls_off_is_not_passed_over():
    class Forgets(ThreadPoolExecutor):
        submitted = 0

        def submit(self, *arguments):
            future = super().submit(*arguments)
            self.submitted += 1
            if self.submitted == 3:
                assert future.cancel()
            return future

    with Forgets(1) as executor, pytest.raises(RuntimeError, match="seed = 3: .*called this run off"):
        nandle.sweep({"requests": 50_000, "seed": [1, 2, 3]}, executor)


def test_normalised_figures_and_their_mean(local):
    normal = local.normalize(by="scheme", baseline="lru+page", metric="waf")
    waf = local.metric("waf")
    assert [row["value"] for row in normal] == [1.0, 1.0, waf[2] / waf[0], waf[3] / waf[1]]
    mean = normal.geomean(over="seed").to_dict()
    assert mean["lru+page"] == 1.0
    assert mean["page+victim=fifo"] == pytest.approx(math.sqrt(waf[2] / waf[0] * waf[3] / waf[1]))
    assert normal.geomean(over=["seed", "scheme"]).to_dict().keys() == {()}
    assert "page+victim=fifo" in repr(mean := normal.geomean(over="seed"))
    assert mean.metric == "waf"


def test_results_as_tables(local):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    frame = local.to_pandas()
    assert list(frame["waf"]) == list(local.to_polars()["waf"]) == local.metric("waf")
    assert list(frame["seed"]) == [1, 2, 1, 2]
    assert local.to_arrow().num_rows == 4
    assert local.normalize(by="seed", baseline=1, metric="waf").to_pandas().shape == (4, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: r.normalize(by="sheme", baseline="page", metric="waf"), "expected one of scheme, seed"),
        (lambda r: r.normalize(by="scheme", baseline="page", metric="waf"), "not among the values of scheme"),
        (lambda r: r.normalize(by="scheme", baseline="lru+page", metric="wafer"), "no such figure"),
        (lambda r: r.normalize(by="scheme", baseline="lru+page", metric="device"), "expected a number"),
        (lambda r: r.normalize(by="scheme", baseline="lru+page", metric="host.trim.requests"), "is 0"),
        (
            lambda r: r.normalize(by="scheme", baseline="lru+page", metric="waf").geomean(over="x"),
            "no such axis",
        ),
        (lambda _: nandle.sweep({"devices": ["demo-page"]}), "no such argument"),
        (lambda _: nandle.sweep({"seed": []}), "an empty list"),
        (lambda _: nandle.sweep({**GRID, "scheme": ["page", "pgae"]}), "scheme = 'pgae': seed = 1: "),
        (lambda _: nandle.sweep({**GRID, "workload": ["random-write", "nothing"]}), "workload = 'nothing'"),
    ],
)
def test_bad_input_is_one_clear_error(local, call, said):
    with pytest.raises(nandle.InputError) as caught:
        call(local)
    assert said in str(caught.value)

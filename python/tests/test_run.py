"""Goal: `nandle.run` is the run of the command line, and what it measured reaches every library whole.
Method: digests beside the program's own; columns beside each other through Arrow, polars, pandas, numpy."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import nandle

SMALL = {"device": "demo-page", "workload": "random-write", "requests": 30_000}


@pytest.fixture(scope="module")
def result():
    return nandle.run(**SMALL)


def test_until_steady_on_a_fraction_of_a_drive():
    steady = nandle.run(device="gc20@1/16", workload="gc20", until="steady", band=0.05).summary
    assert steady.steady.reached and steady.steady.band == 0.05
    assert steady.device == "gc20@1/16" and steady.steady.waf > 1.5
    with pytest.raises(nandle.InputError, match="expected 'steady'"):
        nandle.run(until="tomorrow")
    with pytest.raises(nandle.InputError, match="gc20@1/16"):
        nandle.run(device="gc20@2/1")


def program():
    if "NANDLE" not in os.environ:
        pytest.skip("NANDLE names no program to compare with (a program of this version: cargo build)")
    return os.environ["NANDLE"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (SMALL, []),
        (
            {
                "device": "papa-tlc",
                "scheme": "papa",
                "workload": "fin",
                "requests": 5000,
                "seed": 3,
                "verify": True,
            },
            ["--scheme", "papa", "--seed", "3", "--verify"],
        ),
        (
            {
                **SMALL,
                "sets": {"gc.victim": "cost-benefit", "op_ratio": 0.25},
                "replay": "closed",
                "iodepth": 4,
            },
            [
                "--set",
                "gc.victim=cost-benefit",
                "--set",
                "op_ratio=0.25",
                "--replay",
                "closed",
                "--iodepth",
                "4",
            ],
        ),
    ],
)
def test_a_run_is_that_of_the_command_line(arguments, options):
    command = [program(), "run", "--device", arguments["device"], "--workload", arguments["workload"]]
    command += ["--requests", str(arguments["requests"]), *options, "--json", "-"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ours = nandle.run(**arguments).summary
    machine = {"cpu_s", "requests_per_cpu_s", "peak_rss_bytes"}
    assert {k: v for k, v in ours.items() if k not in machine} == {
        k: v for k, v in theirs.items() if k not in machine
    }


def test_attributes_and_keys_are_the_same(result):
    s = result.summary
    assert s.waf == s["waf"] == s.find("waf") > 1
    assert s.host.write.requests == 30_000
    assert s.find("host.write.lat_ns.percentile.99.000000") == s.host.write.lat_ns.percentile["99.000000"]
    assert abs(sum(s.waf_parts.values()) - s.waf) < 1e-9
    with pytest.raises(AttributeError, match="waff"):
        _ = s.waff


def test_the_series_adds_up_to_the_summary(result):
    series = result.timeseries
    measured = series["phase"] == series["phase"].max()
    assert series["write_requests"][measured].sum() == result.summary.host.write.requests
    assert series["erases"][measured].sum() == result.summary.flash.erases
    latency = result.latency
    writes = latency["op"] == "write"
    assert latency["requests"][writes].sum() == result.summary.host.write.requests
    assert latency["share"][writes][-1] == 1.0


@pytest.mark.parametrize("name", ["timeseries", "latency"])
def test_every_library_gets_the_same_table(result, name):
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    table = getattr(result, name)
    numbers = table.to_numpy()
    arrow, polars, pandas = table.to_arrow(), table.to_polars(), table.to_pandas()
    assert arrow.column_names == polars.columns == list(pandas.columns) == table.column_names
    for column, values in numbers.items():
        listed = [None if isinstance(v, float) and np.isnan(v) else v for v in values.tolist()]
        assert arrow[column].to_pylist() == listed, column
        assert polars[column].to_list() == listed, column
        again = [None if isinstance(v, float) and np.isnan(v) else v for v in pandas[column].tolist()]
        assert [list(v) if isinstance(v, np.ndarray) else v for v in again] == listed, column
    # As an array and as a stream, without our help.
    assert pa.record_batch(table).num_rows == pl.DataFrame(table).height == len(table)


def test_numpy_is_enough():
    program = """
import sys
for absent in ("pyarrow", "polars", "pandas", "matplotlib", "altair", "distributed"):
    sys.modules[absent] = None
import nandle
result = nandle.run(requests=2000)
assert result.timeseries["write_requests"].sum() == 2000
assert len(nandle.sweep({"seed": [1, 2], "requests": 100}).metric("waf")) == 2
for use in (result.to_pandas, result.to_polars, result.latency.to_arrow, result.plot.cdf):
    try:
        use()
    except ImportError as e:
        print(e)
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    extras = ["pandas", "polars", "arrow", "plot"]
    assert [line.split("nandle[")[1].split("]")[0] for line in said.splitlines()] == extras


def test_tables_outlive_the_run():
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table(nandle.run(**SMALL).latency)
    assert arrow["requests"].to_numpy().sum() == 30_000


def test_results_can_be_pickled(result):
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert again.summary.waf_parts.gc == result.summary.waf_parts.gc
    assert again != nandle.run(**{**SMALL, "seed": 2})


def test_the_run_directory_is_written(tmp_path):
    result = nandle.run(**SMALL, output=tmp_path / "run")
    assert json.loads((tmp_path / "run/summary.json").read_text())["digest"] == result.summary.digest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"device": "dmeo"}, 'no device is called "dmeo", did you mean "demo"'),
        ({"scheme": "waflush"}, 'no policy is called "waflush"'),
        ({"workload": "no-such"}, "no-such"),
        ({"workload": "no/such.trace"}, "no/such.trace: no such file"),
        ({"sets": {"gc.sfot": 1}}, "gc.sfot=1: unknown field"),
        ({"sets": {"gc.soft": 7}}, "gc.soft"),
        ({"sets": {"gc.soft": object()}}, "expected a number, a word"),
        ({"sets": "gc.soft=1"}, "expected a dictionary"),
        ({"requests": 0}, "requests = 0: expected a whole number from 1"),
        ({"requests": 1.5}, "requests = 1.5"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 1 << 64}, "seed"),
        ({"replay": "fast"}, "expected open, closed or think"),
        ({"fit": "squeeze"}, "fit"),
        ({"format": "nonsense"}, "format"),
        ({"time_scale": 0.0}, "time-scale"),
        ({"victim": nandle.VictimPolicy}, "an instance, not the class"),
        ({"buffer": 3}, "expected an instance"),
        ({"device": 3}, "device = 3"),
        ({"device": "\udcff"}, "in UTF-8"),
        ({"scheme": ""}, "expected a policy before and after each +"),
        ({"sets": 5}, "expected a dictionary"),
        ({"sets": [{"gc.soft": 0.05}]}, "expected KEY=VALUE"),
        ({"band": -5}, "expected until='steady' with it"),
        ({"untimed": "no"}, "untimed = 'no': expected True or False"),
        ({"time_scale": 1e300}, "--time-scale 1e300: expected a number above 0 and at most 1e9"),
    ],
)
def test_bad_input_is_one_clear_error(arguments, said):
    with pytest.raises(nandle.InputError) as caught:
        nandle.run(**{**SMALL, **arguments})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_settings_may_be_arrays():
    given = {"timing.read_ns": np.array([1000, 2000, 3000]), "op_ratio": np.float32(0.5)}
    text = nandle.config("demo", sets=given)
    assert "read_ns = [1000, 2000, 3000]" in " ".join(text.split()).replace("[ ", "[").replace(", ]", "]")
    assert "op_ratio = 0.5" in text
    with pytest.raises(nandle.InputError, match="scheme = 5"):
        nandle.config("demo", 5)


def test_the_interpreter_is_free_while_the_core_works():
    done = threading.Event()
    work = threading.Thread(target=lambda: (nandle.run(**{**SMALL, "requests": 400_000}), done.set()))
    work.start()
    ticks = 0
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    work.join()
    assert ticks >= 10


def test_progress_is_told_and_may_stop_the_run():
    seen = []
    nandle.run(**SMALL, progress=lambda *p: seen.append(p))
    assert seen[-1][1] == 30_000
    assert [p[0] for p in seen] == sorted(p[0] for p in seen)

    def enough(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nandle.run(**{**SMALL, "requests": 10_000_000}, progress=enough)


def test_ctrl_c_ends_a_run():
    program = """
import nandle
print("started", flush=True)
nandle.run(requests=10**9)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "started\n"
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert run.returncode != 0


def test_lists_name_what_there_is():
    assert "demo-page" in nandle.presets()
    assert "rocksdb" in nandle.workloads()
    assert {"scheme.buffer", "gc.victim", "sum"} <= {seam for seam, _, _ in nandle.schemes()}
    assert "op_ratio = 0.25" in nandle.config("demo-page", sets={"op_ratio": 0.25})


def test_plots_show_the_figures(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    bars = result.plot.write_breakdown()
    assert sum(patch.get_height() for patch in bars.patches) == pytest.approx(result.summary.waf)
    line = result.plot.waf().lines[0]
    waf = result.timeseries["waf"]
    assert np.array_equal(line.get_ydata(), waf[~np.isnan(waf)])
    line = result.plot.cdf().lines[0]
    assert line.get_ydata()[-1] == 1.0
    with pytest.raises(nandle.InputError, match="trim"):
        result.plot.cdf("trim")
    with pytest.raises(nandle.InputError, match="backend"):
        result.plot.waf(backend="gnuplot")


def test_altair_draws_the_same(result):
    pytest.importorskip("altair")
    chart = result.plot.write_breakdown(backend="altair").to_dict()
    assert sum(row["waf"] for row in chart["data"]["values"]) == pytest.approx(result.summary.waf)
    assert result.plot.cdf(backend="altair").to_dict()["data"]["values"][-1]["y"] == 1.0
    assert len(result.plot.waf(backend="altair").to_dict()["data"]["values"]) > 0

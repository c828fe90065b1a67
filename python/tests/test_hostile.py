"""Goal: whatever Python hands over, what comes back is a result or an exception that says what was wrong: no panic, no
abort, no endless wait.

Method: hypothesis draws arguments, sensible ones and nonsense, for runs, drives by hand and traces.
"""

import csv
from pathlib import Path

import nandle
import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

REFUSED = (nandle.InputError, TypeError, ValueError, OverflowError)

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.sampled_from([0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, "", "\0", "4Ki", "1e400", [], {}]),
)


def names_of_settings() -> list[str]:
    table = Path(__file__).parents[2] / "docs" / "settings.csv"
    with table.open(newline="") as file:
        return [row["setting"] for row in csv.DictReader(file)]


def gently(examples: int):
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None,
                    suppress_health_check=list(HealthCheck))


@gently(1000)
@given(
    device=st.one_of(st.sampled_from(["demo", "demo-page"]), st.text(max_size=8)),
    scheme=st.one_of(st.none(), st.sampled_from(["waflash", "papa", "across+multi-version", "fdp(2)"]), st.text(max_size=8)),
    workload=st.one_of(st.sampled_from(["random-write", "sequential-write"]), st.text(max_size=8)),
    seed=st.one_of(st.integers(0, 9), odd),
    options=st.dictionaries(
        st.sampled_from(["replay", "iodepth", "time_scale", "fit", "format", "volume", "time_unit", "until", "band",
                         "at_most", "verify", "io_log", "untimed", "victim", "buffer"]),
        odd,
        max_size=2,
    ),
)
def test_runs(device, scheme, workload, seed, options):
    try:
        result = nandle.run(device, scheme, workload, seed, 50, **options)
    except REFUSED as error:
        assert str(error)
    else:
        assert result.summary.complete


@gently(2000)
@given(name=st.sampled_from(names_of_settings()), value=odd)
def test_settings(name, value):
    try:
        nandle.run("demo", requests=20, sets={name: value}, untimed=True)
    except REFUSED as error:
        assert str(error)


@gently(500)
@given(
    contents=st.booleans(),
    calls=st.lists(
        st.tuples(
            st.sampled_from(["submit", "read", "write", "trim", "flush", "run_until", "step", "drain", "poll",
                             "next_event", "cut_power", "power_on", "copy", "inspect", "stats"]),
            st.lists(st.one_of(st.integers(0, 64).map(lambda n: 4096 * n), odd), max_size=3),
            st.dictionaries(st.sampled_from(["data", "fua", "stream", "at", "bytes"]), odd, max_size=2),
        ),
        max_size=40,
    ),
)
def test_drives_by_hand(contents, calls):
    device = nandle.Device("demo", contents=contents)
    for name, arguments, options in calls:
        try:
            call = getattr(device, name)
            if callable(call):
                call(*arguments, **options)
        except (*REFUSED, RuntimeError) as error:
            assert str(error)
    if device.is_on:
        device.drain()
        device.inspect()


@gently(500)
@given(content=st.one_of(st.binary(max_size=400), st.text("0123456789,rwRW.\n \t", max_size=400).map(str.encode)),
       suffix=st.sampled_from(["", ".csv", ".gz", ".parquet", ".txt"]), rows=st.one_of(st.integers(1, 9), odd))
def test_traces(tmp_path_factory, content, suffix, rows):
    path = tmp_path_factory.mktemp("trace") / f"trace{suffix}"
    path.write_bytes(content)
    try:
        with nandle.open(path, rows=rows) as trace:
            count = sum(len(table["op"]) for table in trace)
    except REFUSED as error:
        assert str(error)
    else:
        assert count >= 0

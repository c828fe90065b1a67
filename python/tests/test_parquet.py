"""Goal: others read the Parquet files that nandle writes, and nandle reads theirs.
Method: pyarrow and polars on one side, `nandle.run` and `nandle.open` on the other."""

import numpy as np
import pytest

import nandle

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")

ROWS = 3000
COLUMNS = {
    "time_ns": np.arange(ROWS, dtype=np.uint64) * 1000,
    "op": ["write" if n % 3 else "read" for n in range(ROWS)],
    "offset": np.arange(ROWS, dtype=np.uint64) % 50 * 4096,
    "bytes": np.full(ROWS, 4096, dtype=np.uint64),
}


def test_others_read_what_a_run_leaves(tmp_path):
    out = tmp_path / "run"
    result = nandle.run(device="demo-page", requests=5000, output=out, io_log=True)
    series = {name: result.timeseries.to_arrow()[name].to_pylist() for name in result.timeseries.column_names}
    assert pq.read_table(out / "timeseries.parquet").to_pydict() == series
    assert pl.read_parquet(out / "timeseries.parquet").to_dict(as_series=False) == series
    log = pq.read_table(out / "io.parquet")
    assert log.schema.field("op").type == pa.string() and log.schema.field("ok").type == pa.bool_()
    assert log.schema.field("phase").type == pa.uint16() and log.schema.field("offset").type == pa.uint64()
    last = log.filter(pa.compute.equal(log["phase"], pa.compute.max(log["phase"])))
    writes = last.filter(pa.compute.equal(last["op"], "write"))
    assert writes.num_rows == result.summary.host.write.requests
    assert pa.compute.sum(writes["bytes"]).as_py() == result.summary.host.write.bytes
    assert pl.read_parquet(out / "io.parquet").to_dict(as_series=False) == log.to_pydict()


def requests(path):
    with nandle.open(path, rows=ROWS) as opened:
        assert opened.format == "nandle-parquet"
        (table,) = opened
    return table


def same(path):
    table = requests(path)
    assert all(list(table[name]) == list(column) for name, column in COLUMNS.items())


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 700},
        {"use_dictionary": False, "column_encoding": {"time_ns": "DELTA_BINARY_PACKED"}},
        {"store_schema": False, "version": "1.0"},
    ],
)
def test_traces_of_pyarrow_are_read(tmp_path, written):
    pq.write_table(pa.table(COLUMNS), tmp_path / "t.parquet", **written)
    same(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "numbers", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
)
@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_any_integer_and_any_text_will_do(tmp_path, numbers, text):
    table = pa.table({**COLUMNS, "stream": pa.array([n % 9 for n in range(ROWS)], numbers)})
    table = table.set_column(1, "op", table["op"].cast(text))
    pq.write_table(table, tmp_path / "t.parquet")
    same(tmp_path / "t.parquet")
    assert requests(tmp_path / "t.parquet")["stream"].tolist() == [n % 9 for n in range(ROWS)]


def test_traces_of_polars_and_pandas_are_read(tmp_path):
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "polars.parquet")
    same(tmp_path / "polars.parquet")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(COLUMNS).astype({"op": "category"}).to_parquet(tmp_path / "pandas.parquet")
    same(tmp_path / "pandas.parquet")


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("offset", pa.array([-1] * ROWS), "-1 is negative"),
        ("offset", pa.array([None] + [1] * (ROWS - 1)), "nulls"),
        ("offset", pa.array([0.5] * ROWS), "expected integers"),
        ("time_ns", pa.array([1] * ROWS, pa.timestamp("ns")), "time_ns"),
        ("bytes", pa.array([[1]] * ROWS), "nested"),
        ("op", pa.array([1] * ROWS), "expected text"),
        ("op", pa.array(["wrong"] * ROWS), 'op is "wrong"'),
    ],
)
def test_other_columns_are_refused_in_one_sentence(tmp_path, name, column, said):
    table = pa.table({**COLUMNS})
    table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(nandle.InputError, match=said) as error:
        requests(tmp_path / "t.parquet")
    assert len(str(error.value).splitlines()) == 1 and "t.parquet" in str(error.value)

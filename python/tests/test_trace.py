"""Goal: a trace is read batch by batch, the same as `nandle trace convert` reads it.
Method: a small trace of a known format, and one with more rows than a batch."""

import gzip

import numpy as np
import pytest

import nandle

MSR = "".join(
    f"{128166372003061629 + 10 * n},hm,0,{'Write' if n % 3 else 'Read'},{4096 * n},{4096 * (1 + n % 2)},100\n"
    for n in range(1000)
)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "small.csv.gz"
    path.write_bytes(gzip.compress(MSR.encode()))
    return path


def test_batches_are_the_trace_in_order(trace):
    with nandle.open(trace, rows=300) as opened:
        assert opened.format == "msr"
        tables = list(opened)
    assert [len(table) for table in tables] == [300, 300, 300, 100]
    offsets = np.concatenate([table["offset"] for table in tables])
    assert (offsets == 4096 * np.arange(1000)).all()
    assert tables[0]["op"][:4].tolist() == ["read", "write", "write", "read"]
    assert tables[0]["time_ns"][:3].tolist() == [0, 1000, 2000]
    assert tables[0]["bytes"].dtype == np.uint64 and tables[0]["fua"].dtype == bool
    assert tables[0]["stream"].dtype == np.uint16


def test_arrow_reads_it_as_it_goes(trace):
    pyarrow = pytest.importorskip("pyarrow")
    reader = nandle.open(trace, rows=400).to_arrow()
    assert isinstance(reader, pyarrow.RecordBatchReader)
    first = reader.read_next_batch()
    assert first.num_rows == 400
    assert sum(batch.num_rows for batch in reader) == 600
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(nandle.open(trace)).height == 1000


def test_what_is_closed_or_wrong_is_said(trace, tmp_path):
    opened = nandle.open(trace)
    opened.close()
    with pytest.raises(nandle.InputError, match="closed"):
        next(iter(opened))
    with pytest.raises(nandle.InputError, match="gone"):
        nandle.open(tmp_path / "gone.csv")
    with pytest.raises(nandle.InputError, match="format"):
        nandle.open(trace, format="mrs")
    with pytest.raises(nandle.InputError, match="rows"):
        nandle.open(trace, rows=0)
    bad = tmp_path / "bad.csv"
    bad.write_text(MSR + "128166372003071629,hm,0,Write,x,4096,100\n")
    with pytest.raises(nandle.InputError, match="1001"):
        list(nandle.open(bad))

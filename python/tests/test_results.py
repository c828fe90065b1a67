"""Goal: results are typed, show themselves in notebooks, and what is long shows a bar.
Method: their types, their HTML and what a bar prints, beside the same run without."""

import pickle
import typing

import pytest

import nandle


def test_summaries_are_typed_and_stay_so():
    result = nandle.run(requests=2000)
    assert isinstance(result.summary, nandle.Summary)
    again = pickle.loads(pickle.dumps(result))
    assert type(again.summary) is nandle.Summary and again == result
    assert set(result.summary) == set(nandle.Summary.__annotations__)
    agrees(nandle.Summary, result.summary)


def agrees(kind, record):
    """Every key of a record is there, with the type that is said of it."""
    for key, said in typing.get_type_hints(kind).items():
        value = record[key]
        if isinstance(said, type) and issubclass(said, nandle.Record):
            agrees(said, value)
        elif said in (int, str, bool):
            assert type(value) is said, (kind, key, value)
        elif said is float:
            assert isinstance(value, (int, float)), (kind, key, value)


def test_results_show_themselves_in_notebooks():
    result = nandle.run(requests=2000)
    html = result._repr_html_()
    assert "demo" in html and f"{result.summary.waf:.3f}" in html
    results = nandle.sweep({"scheme": ["page", "waflash"], "requests": 1000})
    assert results._repr_html_().count("<tr>") == 3


def test_progress_is_a_bar_if_asked_for(capfd):
    pytest.importorskip("tqdm")
    assert nandle.run(requests=20_000, progress=True) == nandle.run(requests=20_000)
    assert "requests" in capfd.readouterr().err


def test_a_device_is_closed_at_the_end():
    with nandle.Device("demo") as device:
        device.submit("write", 0, 4096)
        device.drain()
    with pytest.raises(nandle.InputError, match="closed"):
        device.poll()

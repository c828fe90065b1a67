"""Goal: a device stepped by hand reads what was written, in time, also after power cuts.
Method: a plain bytearray beside it; closed forms of idle latencies; promises of flush."""

import copy
import random

import pytest
import tomllib

import nandle


def finish(device):
    device.drain()
    return device.poll()


@pytest.mark.parametrize("scheme", ["lru+page", "waflash", "across", "mrsm"])
def test_reads_return_the_last_write(scheme):
    device = nandle.Device("demo-page", scheme, seed=5, sets={"op_ratio": 0.3}, contents=True)
    rng = random.Random(7)
    sector, span = device.sector_bytes, 2048 * device.sector_bytes
    model = bytearray(span)
    expected = {}
    for _ in range(3000):
        offset = rng.randrange(span // sector) * sector
        size = min(rng.randint(1, 40) * sector, span - offset)
        while not device.accepts:
            device.step()
        kind = rng.random()
        if kind < 0.5:
            data = rng.randbytes(size)
            device.write(offset, data=data, fua=rng.random() < 0.05)
            model[offset : offset + size] = data
        elif kind < 0.55:
            device.trim(offset, size)
            model[offset : offset + size] = bytes(size)
        elif kind < 0.57:
            device.flush()
        else:
            # Reads may overtake writes that wait: all is quiet before one is compared.
            device.drain()
            expected[device.read(offset, size)] = bytes(model[offset : offset + size])
    seen = 0
    for done in finish(device):
        assert done.status == "ok"
        if done.op == "read":
            assert done.data == expected[done.id]
            seen += 1
    assert seen == len(expected) > 1000
    assert all(finding.wrong == 0 for finding in device.inspect())


def test_what_was_flushed_survives_a_power_cut():
    device = nandle.Device("demo-page", "lru+page", contents=True)
    page = device.page_bytes
    for n in range(50):
        device.write(n * page, data=bytes([n + 1]) * page)
    device.flush()
    finish(device)
    device.write(0, data=b"\xff" * page)  # acknowledged or not: not durable
    assert device.cut_power() == 1
    assert not device.is_on
    for forbidden in (device.drain, device.step, device.cut_power, device.flush):
        with pytest.raises(RuntimeError, match="off"):
            forbidden()
    before = device.now
    report = device.power_on()
    assert report.time_ns > 0
    assert device.now == before + report.time_ns
    ids = {device.read(n * page, page): n for n in range(50)}
    for done in finish(device):
        n = ids[done.id]
        assert done.data == bytes([n + 1]) * page or (n == 0 and done.data == b"\xff" * page)
    with pytest.raises(RuntimeError, match="on already"):
        device.power_on()


def test_an_idle_read_takes_what_its_parts_take():
    sets = {
        "timing.read_ns": [50_000, 50_000, 50_000],
        "timing.transfer_ns_per_page": 8_000,
        "buffer.bytes": 0,
    }
    settings = tomllib.loads(nandle.config("demo-page", sets=sets))["timing"]
    device = nandle.Device("demo-page", "page", sets=sets)
    device.write(0, device.page_bytes)
    device.drain()
    device.poll()
    device.read(0, device.page_bytes, at=device.now + 1_000_000)
    (done,) = finish(device)
    assert done.latency_ns == 50_000 + 8_000 + settings.get("command_ns", 0) + settings["dram_ns"]
    assert done.completed_ns - done.submitted_ns == done.latency_ns


def test_time_goes_where_it_is_sent():
    device = nandle.Device("demo-page")  # no link, no controller: an event is an operation
    assert device.next_event() is None
    assert device.step() is False
    device.run_until(5_000)
    assert device.now == 5_000
    with pytest.raises(nandle.InputError, match="5000 ns, or later"):
        device.run_until(4_999)
    with pytest.raises(nandle.InputError, match="at = 1"):
        device.read(0, 4096, at=1)
    device.read(0, 4096, at=6_000)
    assert device.now == 6_000
    assert device.poll() == []
    event = device.next_event()
    device.run_until(event)
    (done,) = device.poll()
    assert (done.completed_ns, done.submitted_ns, done.data) == (event, 6_000, None)
    assert "op='read'" in repr(done)


def test_a_stepped_device_is_a_function_of_what_it_is_told():
    def drive(device, seed):
        rng = random.Random(seed)
        for _ in range(2000):
            while not device.accepts:
                device.step()
            device.write(rng.randrange(device.logical_bytes // 4096) * 4096, 4096)
        device.drain()
        return device.digest

    one, other = nandle.Device(seed=3), nandle.Device(seed=3)
    assert drive(one, 1) == drive(other, 1)
    twin = copy.deepcopy(one)
    assert twin.digest == one.digest
    assert drive(one, 2) != drive(twin, 9)
    stats = one.stats
    assert stats.host.write.requests == 4000
    assert stats.programs.total * one.page_bytes == stats.bytes_programmed
    assert stats.waf == stats.bytes_programmed / stats.host.write.bytes
    assert nandle.Device().stats.waf is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.submit("wirte", 0, 4096), "expected one of read, write"),
        (lambda d: d.read(1, 4096), "offset = 1: expected a multiple of a sector"),
        (lambda d: d.read(0, 100), "bytes = 100"),
        (lambda d: d.read(-4096, 4096), "offset = -4096"),
        (lambda d: d.read(0, 4096, data=b"x"), "data with a read"),
        (lambda d: d.write(0, 4096, data=b"x"), "keeps no contents"),
        (lambda d: d.read(0, 4096, fua=True), "fua with a read"),
        (lambda d: d.write(0, 4096, stream=70_000), "stream = 70000"),
        (lambda d: d.read(1 << 63, 1 << 70), "bytes ="),
        (lambda d: d.read(0, 4096, at=2**63), "at = 9223372036854775808"),
        (lambda d: d.run_until(2**64 - 1), "t = 18446744073709551615"),
    ],
)
def test_bad_requests_are_refused(call, said):
    with pytest.raises(nandle.InputError) as caught:
        call(nandle.Device())
    assert said in str(caught.value)


def test_contents_are_asked_for_and_bounded():
    device = nandle.Device(contents=True)
    with pytest.raises(nandle.InputError, match="without data"):
        device.write(0, 4096)
    with pytest.raises(nandle.InputError, match="data of 3 bytes"):
        device.write(0, 4096, data=b"abc")
    with pytest.raises(nandle.InputError, match="contents = True would need"):
        nandle.Device("modern-tlc-4tb", contents=True)


def test_objects_are_announced_to_drives_that_know_them():
    small = {"geometry.channels": 1, "geometry.chips_per_channel": 1}
    for scheme, statuses in (("flashalloc", ["ok", "overlap", "ok", "ok"]), ("page", ["unsupported"] * 4)):
        device = nandle.Device("flashalloc-cosmos", scheme, sets=small)
        size = 2 << 20
        for op, offset in (("flashalloc", 0), ("flashalloc", 0), ("flashalloc", size), ("flashfree", 0)):
            device.submit(op, offset, size)
        device.drain()
        assert [done.status for done in device.poll()] == statuses


def test_beyond_the_end_is_a_status_and_a_full_queue_an_error():
    device = nandle.Device()
    device.write(device.logical_bytes, 4096)
    assert [done.status for done in finish(device)] == ["out-of-range"]
    with pytest.raises(RuntimeError, match="queue is full"):
        for n in range(100_000):
            device.write(n * 4096, 4096)
    assert device.outstanding > 0
    device.drain()
    assert device.outstanding == 0

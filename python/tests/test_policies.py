"""Goal: a policy in Python decides what a policy of the crate would decide in its place.
Method: the crate's policies written again in Python give the same digests; wrong answers are said."""

import random

import numpy as np
import pytest

import nandle

SETS = {"geometry.blocks_per_plane": 24, "op_ratio": 0.4, "buffer.bytes": 0}
RUN = {"device": "demo-page", "workload": "random-write", "requests": 60_000, "seed": 4, "sets": SETS}


def with_victim(name):
    return {**RUN, "sets": {**SETS, "gc.victim": name}}


class Fifo(nandle.VictimPolicy):
    def choose(self, candidates):
        return 0


class Greedy(nandle.VictimPolicy):
    def choose(self, candidates):
        return int(np.lexsort((candidates.last_invalidated_ns, candidates.valid))[0])


class Fullest(nandle.VictimPolicy):
    def __init__(self):
        self.asked = 0

    def choose(self, candidates):
        self.asked += 1
        assert len(candidates) == len(candidates.valid) == len(candidates.erases)
        assert (candidates.valid < candidates.pages_per_block).all()
        return int(np.argmax(candidates.valid))


class Leaves(nandle.VictimPolicy):
    def choose(self, candidates):
        return None


def test_fifo_in_python_is_fifo():
    ours = nandle.run(**with_victim("greedy"), victim=Fifo())
    theirs = nandle.run(**with_victim("fifo"))
    greedy = nandle.run(**with_victim("greedy"))
    assert ours.summary.gc.invocations > 100
    assert ours.summary.digest == theirs.summary.digest != greedy.summary.digest
    assert ours.summary.scheme.endswith("+victim=Fifo")


def test_greedy_in_python_amplifies_as_greedy_does():
    # Of blocks that lost a page in the same instant the crate knows which was first: not the same digest.
    ours = nandle.run(**with_victim("fifo"), victim=Greedy())
    theirs = nandle.run(**with_victim("greedy"))
    assert ours.summary.waf == pytest.approx(theirs.summary.waf, rel=0.01)


def test_a_policy_that_leaves_it_to_the_drive_changes_nothing():
    assert nandle.run(**RUN, victim=Leaves()).summary.digest == nandle.run(**RUN).summary.digest


def test_a_bad_policy_costs_and_loses_nothing():
    policy = Fullest()
    ours = nandle.run(**{**RUN, "requests": 40_000}, victim=policy, verify=True)
    best = nandle.run(**{**RUN, "requests": 40_000})
    assert ours.summary.waf > best.summary.waf
    assert policy.asked >= ours.summary.gc.invocations > 0
    assert ours.summary.integrity.mismatches == 0


BUFFERED = {
    "device": "demo-page",
    "workload": "fin",
    "requests": 4_000,
    "seed": 2,
    "sets": {"buffer.bytes": "1MiB"},
}


class Oldest(nandle.BufferPolicy):
    def evict(self, buffer):
        return 0


class OldestRequest(nandle.BufferPolicy):
    def evict(self, buffer):
        return [
            n
            for n in range(len(buffer))
            if np.array_equal(buffer.request[: n + 1], np.full(n + 1, buffer.request[0]))
        ]


class FullFirst(nandle.BufferPolicy):
    """Whole pages need no read-modify-write: they leave before partial ones."""

    def evict(self, buffer):
        whole = np.flatnonzero(buffer.sectors == buffer.sectors_per_page)
        return whole[0] if len(whole) else 0


def test_lru_and_fifo_in_python_are_lru_and_fifo():
    lru = nandle.run(**BUFFERED, scheme="lru+page")
    assert lru.summary.buffer.evictions > 100
    assert nandle.run(**BUFFERED, scheme="lru+page", buffer=Oldest()).summary.digest == lru.summary.digest
    fifo = nandle.run(**BUFFERED, scheme="fifo+page")
    ours = nandle.run(**BUFFERED, scheme="fifo+page", buffer=OldestRequest())
    assert ours.summary.digest == fifo.summary.digest != lru.summary.digest


def test_whole_pages_first_makes_fewer_partial_evictions():
    lru = nandle.run(**BUFFERED, scheme="lru+page").summary
    ours = nandle.run(**BUFFERED, scheme="lru+page", buffer=FullFirst(), verify=True).summary
    assert ours.integrity.mismatches == 0
    assert ours.buffer.mean_partial_pages > lru.buffer.mean_partial_pages


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (10**9, nandle.InputError, "choose() of the victim policy returned 1000000000: expected an index"),
        (-1, nandle.InputError, "returned -1"),
        (10**30, nandle.InputError, "choose() of the victim policy returned 1" + "0" * 30),
        ("first", TypeError, "Wrong.choose() returned 'first': expected an index"),
    ],
)
def test_wrong_answers_end_the_run(answer, error, said):
    class Wrong(nandle.VictimPolicy):
        def choose(self, candidates):
            return answer

    with pytest.raises(error) as caught:
        nandle.run(**RUN, victim=Wrong())
    assert said in str(caught.value)


def test_what_a_policy_raises_is_raised():
    class Breaks(nandle.BufferPolicy):
        def evict(self, buffer):
            raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        nandle.run(**BUFFERED, buffer=Breaks())
    device = nandle.Device("demo-page", "lru+page", sets={"buffer.bytes": "64KiB"}, buffer=Breaks())
    with pytest.raises(ZeroDivisionError):
        for n in range(100):
            device.write(n * 4096, 4096)
    # The call was carried out with the drive's own policy; the next one asks again.
    with pytest.raises(ZeroDivisionError):
        for n in range(100, 200):
            device.write(n * 4096, 4096)
    with pytest.raises(NotImplementedError, match="Nothing has no choose"):
        nandle.run(**RUN, victim=type("Nothing", (nandle.VictimPolicy,), {})())


def test_a_stepped_device_asks_too():
    policy = Fullest()
    device = nandle.Device("demo-page", sets=SETS, victim=policy)
    twin, own = device.copy(), nandle.Device("demo-page", sets=SETS)
    pages = device.logical_bytes // device.page_bytes
    rng = random.Random(1)
    where = [rng.randrange(pages) * device.page_bytes for _ in range(30_000)]
    for d in (device, twin, own):
        for offset in where:
            while not d.accepts:
                d.step()
            d.write(offset, d.page_bytes)
        d.drain()
    assert device.digest == twin.digest != own.digest
    assert device.stats.waf > own.stats.waf
    assert policy.asked >= 2 * device.stats.gc_invocations > 0


def test_what_a_policy_raises_in_a_copy_is_the_copys():
    class Breaks(Fullest):
        broken = False

        def choose(self, candidates):
            if self.broken:
                raise ZeroDivisionError("once")
            return super().choose(candidates)

    def write(device):
        for _ in range(30_000):
            while not device.accepts:
                device.step()
            device.write(rng.randrange(pages) * device.page_bytes, device.page_bytes)

    policy = Breaks()
    device = nandle.Device("demo-page", sets=SETS, victim=policy)
    assert device.scheme.endswith("+victim=Breaks")
    pages, rng = device.logical_bytes // device.page_bytes, random.Random(1)
    twin, policy.broken = device.copy(), True
    with pytest.raises(ZeroDivisionError, match="once"):
        write(twin)
    policy.broken = False
    before = policy.asked
    write(device)
    assert policy.asked > before


def test_a_registered_policy_is_called_by_its_name():
    nandle.register("oldest", Fifo)
    by_name = nandle.run(**{**RUN, "scheme": "page+oldest"})
    assert by_name.summary.digest == nandle.run(**{**RUN, "scheme": "page"}, victim=Fifo()).summary.digest
    assert by_name.summary.digest != nandle.run(**{**RUN, "scheme": "page"}).summary.digest
    results = nandle.sweep({**RUN, "scheme": ["page", "page+oldest"]})
    assert [r.summary.digest for r in results][1] == by_name.summary.digest
    for name, policy in [("greedy", Fifo), ("a+b", Fifo), ("mine", Fifo()), ("mine", int)]:
        with pytest.raises(nandle.InputError):
            nandle.register(name, policy)
    with pytest.raises(nandle.InputError, match="second victim policy"):
        nandle.run(**{**RUN, "scheme": "page+oldest"}, victim=Fifo())

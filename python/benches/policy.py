"""How many decisions a second a policy in Python makes: `python python/benches/policy.py`.

A drive that collects all the time asks a victim policy of one line; what the same run takes with the drive's own
policy is taken off. The best of three.
"""

import time

import numpy as np

import nandle

# Small blocks and few of them a plane: a decision for every few writes.
RUN = {
    "device": "demo-page",
    "workload": "random-write",
    "requests": 300_000,
    "untimed": True,
    "sets": {
        "geometry.blocks_per_plane": 40,
        "geometry.pages_per_block": 12,
        "op_ratio": 0.5,
        "buffer.bytes": 0,
        "precondition.used": 0.6,
        "precondition.valid": 0.6,
    },
}


class Greedy(nandle.VictimPolicy):
    """The block with the fewest live pages."""

    def __init__(self) -> None:
        self.decisions = 0

    def choose(self, candidates: nandle.Candidates) -> int:
        self.decisions += 1
        return int(np.argmin(candidates.valid))


def seconds(victim: nandle.VictimPolicy | None) -> float:
    """Of one run."""
    began = time.perf_counter()
    nandle.run(**RUN, victim=victim)
    return time.perf_counter() - began


def main() -> None:
    plain = min(seconds(None) for _ in range(3))
    best = 0.0
    for _ in range(3):
        policy = Greedy()
        taken = seconds(policy)
        best = max(best, policy.decisions / max(taken - plain, 1e-9))
        whole = policy.decisions / taken
    print(f"{policy.decisions:,} decisions: {best:,.0f} a second; {whole:,.0f} with the simulation")


if __name__ == "__main__":
    main()

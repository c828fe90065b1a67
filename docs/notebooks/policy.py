# %% [markdown]
# # Writing a policy
#
# Which block is collected, and which page leaves the write buffer: both can be decided in Python. The drive
# asks at the instant of the decision. Slow (every question crosses into the interpreter), but a class is all
# it takes.

# %%
import matplotlib.pyplot as plt
import numpy as np

import nandle

SMALL = {"geometry.blocks_per_plane": 24, "op_ratio": 0.4, "buffer.bytes": 0}
RUN = {"device": "demo-page", "workload": "random-write", "requests": 80_000}


# %% [markdown]
# Greedy takes the block with the fewest live pages. This one looks away from blocks that lost a page a moment
# ago: they are still losing pages, and cost less if collected later (the idea of cost-benefit, in one line).


# %%
class Patient(nandle.VictimPolicy):
    def choose(self, candidates):
        dead = candidates.pages_per_block - candidates.valid
        age = candidates.now_ns - candidates.last_invalidated_ns + 1
        return int(np.argmax(dead / (candidates.valid + 1) * age))


class Careless(nandle.VictimPolicy):
    def __init__(self, seed=1):
        self.draw = np.random.default_rng(seed)

    def choose(self, candidates):
        return int(self.draw.integers(len(candidates)))


victims = {"greedy (own)": None, "Patient": Patient(), "Careless": Careless()}
victims = {name: nandle.run(**RUN, sets=SMALL, victim=policy) for name, policy in victims.items()}
for name, result in victims.items():
    print(f"{name:<22} WAF {result.summary.waf:.3f}")

# %% [markdown]
# A buffer policy: whole pages first, as they need no read-modify-write. Partial pages stay, and may fill up.


# %%
class WholeFirst(nandle.BufferPolicy):
    def evict(self, buffer):
        whole = np.flatnonzero(buffer.sectors == buffer.sectors_per_page)
        return whole[0] if len(whole) else 0


buffered = {"device": "demo-page", "workload": "fin", "requests": 6_000, "sets": {"buffer.bytes": "1MiB"}}
lru = nandle.run(**buffered, scheme="lru+page")
ours = nandle.run(**buffered, scheme="lru+page", buffer=WholeFirst(), verify=True)
for name, result in (("lru", lru), ("WholeFirst", ours)):
    s = result.summary
    print(
        f"{name:<12} {s.buffer.evicted_partial_pages:6} of {s.buffer.evictions} evictions partial, {s.rmw['count']} RMW"
    )
ax = lru.plot.cdf()
ours.plot.cdf(ax=ax)
plt.show()

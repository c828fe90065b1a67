# %% [markdown]
# # What would placement hints change?
#
# RocksDB's files live and die as wholes. A drive that mixes them in its blocks copies the living when the dead are
# collected. FDP (placement handles), streams and FlashAlloc tell the drive what belongs together: the same
# requests, five drives; three seeds of each, for which files meet in a block is chance.

# %%
import matplotlib.pyplot as plt

import nandle

# What survives has blocks of its own, which no stream writes.
FOUR_DIES = {"geometry.channels": 4, "geometry.chips_per_channel": 1, "gc.survivors": "apart"}
SEEDS = [1, 2, 3]
results = nandle.sweep(
    {
        "device": "flashalloc-cosmos",
        "scheme": ["page", "multi-stream(4)", "fdp(4,initially)", "fdp(4,persistently)", "flashalloc"],
        "seed": SEEDS,
        "workload": "rocksdb",
        "requests": 200_000,
        "sets": FOUR_DIES,
    }
)
waf = {}
for label, result in zip(results.labels, results):
    waf.setdefault(label["scheme"], []).append(result.summary.waf_steady)
for scheme, of_seeds in waf.items():
    print(f"{scheme:<20} WAF over the last third: {', '.join(f'{n:.3f}' for n in of_seeds)}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
one_seed = results[:: len(SEEDS)]
one_seed.plot.write_breakdown(ax=left)
one_seed.plot.waf(ax=right)
plt.show()

# %% [markdown]
# Handles for each of RocksDB's threads gain on each seed. Knowing the files gains more.
#
# Is spare room worth as much? The drive that knows nothing, with more over-provisioning. Its volume is smaller, and the
# same requests fill it further:

# %%
room = nandle.sweep(
    {
        "device": "flashalloc-cosmos",
        "scheme": "page",
        "seed": SEEDS,
        "workload": "rocksdb",
        "requests": 200_000,
        "sets": {**FOUR_DIES, "op_ratio": [0.2, 0.3]},
    }
)
for label, last in zip(room.labels, room.metric("waf_steady")):
    print(f"op_ratio {label['op_ratio']}, seed {label['seed']}: WAF {last:.3f} over the last third")

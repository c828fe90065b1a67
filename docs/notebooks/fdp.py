# %% [markdown]
# # What would placement hints change?
#
# RocksDB's files live and die as wholes. A drive that mixes them in its blocks copies the living when the dead are
# collected. FDP (placement handles), streams and FlashAlloc tell the drive what belongs together: the same
# requests, four drives.

# %%
import matplotlib.pyplot as plt

import nandle

FOUR_DIES = {"geometry.channels": 4, "geometry.chips_per_channel": 1}
results = nandle.sweep(
    {
        "device": "flashalloc-cosmos",
        "scheme": ["page", "multi-stream(4)", "fdp(4,initially)", "fdp(4,persistently)", "flashalloc"],
        "workload": "rocksdb",
        "requests": 250_000,
        "sets": FOUR_DIES,
    }
)
for label, result in zip(results.labels, results):
    s = result.summary
    print(
        f"{label['scheme']:<20} WAF {s.waf:.3f}, {s.waf_steady:.3f} over the last third, "
        f"{s.host.write.bw_bytes / 2**20:.1f} MiB/s written"
    )

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
results.plot.write_breakdown(ax=left)
results.plot.waf(ax=right)
plt.show()

# %% [markdown]
# How much spare room is worth as much as knowing the files? The drive that knows nothing, with more over-provisioning:

# %%
room = nandle.sweep(
    {
        "device": "flashalloc-cosmos",
        "scheme": "page",
        "workload": "rocksdb",
        "requests": 250_000,
        "sets": {**FOUR_DIES, "op_ratio": [0.2, 0.3]},
    }
)
for label, waf in zip(room.labels, room.metric("waf_steady")):
    print(f"op_ratio {label['op_ratio']:<7} WAF {waf:.3f} over the last third")

# %% [markdown]
# # One figure of each paper
#
# Small sizes of what `nandle reproduce` does whole: the drives are shrunk, the traces are their published
# statistics' twins. The reproduction pages say what is met at which size, and why some is not.

# %%
import nandle

rows = []


def beside(place, what, paper, here):
    rows.append({"place": place, "what": what, "paper": paper, "here": round(here, 3)})
    print(f"{place:<22} {what:<52} {paper:>8} {here:8.3f}")


# %% [markdown]
# WAFLASH, Fig 11: random writes of 9 KB on the OpenSSD board, mean latency to the baseline.

# %%
waflash = nandle.sweep(
    {
        "device": "waflash-openssd",
        "scheme": ["lru+page", "waflash"],
        "workload": "filebench-randomwrite:9k",
        "requests": 15_000,
        "sets": {"geometry.pages_per_block": 32, "buffer.bytes": "4MiB"},
    }
).normalize(by="scheme", baseline="lru+page", metric="host.all.lat_ns.mean")
beside("WAFLASH, Fig 11", "mean latency, waflash to lru", 0.57, waflash.to_dict()["waflash"])

# %% [markdown]
# PC-LRU's poster: MCA beside LRU, mean latency over three twins.

# %%
poster = nandle.sweep(
    {
        "device": "pclru-ssdsim",
        "scheme": ["lru+page", "mca+page", "pc-lru+page"],
        "workload": ["msnfs", "cfs", "dtr"],
        "requests": 20_000,
        "sets": {"buffer.bytes": "2MiB"},
    }
).normalize(by="scheme", baseline="lru+page", metric="host.all.lat_ns.mean")
means = poster.geomean(over="workload").to_dict()
beside("PC-LRU poster", "mean latency, mca to lru", 0.98, means["mca+page"])

# %% [markdown]
# PAPA, Fig 11: which pages the writes go to, on a 64th of the drive.

# %%
papa = nandle.run(
    "papa-tlc", "papa", "fin", requests=100_000, sets={"op_ratio": 0.3, "geometry.blocks_per_plane": 32}
).summary
by_type = papa.flash.by_page_type
programs = sum(of.programs for of in by_type.values())
for kind, paper in (("lsb", 0.62), ("csb", 0.372), ("msb", 0.008)):
    beside("PAPA, Fig 11", f"share of flash writes, {kind.upper()}", paper, by_type[kind].programs / programs)

# %% [markdown]
# Across-FTL, Fig 9b: write latency to page mapping, on a sixteenth of the aged drive.

# %%
across = nandle.sweep(
    {
        "device": "across-tlc",
        "scheme": ["page", "across"],
        "workload": ["lun1", "lun6"],
        "requests": 30_000,
        "sets": {
            "geometry.blocks_per_plane": 512,
            "map_cache.bytes": 137363456 // 16,
            "scheme.striping": "dynamic",
            "precondition.used": 0.89,
        },
    }
).normalize(by="scheme", baseline="page", metric="host.write.lat_ns.mean")
beside(
    "Across-FTL, Fig 9b",
    "write latency, across to page",
    0.911,
    across.geomean(over="workload").to_dict()["across"],
)

# %% [markdown]
# FlashAlloc, Fig 5a: eight threads rewrite objects of 2 MiB on four dies of the Cosmos board.

# %%
flashalloc = nandle.sweep(
    {
        "device": "flashalloc-cosmos",
        "scheme": ["page", "flashalloc"],
        "workload": "fio-2m-8",
        "requests": 60_000,
        "sets": {"geometry.channels": 4, "geometry.chips_per_channel": 1},
    }
)
vanilla, objects = flashalloc.metric("waf")
beside("FlashAlloc, Fig 5a", "WAF, vanilla", 3.1, vanilla)
beside("FlashAlloc, Fig 5a", "WAF, FlashAlloc", 1.0, objects)

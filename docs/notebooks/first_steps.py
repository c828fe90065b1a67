# %% [markdown]
# # First steps
#
# A run is one drive under one workload. Open this file with Jupyter (jupytext), or run it with Python.

# %%
import matplotlib.pyplot as plt

import nandle

result = nandle.run(device="demo-page", workload="random-write", requests=400_000)
result

# %% [markdown]
# Every figure is in the summary, by name. Write amplification and what it is made of:

# %%
summary = result.summary
print(
    f"WAF {summary.waf:.3f} =", " + ".join(f"{part} {value:.3f}" for part, value in summary.waf_parts.items())
)
print(f"over the last third {summary.waf_steady:.3f}; steady: {summary.steady_state}")
print(f"99% of the writes took at most {summary.find('host.write.lat_ns.percentile.99.000000') / 1e6:.1f} ms")

# %% [markdown]
# The time series and the latencies are Arrow tables. numpy needs nothing else; polars and pandas take them too.

# %%
series = result.timeseries
print(series.num_rows, "intervals;", "fewest free blocks:", series["free_blocks_min"].min())

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
result.plot.waf(ax=left)
result.plot.cdf("write", ax=right)
plt.show()

# %% [markdown]
# Three schemes on the same requests. Lists in the grid are gone through; threads do the work.

# %%
grid = {"device": "demo-page", "scheme": ["fifo+page", "lru+page", "waflash"], "seed": [1, 2], "requests": 100_000}
results = nandle.sweep(grid)
relative = results.normalize(by="scheme", baseline="lru+page", metric="waf").geomean(over="seed")
print(relative)
results[::2].plot.write_breakdown()
plt.show()

# %% [markdown]
# The same drive by hand: requests go in, time goes on, completions come out.

# %%
device = nandle.Device("demo-page", contents=True)
device.write(0, data=b"hello".ljust(4096, b"\0"))
device.flush()
device.drain()
print(device.poll())
lost = device.cut_power()
recovery = device.power_on()
device.read(0, 4096)
device.drain()
(answer,) = device.poll()
print(answer.data[:5], f"after a recovery of {recovery.time_ns / 1e6:.2f} ms, {lost} requests lost")

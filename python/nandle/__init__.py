"""nandle: a flash drive in software.

`run` simulates one drive under one workload, `sweep` a grid of them, `Device` is a drive stepped by
hand, `open` reads a trace batch by batch, `VictimPolicy` and `BufferPolicy` are policies written in Python. Times are simulated nanoseconds
and sizes are bytes, throughout.
"""

from ._core import Completion, InputError, __version__
from ._device import Device
from ._policies import BufferPolicy, BufferView, Candidates, VictimPolicy, register
from ._record import Record
from ._results import Normalized, Results
from ._run import Result, config, presets, run, schemes, workloads
from ._sweep import sweep
from ._summary import Summary
from ._table import Table
from ._trace import Trace, open

__all__ = [
    "BufferPolicy",
    "BufferView",
    "Candidates",
    "Completion",
    "Device",
    "InputError",
    "Normalized",
    "Record",
    "Result",
    "Results",
    "Summary",
    "Table",
    "Trace",
    "VictimPolicy",
    "__version__",
    "config",
    "open",
    "presets",
    "register",
    "run",
    "schemes",
    "sweep",
    "workloads",
]

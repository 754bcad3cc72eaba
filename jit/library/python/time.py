"""time: clocks are read by the program's own calls, and the numbers that they give are symbolic in what follows, since the next call finds others."""

from __future__ import annotations

import time

from framejit import breaks
from framejit.objects.core.registry import unsupported

CLOCKS = [
    *("monotonic", "perf_counter", "process_time", "thread_time", "time"),
    *("monotonic_ns", "perf_counter_ns", "process_time_ns", "thread_time_ns", "time_ns"),
]

for _name in CLOCKS:
    if _clock := getattr(time, _name, None):  # no platform has to measure the time of threads
        unsupported(breaks.UnsupportedCall(f"time.{_name}", reads_clock=True), _clock)

"""What the server counts, in the text form that Prometheus reads (exposition format 0.0.4).

All counting happens on the event loop's thread, so it needs no lock.
"""

from __future__ import annotations

import bisect
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency buckets in seconds: a warm route lies around 0.005, a hook's deadline at 1.5."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Histogram:
    """Counts per bucket, their sum and number."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more observation."""
        self.buckets[bisect.bisect_left(EDGES, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(self.buckets)


@dataclass(slots=True)
class Meter:
    """Requests by path and status, their time, the time of each stage, verdicts and failures, since the start."""

    began: float = field(default_factory=time.time)
    last: float = field(default_factory=time.monotonic)
    """When a request was answered last, on the clock that never goes back."""
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: dict[str, Histogram] = field(default_factory=dict)
    stages: dict[str, Histogram] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def answered(self, path: str, method: str, status: int, seconds: float) -> None:
        """One request to the path template `path` was answered."""
        self.last = time.monotonic()
        self.requests[(path, method, status)] += 1
        self.seconds.setdefault(path, Histogram()).add(seconds)

    def routed(self, steps: Iterable[tuple[str, float, str | None]], levels: Iterable[str]) -> None:
        """One route: (stage, milliseconds, error) of each step, and the verdicts' levels."""
        for stage, ms, error in steps:
            self.stages.setdefault(stage, Histogram()).add(ms / 1000.0)
            if error:
                self.failures[stage] += 1
        self.verdicts.update(levels)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, as `/metrics` shows it; `gauges` are (help, value) by name."""
        lines = [
            "# HELP metier_requests_total Requests answered.", "# TYPE metier_requests_total counter",
            *(
                f'metier_requests_total{{path="{_label(path)}",method="{_label(method)}",status="{status}"}} {n}'
                for (path, method, status), n in sorted(self.requests.items())
            ),
            *_histogram("metier_request_seconds", "Time to answer a request.", "path", self.seconds),
            *_histogram("metier_stage_seconds", "Time spent in a stage of a route.", "stage", self.stages),
            *_counter("metier_stage_failures_total", "Stages that failed.", "stage", self.failures),
            *_counter("metier_verdicts_total", "Candidates by the gate's verdict.", "level", self.verdicts),
            *_counter("metier_outcomes_total", "Outcomes recorded here, by who said so.", "origin", self.outcomes),
        ]  # fmt: skip
        now = {
            "metier_uptime_seconds": ("Seconds since the server started.", time.time() - self.began),
            "metier_resident_bytes": ("Resident memory of the server.", float(resident())),
            **gauges,
        }
        for name, (about, value) in now.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value:.10g}"]
        return "\n".join(lines) + "\n"


def _counter(name: str, about: str, label: str, values: Counter[str]) -> list[str]:
    rows = [f'{name}{{{label}="{_label(key)}"}} {n}' for key, n in sorted(values.items())]
    return [f"# HELP {name} {about}", f"# TYPE {name} counter", *rows]


def _histogram(name: str, about: str, label: str, values: Mapping[str, Histogram]) -> list[str]:
    lines = [f"# HELP {name} {about}", f"# TYPE {name} histogram"]
    for key, found in sorted(values.items()):
        mark, so_far = f'{label}="{_label(key)}"', 0
        for edge, n in zip((*EDGES, float("inf")), found.buckets, strict=True):
            so_far += n
            bound = "+Inf" if edge == float("inf") else f"{edge:g}"
            lines.append(f'{name}_bucket{{{mark},le="{bound}"}} {so_far}')
        lines += [f"{name}_sum{{{mark}}} {found.total:.9g}", f"{name}_count{{{mark}}} {so_far}"]
    return lines


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident() -> int:
    """Bytes of memory that this process holds now; where the system does not say, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _peak()


def _peak() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

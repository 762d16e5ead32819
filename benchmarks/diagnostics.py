"""Background gap, unsaid vocabulary and dilution on real requests, and what each module gains where they are high.

    python benchmarks/diagnostics.py --skills … --requests …        (as benchmarks/ablation.py)

Writes results/diagnostics-<sha12>.json: one `metier-diagnose-v1` object an encoder.
"""

from __future__ import annotations

import time

from common import arguments, arrays_of, benches_of, keep, requests_of
from metier.evaluate.diagnosis import Diagnosis, report
from metier.evaluate.sweep import Setting, Sweep


def main() -> None:
    given = arguments(__doc__).parse_args()
    began, benches, requests = time.perf_counter(), benches_of(given), requests_of(given)
    found = {}
    for modules in (("dense",), *((("dense", "tuned"),) if benches.has_tuned() else ())):
        bench = benches.bench(modules)
        sweep = Sweep(arrays_of(bench, requests))
        found[modules[-1]] = report(Diagnosis(bench, requests, sweep), Setting(alpha=bench.encoder.profile.alpha))
    keep("diagnostics", given, began, {"diagnosis": found})


if __name__ == "__main__":
    main()

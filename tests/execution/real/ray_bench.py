"""Run a suite of benchmarks and a sum on a Ray cluster of this machine, and write what came of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
from suites.sweeps import run_sweep

from optplan.parallel import spread


def find_process(number: int) -> tuple[int, int, str]:
    """Return twice a number, in which process, and from where this package is."""
    import os

    import optplan

    return 2 * number, os.getpid(), optplan.__file__


def main(folder: Path) -> None:
    """Begin a cluster of two CPUs."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    tasks = {str(number): number for number in range(4)}
    found = {
        "fresh": dict(spread(find_process, tasks, engine="ray", fresh=True)),
        "sweep": run_sweep(["srift", "runtime"], quick=True, engine="ray"),
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

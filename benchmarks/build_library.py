"""Derive the library's trace instances from the public data, and prove what the manifest records of them.

The traces and profiles are not part of this repository; what is derived from them here is: arrival rates, epoch sizes
and speedups. Run it where the public data is::

    python benchmarks/build_library.py --data ../shared/data --date 2026-11-21
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import optplan
from optplan.formulations.boa.data import BoaInstance, GpuType, JobClass
from optplan.instances.library import manifest
from optplan.instances.sia_boa import build_sia_instance
from optplan.speedup import TableSpeedup

LIBRARY = Path(__file__).resolve().parents[1] / "optplan" / "instances" / "library"
#: Significant digits that the library keeps: far more than the measurements have.
SPEEDUP_DIGITS = 6
SIZE_DIGITS = 9

T4 = GpuType(
    price_usd_per_hour=0.978,
    price_source="AWS on-demand list price of g4dn.12xlarge (4 T4), 3.912 USD/h in us-east-1, a quarter of it",
    price_date="2025-08 or later",
)
FILTERED = ("bert", "cifar10", "deepspeech2")
#: Name, workload, applications, timing, budget, what it is.
INSTANCES = (
    ("boa-newtrace", "newtrace/workload-1.csv", None, "model", "120gpu", "The paper's newTrace (Table 1)."),
    (
        "boa-newtrace-tables",
        "newtrace/workload-1.csv",
        None,
        "tables",
        "120gpu",
        "The paper's newTrace with step times as measured, neither monotone nor concave.",
    ),
    (
        "boa-filtertrace",
        "newtrace/workload-1.csv",
        FILTERED,
        "model",
        "80gpu",
        "The paper's filterTrace: the three smaller classes of newTrace.",
    ),
    ("boa-philly", "philly/workload-1.csv", None, "model", "120gpu", "A sample of Microsoft's Philly trace of 2017."),
)
#: Budgets, in GPUs, recorded in the manifest besides an instance's own.
RECORDED_GPUS = {"boa-newtrace": (80, 85, 90, 95, 100, 110, 120, 140, 160, 180, 200, 250, 300)}


def main() -> None:
    """Write the instances and the manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--date", required=True, help="date recorded with the proofs")
    arguments = parser.parse_args()
    sia = arguments.data / "sia"
    for name, workload, applications, timing, budget, description in INSTANCES:
        instance = build_sia_instance(
            sia / "workloads" / workload,
            sia / "traces",
            "aws",
            timing=timing,
            applications=applications,
        )
        instance = instance.replace(
            name=name,
            gpu_types={"t4": T4},
            budget=budget,
            description=f"{description} {instance.description}",
            classes={key: round_class(job_class) for key, job_class in instance.classes.items()},
        )
        optplan.write_json(instance, LIBRARY / f"{name}.json", overwrite=True)
        print(name, (LIBRARY / f"{name}.json").stat().st_size // 1024, "KB")
    write_manifest(arguments.date)


def round_class(job_class: JobClass) -> JobClass:
    """Keep as many digits as mean something."""
    return job_class.replace(
        epoch_size_gpu_hours=round_digits(job_class.epoch_size_gpu_hours, SIZE_DIGITS),
        speedup={
            gpu: curve.replace(speedup=round_digits(curve.speedup, SPEEDUP_DIGITS))
            for gpu, curve in job_class.speedup.items()
            if isinstance(curve, TableSpeedup)
        },
    )


def round_digits(numbers: np.ndarray, digits: int) -> np.ndarray:
    """Round to significant digits."""
    return np.array([float(f"{number:.{digits}g}") for number in numbers.ravel()]).reshape(numbers.shape)


def write_manifest(date: str) -> None:
    """Solve every instance of the library and record the best objective and bound."""
    lines = [
        "# Best objectives and bounds known, and what proved them; every entry is solved and verified again by a test.",
        "# Trace instances are made by benchmarks/build_library.py.",
    ]
    origins = dict(manifest())
    for name, *_ in INSTANCES:
        origins[name] = {
            "origin": "derived from the public Sia artifact (traces, profiles) and an AWS price list",
            "licence": "figures derived from public data; see the field source of the instance",
        }
    for name, facts in origins.items():
        lines += ["", f'["{name}"]', f'origin = "{facts["origin"]}"', f'licence = "{facts["licence"]}"']
        instance = optplan.read_instance(LIBRARY / f"{name}.json")
        assert isinstance(instance, BoaInstance)
        budgets = [str(instance.budget), *(f"{gpus}gpu" for gpus in RECORDED_GPUS.get(name, ()))]
        for budget in dict.fromkeys(budgets):
            for policy in ("pure", "mixed"):
                lines += record(instance.replace(budget=budget, policy=policy), date)
    (LIBRARY / "manifest.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(instance: BoaInstance, date: str) -> list[str]:
    """Solve, verify and write one entry."""
    result = optplan.solve(instance)
    return [
        "",
        f'[["{instance.name}".best]]',
        f'problem = "{instance.problem}"',
        f'policy = "{instance.policy}"',
        f'budget = "{instance.budget}"',
        f"objective = {result.objective!r}",
        f"bound = {result.bound!r}",
        f'proof = "{result.bound_proof}"',
        f'solver = "{result.solver}"',
        f'date = "{date}"',
    ]


if __name__ == "__main__":
    main()

"""Derive the library's trace instances from the public data, and prove what the manifest records of them.

The traces and profiles are not part of this repository; what is derived from them here is: arrival rates, epoch sizes
and speedups. Run it where the public data is::

    python benchmarks/build_library.py --data ../shared/data --date 2026-11-21

With ``--only NAME``, which may be repeated, the other instances and their records stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gavel import build_gavel_instance
from library_manifest import LIBRARY, write_manifest

import optplan
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.catalog import PriceList, read_price_list
from optplan.instances.instance_prices import set_prices
from optplan.instances.library import manifest
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.speedup import TableSpeedup

#: What names of instances of BOA begin with; only these are made here.
PREFIX = "boa-"
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
#: The profiled GPU types of newTrace on several of them, and how far each was profiled.
PROFILED_WIDTHS = {"aws": 64, "rtx": 24, "dgx-ext": 16}
#: GPUs of Sia's default cluster: 3 nodes of 8 RTX 2080 Ti and 2 of 8 A100 (the T4s can be rented without limit).
SIA_CLUSTER = {"rtx-2080-ti": 24.0, "a100": 16.0}
#: What the price of the RTX 2080 Ti is really that of.
STAND_IN = "no price list has the RTX 2080 Ti; for it stands the Quadro RTX 6000, the same chip with more memory: "
AWS, LAMBDA, GOOGLE = "aws-v8-gpu-us-east-1-us-west-2.csv", "lambda-2026-05-vms.csv", "gcp-2022-07.csv"

SIA_ORIGIN = "derived from the public Sia artifact (traces, profiles) and an AWS price list"
ORIGINS = {
    "boa-newtrace-types": "derived from the public Sia artifact (traces, profiles) and price lists of AWS and Lambda",
    "boa-newtrace-quotas": "derived from the public Sia artifact (traces, profiles) and price lists of AWS and Lambda",
    "boa-gavel": "derived from the public throughputs and trace of Gavel and a Google Cloud price list",
}
LICENCE = "figures derived from public data; see the field source of the instance"
#: Budgets recorded in the manifest besides an instance's own.
RECORDED = {
    "boa-newtrace": tuple(f"{n}gpu" for n in (80, 85, 90, 95, 100, 110, 120, 140, 160, 180, 200, 250, 300)),
    "boa-newtrace-types": tuple(f"{n}usd/hour" for n in (32, 35, 40, 50, 60, 75, 90)),
    "boa-newtrace-quotas": tuple(f"{n}usd/hour" for n in (45, 75, 85)),
    "boa-gavel": tuple(f"{n}usd/hour" for n in (62, 65, 70, 80, 90)),
}


def main() -> None:
    """Write the instances and the manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--date", required=True, help="date recorded with the proofs")
    parser.add_argument("--only", action="append", metavar="NAME", help="this instance; may be repeated")
    arguments = parser.parse_args()
    made = []
    for instance in (*derive_homogeneous(arguments.data), *derive_types(arguments.data), derive_gavel(arguments.data)):
        if arguments.only and instance.name not in arguments.only:
            continue
        rounded = {key: round_class(job_class) for key, job_class in instance.classes.items()}
        path = LIBRARY / f"{instance.name}.json"
        optplan.write_json(instance.replace(classes=rounded), path, overwrite=True)
        print(instance.name, path.stat().st_size // 1024, "KB")
        made.append(instance.name)
    record_proofs(arguments.date, made, everything=not arguments.only)


def derive_homogeneous(data: Path) -> Iterator[BoaInstance]:
    """Derive the traces on T4 GPUs alone."""
    for name, workload, applications, timing, budget, description in INSTANCES:
        instance = build_sia_instance(
            data / "sia" / "workloads" / workload,
            data / "sia" / "traces",
            "aws",
            timing=timing,
            applications=applications,
        )
        yield instance.replace(
            name=name,
            gpu_types={"t4": T4},
            budget=budget,
            description=f"{description} {instance.description}",
        )


def derive_types(data: Path) -> Iterator[BoaInstance]:
    """Derive newTrace on three types of GPU, without and with quotas."""
    instance = build_sia_instance(
        data / "sia" / "workloads" / "newtrace" / "workload-1.csv",
        data / "sia" / "traces",
        tuple(PROFILED_WIDTHS),
        max_width=PROFILED_WIDTHS,
    )
    aws, lambda_labs = read_list(data, AWS), read_list(data, LAMBDA)
    prices = {
        "t4": aws.price_of("g4dn.12xlarge", "us-east-1"),
        "rtx-2080-ti": lambda_labs.price_of("gpu_1x_rtx6000", "us-east-1"),
        "a100": aws.price_of("p4d.24xlarge", "us-east-1"),
    }
    types = dict(set_prices(instance, prices).gpu_types)
    types["rtx-2080-ti"] = types["rtx-2080-ti"].replace(price_source=STAND_IN + prices["rtx-2080-ti"].source)
    yield instance.replace(
        name="boa-newtrace-types",
        gpu_types=types,
        budget="45usd/hour",
        description=f"The paper's newTrace on three GPU types, with step times as measured. {instance.description}",
    )
    limited = {name: each.replace(quota_gpus=SIA_CLUSTER.get(name)) for name, each in types.items()}
    yield instance.replace(
        name="boa-newtrace-quotas",
        gpu_types=limited,
        budget="90usd/hour",
        description=(
            "The same with the 2080 Ti and A100 GPUs limited to those of Sia's default cluster, on average. "
            f"{instance.description}"
        ),
        source={**instance.source, "quotas": "GPUs of Sia's default cluster (SOSP 2023): 24 RTX 2080 Ti, 16 A100"},
    )


def derive_gavel(data: Path) -> BoaInstance:
    """Derive Gavel's simulated trace on its physical cluster's GPU types."""
    instance = build_gavel_instance(
        data / "gavel" / "traces" / "msr" / "seed=0-0e4a51.trace",
        data / "gavel" / "physical_cluster_throughputs.json",
    )
    google = read_list(data, GOOGLE)
    priced = set_prices(instance, {name: google.price_of(name.upper(), "us-central1") for name in instance.gpu_types})
    return priced.replace(
        name="boa-gavel",
        budget="75usd/hour",
        description=f"Gavel's long jobs on three GPU types with measured, noisy throughputs. {instance.description}",
    )


def read_list(data: Path, file: str) -> PriceList:
    """Read one of the public price lists."""
    return read_price_list(data / "catalog" / file)


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


def record_proofs(date: str, made: list[str], *, everything: bool) -> None:
    """Solve instances of the library and record the best objective and bound.

    Parameters
    ----------
    date
        Of the proofs.
    made
        Names of the instances that were written.
    everything
        Whether the records of the other instances of BOA are made again as well.
    """
    recorded = {name: facts for name, facts in manifest().items() if name.startswith(PREFIX)} if everything else {}
    changed: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys([*recorded, *made]):
        origin, licence = ORIGINS.get(name, SIA_ORIGIN), LICENCE
        if name not in made:
            origin, licence = recorded[name]["origin"], recorded[name]["licence"]
        changed[name] = {"origin": origin, "licence": licence, "best": list(prove(name, date))}
    write_manifest(changed)


def prove(name: str, date: str) -> Iterator[Mapping[str, Any]]:
    """Solve an instance at its own budget and the others on record, pure and mixed."""
    instance = optplan.read_instance(LIBRARY / f"{name}.json")
    assert isinstance(instance, BoaInstance)
    for budget in dict.fromkeys([str(instance.budget), *RECORDED.get(name, ())]):
        for policy in ("pure", "mixed"):
            yield record(instance.replace(budget=budget, policy=policy), date)


def record(instance: BoaInstance, date: str) -> dict[str, Any]:
    """Solve, verify and return one entry."""
    result = optplan.solve(instance)
    return {
        "problem": str(instance.problem),
        "policy": str(instance.policy),
        "budget": str(instance.budget),
        "objective": result.objective,
        "bound": result.bound,
        "proof": str(result.bound_proof),
        "solver": result.solver,
        "date": date,
    }


if __name__ == "__main__":
    main()

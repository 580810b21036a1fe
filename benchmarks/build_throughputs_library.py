"""Write the library's job of which speeds were measured: ResNet-50 on the GPUs of Gavel's physical cluster.

Solved, verified and recorded in the manifest::

    python benchmarks/build_throughputs_library.py --data ../shared/data --date 2026-11-22
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gavel import GPUS, read_throughputs
from library_manifest import LIBRARY, write_manifest

import optplan
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.instances.catalog import read_price_list
from optplan.instances.library import name_record

NAME = "throughputs-resnet50-gavel"
JOB, BATCH = "ResNet-50 (batch size 64)", 64
#: ImageNet's training set in 90 epochs.
SAMPLES = 90 * 1_281_167
PRICES = "gcp-2022-07.csv"
#: Digits of a measured speed that mean something.
DIGITS = 4
COMMIT = "c4fa40097339e9608ab71fd64c8bdea96a5e4a4c"


def main() -> None:
    """Write the instance and its record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    parser.add_argument("--date", required=True, help="date recorded with the proof")
    arguments = parser.parse_args()
    instance = derive(arguments.data)
    optplan.write_json(instance, LIBRARY / f"{NAME}.json", overwrite=True)
    result = optplan.solve(instance)
    best: dict[str, Any] = {
        "problem": instance.problem.value,
        "policy": "one-type",
        "deadline": f"{instance.deadline_s:g}s",
        "objective": result.objective,
        "bound": result.bound,
        "proof": result.bound_proof.value,
        "solver": result.solver,
        "date": arguments.date,
    }
    best["proof_file"] = f"{name_record(NAME, best).replace('/', '-per-')}.json"
    optplan.write_json(result, LIBRARY / "proofs" / best["proof_file"], overwrite=True)
    origin = "derived from the public throughputs of Gavel and a Google Cloud price list"
    licence = "figures derived from public data; see the field source of the instance"
    write_manifest({NAME: {"origin": origin, "licence": licence, "best": [best]}})


def derive(data: Path) -> ThroughputsInstance:
    """Read speeds, each worker with mini-batches of 64, and the prices of the GPUs, each rented alone."""
    google = read_price_list(data / "catalog" / PRICES)
    rows: list[dict[str, Any]] = []
    for gpu in GPUS:
        for configuration, consolidated in (("one server", True), ("spread", False)):
            found = read_throughputs(
                data / "gavel" / "physical_cluster_throughputs.json", gpu, consolidated=consolidated
            )
            rows += [
                {
                    "type": gpu,
                    "vms": count,
                    "configuration": configuration,
                    "samples_per_s": float(f"{BATCH * speed:.{DIGITS}g}"),
                }
                for count, speed in sorted(found.get(JOB, {}).items())
                if speed > 0
            ]
    types = {}
    for gpu in GPUS:
        price = google.price_of(gpu.upper(), "us-central1")
        types[gpu] = {
            "gpu": gpu.upper(),
            "price_usd_per_hour": price.price_usd_per_hour,
            "region": price.region,
            "price_source": price.source,
            "price_date": price.date,
        }
    return ThroughputsInstance(
        name=NAME,
        description="90 epochs of ResNet-50 on ImageNet in two days, on 1 to 8 GPUs, in one server or spread.",
        samples=SAMPLES,
        types=types,
        measurements=rows,
        deadline_s="48h",
        source={
            "speeds": f"stanford-futuredata/gavel, commit {COMMIT}, scheduler/physical_cluster_throughputs.json: "
            f"{JOB}, mini-batches a second times {BATCH}, rounded to {DIGITS} digits",
            "samples": "90 epochs of the 1,281,167 images of ImageNet's training set",
        },
    )


if __name__ == "__main__":
    main()

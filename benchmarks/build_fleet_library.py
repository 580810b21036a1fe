"""Write the library's instances of Srift, those of the paper's cases, and prove what the manifest records.

The paper publishes choices and predictions, no profiles. The figures below were fitted so that they reproduce them:
they are calibrations and say so. It needs no data::

    python benchmarks/build_fleet_library.py --date 2026-11-21
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from library_manifest import LIBRARY, write_manifest

import optplan
from optplan.formulations.srift.data.instance import SriftInstance

PAPER = "Srift: Swift and Thrift Cloud-Based Distributed Training (MLSys 2022)"
LICENCE = "figures; see the field source of the instance"
CALIBRATED = f"calibrated to the choices and predictions that {PAPER} publishes"
#: By type: GPU, GPUs, spot price (table 4), bus capacity in Gbit/s (mean of table 2; g4dn.8xlarge: that of 4xlarge).
TYPES: dict[str, tuple[str, int, float, float]] = {
    "p3.8xlarge": ("V100", 4, 3.68, 11.2),
    "g3.8xlarge": ("M60", 2, 0.69, 11.9),
    "g4dn.8xlarge": ("T4", 1, 0.72, 20.3),
}
#: Channels of VGG19's convolutions (3 x 3), and inputs and outputs of its fully connected layers.
VGG19_CHANNELS = (3, 64, 64, 128, 128, 256, 256, 256, 256, *([512] * 8))
VGG19_CONNECTED = ((25088, 4096), (4096, 4096), (4096, 1000))
BYTES_PER_PARAMETER = 4
#: A step of an all-reduce waits for 30 microseconds.
BANDWIDTH = {"form": "latency-bandwidth", "step_latency_s": 30e-6, "source": CALIBRATED}


def main() -> None:
    """Write the instances and their records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", required=True, help="date recorded with the proofs")
    arguments = parser.parse_args()
    records = {}
    for fields in list_instances():
        instance = SriftInstance.parse({"formulation": "srift", **fields})
        optplan.write_json(instance, LIBRARY / f"{instance.name}.json", overwrite=True)
        records[instance.name] = record_proof(instance, arguments.date)
    write_manifest(records)


def list_instances() -> Iterator[dict[str, Any]]:
    """Yield the fields of every instance."""
    yield case(
        "case1",
        "Case 1: Inception, batch 1024, the fastest fleet of up to 16 g4dn.8xlarge.",
        {
            "job": job("Inception v3", even_layers(95.4e6, 94), {"g4dn.8xlarge": (0.02931, 0.0129696, 128)}),
            "types": types({"g4dn.8xlarge": 16}),
            "global_batch": 1024,
            "iterations": 1000,
            "objective": "time",
        },
        where="5.2, case 1, whose labels halve the batches; the paper gives figures per iteration, 1000 are assumed",
    )
    profiles = {"g4dn.8xlarge": (0.02, 0.0147535, 128), "g3.8xlarge": (0.02, 0.0185143, 64)}
    yield case(
        "case2",
        "Case 2: VGG19, batch 1024, the cheapest fleet of up to 16 g4dn.8xlarge and 16 g3.8xlarge.",
        {
            "job": job("VGG19", vgg19_layers(), profiles),
            "types": types({"g4dn.8xlarge": 16, "g3.8xlarge": 16}),
            "global_batch": 1024,
            "iterations": 1000,
            "objective": "cost",
        },
        where="5.2, case 2; the paper gives figures per iteration, 1000 are assumed",
    )
    profiles = {
        "p3.8xlarge": (0.010, 0.00028320, 1024),
        "g3.8xlarge": (0.0014, 0.00276406, 256),
        "g4dn.8xlarge": (0.0032, 0.00274453, 256),
    }
    yield case(
        "case3",
        "Case 3: ShuffleNet, batch 6144, 1000 iterations within 10 minutes and 3 dollars.",
        {
            "job": job("ShuffleNet v2 x2.0", even_layers(29.6e6, 170), profiles),
            "types": types({"p3.8xlarge": 4, "g3.8xlarge": 8, "g4dn.8xlarge": 8}),
            "global_batch": 6144,
            "iterations": 1000,
            "objective": "cost",
            "deadline_s": 600.0,
            "budget": "3usd",
        },
        where="5.2, case 3",
    )
    profiles = {
        "p3.8xlarge": (0.02, 0.00068835, 512),
        "g3.8xlarge": (0.02, 0.0071191, 64),
        "g4dn.8xlarge": (0.02, 0.0085938, 64),
    }
    yield case(
        "interruption",
        "Section 5.4 before the interruption: ResNet50, batch 1024, 400 iterations within 500 s, the cheapest fleet.",
        {
            "job": job("ResNet50", even_layers(102.2e6, 161), profiles),
            "types": types({"p3.8xlarge": 16, "g3.8xlarge": 16, "g4dn.8xlarge": 16}),
            "global_batch": 1024,
            "iterations": 400,
            "objective": "cost",
            "deadline_s": 500.0,
        },
        where="5.4; the published choice is the optimum only for a T4 slower than the M60 on this network",
    )


def case(name: str, description: str, fields: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Return the fields of an instance, with what they rest on."""
    source = {
        "experiment": f"{PAPER}, {where}",
        "profiles": CALIBRATED,
        "prices": "spot prices of 2020, table 4 of the paper",
    }
    return {"name": f"srift-{name}", "description": description, "source": source, "bandwidth": BANDWIDTH, **fields}


def types(available: dict[str, int]) -> dict[str, Any]:
    """Return types of VM by name, so many of each available."""
    return {
        name: {
            "gpu": TYPES[name][0],
            "gpus": TYPES[name][1],
            "price_usd_per_hour": TYPES[name][2],
            "network_gbit_per_s": TYPES[name][3],
            "spot": True,
            "available": count,
            "price_source": f"{PAPER}, table 4: spot",
            "price_date": "2020",
        }
        for name, count in available.items()
    }


def job(network: str, layers: dict[str, Any], latencies: dict[str, tuple[float, float, int]]) -> dict[str, Any]:
    """Return the profile of a job from forward and backward seconds a + b * (samples per VM), a third of it forward.

    Parameters
    ----------
    network
        Its name.
    layers
        Its gradients.
    latencies
        By type of VM: a, b and the largest batch of a VM.
    """
    devices = {}
    for name, (fixed_s, per_sample_s, largest) in latencies.items():
        gpu, gpus, _, _ = TYPES[name]
        batches = [1, largest // gpus]
        sums = [fixed_s + per_sample_s * gpus * batch for batch in batches]
        devices[gpu] = {
            "batches": batches,
            "forward_s": [each / 3.0 for each in sums],
            "backward_s": [each * 2.0 / 3.0 for each in sums],
        }
    return {"network": network, "layers": layers, "devices": devices, "source": CALIBRATED}


def even_layers(total_bytes: float, count: int) -> dict[str, Any]:
    """Return layers of equal size whose gradients are ready one after the other in equal steps."""
    return {
        "gradient_bytes": [total_bytes / count] * count,
        "ready": [(number + 1) / count for number in range(count)],
    }


def vgg19_layers() -> dict[str, Any]:
    """Return VGG19's layers from the last to the first; the connected ones are ready after 0.5, 1 and 2 %."""
    connected = [(inputs + 1) * outputs for inputs, outputs in reversed(VGG19_CONNECTED)]
    convolutions = [(9 * inputs + 1) * outputs for inputs, outputs in pairwise(VGG19_CHANNELS)][::-1]
    names = [f"fc{number}" for number in (8, 7, 6)] + [f"conv{16 - number}" for number in range(16)]
    evenly = [0.02 + 0.98 * (number + 1) / 16 for number in range(16)]
    return {
        "gradient_bytes": [float(BYTES_PER_PARAMETER * each) for each in connected + convolutions],
        "ready": [0.005, 0.01, 0.02, *evenly],
        "names": names,
    }


def record_proof(instance: SriftInstance, date: str) -> dict[str, Any]:
    """Solve an instance and return its entry of the manifest."""
    result = optplan.solve(instance)
    print(instance.name, result.status, result.objective, result.bound_proof, f"{result.solve_seconds:.3f} s")
    limits = {} if instance.deadline_s is None else {"deadline": f"{instance.deadline_s:g}s"}
    if instance.budget is not None:
        limits["budget"] = str(instance.budget)
    return {
        "origin": "a case of the paper, calibrated",
        "licence": LICENCE,
        "best": [
            {
                "problem": str(instance.problem),
                "policy": "one-batch",
                **limits,
                "objective": result.objective,
                "bound": result.bound,
                "proof": str(result.bound_proof),
                "solver": result.solver,
                "date": date,
            }
        ],
    }


if __name__ == "__main__":
    main()
